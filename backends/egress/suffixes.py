"""Ends of names below which strangers register: where a wildcard means everybody or half the internet.

Not the whole Public Suffix List (https://publicsuffix.org/list/), which changes every week while a rule must
mean the same on every host: its regular part (one label; a registry's label below a country), which makes a
wildcard a refusal, and the large hosters of other people's content, which make it a warning.
"""

from __future__ import annotations

# Second labels that registries of countries sell names below: co.uk, com.au, or.jp, gv.at.
_REGISTRIES = frozenset(
    (
        "ac",
        "co",
        "com",
        "edu",
        "gob",
        "gouv",
        "gov",
        "go",
        "gv",
        "ltd",
        "mil",
        "ne",
        "net",
        "nom",
        "or",
        "org",
        "plc",
        "sch",
    )
)

SHARED = (
    "akamaihd.net",
    "akamaized.net",
    "amazonaws.com",
    "amplifyapp.com",
    "appspot.com",
    "azureedge.net",
    "azurefd.net",
    "azurewebsites.net",
    "blob.core.windows.net",
    "cloudapp.azure.com",
    "cloudapp.net",
    "cloudflare.net",
    "cloudfront.net",
    "cloudfunctions.net",
    "deno.dev",
    "digitaloceanspaces.com",
    "edgekey.net",
    "fastly.net",
    "firebaseapp.com",
    "firebaseio.com",
    "fly.dev",
    "github.dev",
    "github.io",
    "gitlab.io",
    "googleusercontent.com",
    "herokuapp.com",
    "netlify.app",
    "ngrok-free.app",
    "ngrok.app",
    "ngrok.io",
    "ondigitalocean.app",
    "onrender.com",
    "pages.dev",
    "r2.dev",
    "readthedocs.io",
    "repl.co",
    "replit.dev",
    "run.app",
    "storage.googleapis.com",
    "trafficmanager.net",
    "trycloudflare.com",
    "vercel.app",
    "web.app",
    "windows.net",
    "workers.dev",
)


def is_public(name: str) -> bool:
    """Whether ``name`` (folded) is a registry's, so that ``*.name`` is whoever pays for a name there."""
    labels = name.split(".")
    if len(labels) == 1:
        return True
    return len(labels) == 2 and len(labels[1]) == 2 and labels[0] in _REGISTRIES


def shared(name: str) -> str:
    """The hoster of strangers' content that ``*.name`` takes in, "" if none is known."""
    for one in SHARED:
        if name == one or name.endswith(f".{one}") or one.endswith(f".{name}"):
            return one
    return ""
