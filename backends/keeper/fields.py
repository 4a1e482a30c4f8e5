"""The fields of one request, each with its type."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from backends.errors import UsageError

MAX_ROWS = 4096  # of a terminal; the kernel takes 16 bits


class Fields:
    """Raises UsageError for a field that is missing or has another type."""

    def __init__(self, request: Mapping[str, Any], number: object) -> None:
        self._request = request
        self.number = number

    def value(self, name: str) -> object:
        return self._request.get(name)

    def _wrong(self, name: str, kind: str) -> UsageError:
        return UsageError(
            f"the keeper cannot do {self._request.get('op')!r}",
            f"its field {name!r} is not {kind}",
            "this is a fault of the client",
            code="bad-request",
        )

    def text(self, name: str, default: str) -> str:
        value = self._request.get(name, default)
        if not isinstance(value, str) or "\0" in value:
            raise self._wrong(name, "a text")
        return value

    def whole(self, name: str, default: int | None = None) -> int:
        value = self._request.get(name, default)
        if not isinstance(value, int) or isinstance(value, bool) or value < 0:
            raise self._wrong(name, "a whole number")
        return value

    def words(self, name: str) -> list[str]:
        value = self._request.get(name, [])
        if not isinstance(value, list) or not all(isinstance(w, str) and "\0" not in w for w in value):
            raise self._wrong(name, "a list of texts")
        return value

    def texts(self, name: str) -> dict[str, str]:
        """An environment. Names that execve(2) could not carry are left out, as a shell does."""
        value = self._request.get(name) or {}
        if not isinstance(value, dict):
            raise self._wrong(name, "an object of texts")
        for key, text in value.items():
            if not isinstance(text, str) or "\0" in text or "\0" in key:
                raise self._wrong(name, "an object of texts")
        return {key: text for key, text in value.items() if key and "=" not in key}

    def size(self) -> tuple[int, int]:
        rows, cols = self.whole("rows", 24), self.whole("cols", 80)
        if not 0 < rows <= MAX_ROWS or not 0 < cols <= MAX_ROWS:
            raise self._wrong("rows, cols", f"between 1 and {MAX_ROWS}")
        return rows, cols
