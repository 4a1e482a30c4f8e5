"""Secrets in added lines, found by the detectors of detect-secrets and told without the secret itself.

Runs in the examiner's process only. Its filters are chosen here: comments that ask to be left out
(``pragma: allowlist secret``) are not heard, since who wrote the text is who should not leave a secret in it.
Nothing is verified over the network.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

MOST_FOUND = 100  # of one file
LONGEST_LINE = 4000  # characters that are searched at once; a longer line is searched in pieces
OVERLAP = 300
MOST_TEXT = 1 << 20  # characters of added lines of one file
ENTROPY = ("Base64HighEntropyString", "HexHighEntropyString")

_NAMED = (
    "ArtifactoryDetector", "AWSKeyDetector", "AzureStorageKeyDetector", "BasicAuthDetector",
    "CloudantDetector", "DiscordBotTokenDetector", "GitHubTokenDetector", "GitLabTokenDetector",
    "IbmCloudIamDetector", "IbmCosHmacDetector", "JwtTokenDetector", "KeywordDetector", "MailchimpDetector",
    "NpmDetector", "OpenAIDetector", "PrivateKeyDetector", "PypiTokenDetector", "SendGridDetector",
    "SlackDetector", "SoftlayerDetector", "SquareOAuthDetector", "StripeDetector", "TelegramBotTokenDetector",
    "TwilioKeyDetector",
)  # fmt: skip


class Detector:
    """All detectors, ready; raises ``ImportError`` where the library is not there."""

    def __init__(self) -> None:
        sys.modules.setdefault("requests", _no_client())
        from detect_secrets.core.plugins.util import get_mapping_from_secret_type_to_class
        from detect_secrets.filters import heuristic
        from detect_secrets.settings import get_settings

        get_settings().disable_filters(
            "detect_secrets.filters.common.is_ignored_due_to_verification_policies"
        )

        every: dict[str, Any] = get_mapping_from_secret_type_to_class()
        classes = {one.__name__: one for one in every.values()}
        self._named = [(name, classes[name]()) for name in _NAMED if name in classes]
        self._random = [(name, classes[name]()) for name in ENTROPY if name in classes]
        self._unlikely: tuple[Callable[[str], bool], ...] = (
            heuristic.is_sequential_string,
            heuristic.is_potential_uuid,
            heuristic.is_templated_secret,
            heuristic.is_prefixed_with_dollar_sign,
            heuristic.is_not_alphanumeric_string,
        )

    def find(self, name: str, old: bytes, new: bytes, *, entropy: bool) -> dict[str, Any]:
        """Rows of line, kind, masked form and whether it has a known form, as JSON values. ``entropy``: look
        for what is only random as well."""
        rows: list[list[Any]] = []
        left = MOST_TEXT
        note = ""
        for number, line in _added(old, new):
            known: set[str] = set()
            for piece in _pieces(line[: max(left, 0)]):
                for secret, kind, named in self._look(name, piece, entropy):
                    if secret not in known:
                        known.add(secret)
                        rows.append([number, kind, masked(secret), named])
            left -= len(line)
            if left < 0 or len(rows) >= MOST_FOUND:
                del rows[MOST_FOUND:]
                bound = f"{MOST_TEXT} characters" if left < 0 else f"{MOST_FOUND} findings"
                note = f"what follows line {number} was not searched: {bound} are the most of one file"
                break
        return {"rows": rows, "note": note}

    def _look(self, name: str, line: str, entropy: bool) -> Iterator[tuple[str, str, bool]]:
        seen = False
        for plugin_name, plugin in self._named:
            for found in plugin.analyze_line(filename=name, line=line, line_number=1):
                value = found.secret_value or ""
                if plugin_name == "KeywordDetector" and self._harmless(value):
                    continue
                seen = True
                yield value, found.type, True
        for _, plugin in self._random if entropy and not seen else ():
            for found in plugin.analyze_line(filename=name, line=line, line_number=1):
                value = found.secret_value or ""
                if not self._harmless(value):
                    yield value, found.type, False

    def _harmless(self, value: str) -> bool:
        return len(value) < 6 or any(unlikely(value) for unlikely in self._unlikely)


def _no_client() -> ModuleType:
    """In the place of the HTTP client with which the library would verify what it found: this process has no
    network, and the client takes four times as long to load as the detectors."""
    made = ModuleType("requests")
    made.__dict__.update(Response=object, exceptions=ModuleType("requests.exceptions"))
    made.exceptions.RequestException = OSError
    return made


def masked(secret: str) -> str:
    """What of a secret is shown: its length, and of a long one the first characters."""
    if len(secret) < 6:  # some detectors give the beginning of a token only
        return "…"
    shown = secret[: min(4, len(secret) // 6)]
    return f"{shown}… ({len(secret)} characters)"


def _added(old: bytes, new: bytes) -> Iterator[tuple[int, str]]:
    """Number and text of each line of ``new`` that ``old`` holds no equal of."""
    known = set(old.split(b"\n"))
    for number, line in enumerate(new.split(b"\n"), 1):
        if line and line not in known:
            yield number, line.decode("utf-8", "replace").rstrip("\r")


def _pieces(line: str) -> Iterator[str]:
    if len(line) <= LONGEST_LINE:
        yield line
        return
    for at in range(0, len(line), LONGEST_LINE - OVERLAP):
        yield line[at : at + LONGEST_LINE]
