"""Secrets taken out of command lines, environments and texts before they are written down.

Pure functions over what people are known to type: options and variables with telling names, headers, URLs
with user information, and token formats that their issuers documented. A value is replaced whole by
``[redacted]``; names stay, so that a reader sees that a secret was given and where. A
secret under a name that tells nothing (``-x hunter2``) cannot be known: redaction lowers a risk and is not a
promise.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

MARK = "[redacted]"

# A name is secret when one of its words is one of these, or ends so ...
_WORDS = frozenset(
    (
        "pass",
        "pwd",
        "auth",
        "bearer",
        "jwt",
        "sig",
        "signature",
        "credential",
        "credentials",
        "creds",
        "secrets",
    )
)
_ENDINGS = (
    "password",
    "passwd",
    "passphrase",
    "passcode",
    "token",
    "secret",
    "apikey",
    "authorization",
    "cookie",
)
# ... or when "key" follows one of these.
_KEYS = frozenset(
    (
        "access", "account", "api", "app", "auth", "client", "consumer", "deploy", "encryption", "license",
        "master", "private", "secret", "service", "shared", "signing", "ssh", "storage", "subscription",
    )
)  # fmt: skip
# Names that speak of a secret but hold something else.
_HARMLESS = frozenset(("pwd", "oldpwd", "ssh-auth-sock", "ssh-auth-info-fd"))
_HARMLESS_ENDINGS = frozenset(
    (
        "algorithm", "command", "count", "dir", "env", "expiry", "fd", "file", "files", "helper", "host",
        "length", "limit", "method", "mode", "name", "path", "paths", "port", "prompt", "provider", "scheme",
        "sock", "socket", "stdin", "store", "ttl", "type", "uri", "url", "version",
    )
)  # fmt: skip

_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_NAME = r"[A-Za-z_][A-Za-z0-9_.\-]{0,80}+"  # possessive: a long word costs no backtracking

_OPTION = re.compile(rf"\A--?({_NAME})\Z")
_ASSIGNMENT = re.compile(rf"\A((?:--?)?({_NAME})=)(.+)\Z", re.S)

# name=value, name: value, "name": "value" inside a longer text.
_NAME_AND_SIGN = re.compile(rf"({_NAME})(\\?[\"']?[ \t]{{0,4}}(?::=|=>|[=:])[ \t]{{0,4}})(?!//)")
_AUTH_SCHEME = r"((?:(?:basic|bearer|digest|negotiate|token)[ \t]{1,4})?)"
_VALUE = re.compile(
    _AUTH_SCHEME + r"(?:"
    r"(\\\")(?:(?!\\\")[^\n])*(\\\")?|(\")(?:\\.|[^\"\\\n])*(\")?|(')[^'\n]*(')?|"
    r"\[redacted\]|[^\s\"'`&;,|<>(){}\\]+)",
    re.I,
)
# Cookies and authorization headers hold spaces and semicolons: everything up to the end of the line or quote.
_HEADER = re.compile(
    r"((?:proxy-|x-)?(?:authorization|auth-token|api-key)|set-cookie|cookie)(:[ \t]{0,4})"
    + _AUTH_SCHEME
    + r"([^\r\n\"']+)",
    re.I,
)
_SCHEME = re.compile(r"\b(Basic|Bearer)([ \t]{1,4})(?=[A-Za-z]*[^A-Za-z\s])([A-Za-z0-9+/_.~\-]{8,}=*)", re.I)
# --option value inside a longer text, as in sh -c "..."
_FLAG = re.compile(rf"(?<![^\s\"'`=(])--?({_NAME})[ \t]{{1,4}}(?!-)")
_SCRIPT = re.compile(r"\A-[A-Za-z]*[ce]\Z")
_USERINFO = re.compile(r"\b([a-z][a-z0-9+.\-]{1,20}://)([^\s/?#\"'<>\\]+)@", re.I)

_TOKENS = re.compile(
    "|".join(
        (
            r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY-----(?:(?!-----END)[\s\S])*"
            r"(?:-----END [A-Z0-9 ]{0,40}-----)?",
            r"\bgh[pousr]_[A-Za-z0-9]{16,}",  # GitHub
            r"\bgithub_pat_[A-Za-z0-9_]{16,}",
            r"\bgl(?:pat|rt|ptt|dt|soat|cbt)-[A-Za-z0-9_\-]{16,}",  # GitLab
            r"\bsk-[A-Za-z0-9_\-]{16,}",  # OpenAI, Anthropic and others
            r"\b[sr]k_(?:live|test)_[A-Za-z0-9]{8,}",  # Stripe
            r"\bwhsec_[A-Za-z0-9+/=]{16,}",
            r"\bxox[abeoprs]-[A-Za-z0-9\-]{8,}",  # Slack
            r"\bxapp-[A-Za-z0-9\-]{8,}",
            r"hooks\.slack\.com/services/[A-Za-z0-9/]+",
            r"\b(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}\b",  # AWS
            r"\bAIza[A-Za-z0-9_\-]{35}",  # Google
            r"\bya29\.[A-Za-z0-9_\-]{16,}",
            r"\bGOCSPX-[A-Za-z0-9_\-]{16,}",
            r"\bnpm_[A-Za-z0-9]{20,}",
            r"\bpypi-[A-Za-z0-9_\-]{16,}",
            r"\bhf_[A-Za-z0-9]{20,}",
            r"\bdo[opr]_v1_[a-f0-9]{16,}",  # DigitalOcean
            r"\bshp(?:at|ca|pa|ss)_[A-Fa-f0-9]{16,}",
            r"\bSG\.[A-Za-z0-9_\-]{16,}\.[A-Za-z0-9_\-]{16,}",  # SendGrid
            r"\btskey-[A-Za-z0-9\-]{8,}",
            r"\bhv[sbr]\.[A-Za-z0-9_\-]{16,}",  # Vault
            r"\bAGE-SECRET-KEY-1[A-Z0-9]{16,}",
            r"\bdckr_pat_[A-Za-z0-9_\-]{16,}",
            r"\blin_api_[A-Za-z0-9]{16,}",
            r"\beyJ[A-Za-z0-9_\-]{8,}\.[A-Za-z0-9_\-]{8,}(?:\.[A-Za-z0-9_\-]*)?",  # JSON web tokens
            r"\b[0-9]{8,10}:AA[A-Za-z0-9_\-]{32,}",  # Telegram bots
        )
    )
)

# Short options that hold a password for one program and something else for the next.
_PROGRAM_OPTIONS: dict[str, tuple[str, ...]] = {
    "curl": ("-u", "--user", "-U", "--proxy-user", "-b"),
    "wget": ("--user",),
    "http": ("-a",),
    "https": ("-a",),
    "sshpass": ("-p",),
    "mysql": ("-p",),
    "mysqldump": ("-p",),
    "mariadb": ("-p",),
    "docker": ("-p",),
    "podman": ("-p",),
    "redis-cli": ("-a",),
    "ldapsearch": ("-w",),
    "smbclient": ("-U",),
    "7z": ("-p",),
    "unzip": ("-P",),
    "zip": ("-P",),
    "openssl": ("-passin", "-passout", "-k"),
}
# docker run -p 80:80 publishes a port: -p holds a password only after "login".
_NEEDS_WORD = {"docker": "login", "podman": "login"}


def is_secret_name(name: str) -> bool:
    """Whether an option, variable, header or field of this name is taken to hold a secret."""
    words = [w for w in re.split(r"[-_.]+", _CAMEL.sub("-", name).lower()) if w]
    if not words or "-".join(words) in _HARMLESS or words[0] == "no" or words[-1] in _HARMLESS_ENDINGS:
        return False
    for index, word in enumerate(words):
        if word in _WORDS or word.endswith(_ENDINGS):
            return True
        if word == "key" and index and words[index - 1] in _KEYS:
            return True
    return False


def redact_text(text: str) -> str:
    """The text with everything that looks like a secret replaced; a second pass changes nothing."""
    if not _worth_reading(text):
        return text
    text = _TOKENS.sub(MARK, text)
    text = _HEADER.sub(rf"\1\2\3{MARK}", text)
    text = _USERINFO.sub(_userinfo, text)
    text = _replace_values(_NAME_AND_SIGN, text)
    text = _replace_values(_FLAG, text)
    return _SCHEME.sub(rf"\1\2{MARK}", text)


def redact_argv(argv: Sequence[str]) -> tuple[str, ...]:
    """The arguments, as many as there were, with secrets replaced (also the one after ``--token``)."""
    if not argv:
        return ()
    program = argv[0].rsplit("/", 1)[-1]
    special = _PROGRAM_OPTIONS.get(program, ())
    if program in _NEEDS_WORD and _NEEDS_WORD[program] not in argv:
        special = ()
    out: list[str] = [redact_text(argv[0])]
    before = ""
    for argument in argv[1:]:
        out.append(_argument(argument, before, special))
        before = argument
    return tuple(out)


def _argument(argument: str, before: str, special: tuple[str, ...]) -> str:
    if _takes_secret(before, special) and (not argument.startswith("-") or argument == "-"):
        return MARK
    for option in special:
        if len(option) == 2 and argument.startswith(option) and argument != option:
            return option + MARK
    # A script is read as text, or its first assignment would hide all of it.
    assigned = None if _SCRIPT.match(before) else _ASSIGNMENT.match(argument)
    if assigned and (is_secret_name(assigned[2]) or assigned[1][:-1] in special):
        return assigned[1] + MARK
    return redact_text(argument)


def _takes_secret(option: str, special: tuple[str, ...]) -> bool:
    match = _OPTION.match(option)
    return option in special or (match is not None and is_secret_name(match[1]))


def redact_env(env: Mapping[str, str]) -> dict[str, str]:
    """The variables with the values of secret names, and secrets within other values, replaced."""
    return {
        name: MARK if value and is_secret_name(name) else redact_text(value) for name, value in env.items()
    }


def _worth_reading(text: str) -> bool:
    # Most arguments are short words or paths: none of the patterns can match without one of these.
    return len(text) >= 20 or (len(text) >= 8 and any(c in text for c in ":=_- "))


def _replace_values(pattern: re.Pattern[str], text: str) -> str:
    """Replace the value behind each secret name; a value behind another name is read for names itself."""
    out: list[str] = []
    done = 0
    found = pattern.search(text)
    while found:
        end = found.end()
        value = _VALUE.match(text, end) if is_secret_name(found[1]) else None
        if value:
            opening = value[2] or value[4] or value[6] or ""
            closing = value[3] or value[5] or value[7] or ""
            out.append(f"{text[done:end]}{value[1]}{opening}{MARK}{closing}")
            done = end = value.end()
        found = pattern.search(text, end)
    return "".join((*out, text[done:])) if out else text


def _userinfo(match: re.Match[str]) -> str:
    if match[1].lower() in ("ssh://", "git+ssh://", "svn+ssh://") and ":" not in match[2]:
        return match[0]
    return f"{match[1]}{MARK}@"
