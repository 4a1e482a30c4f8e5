"""On which line of a TOML file each key, list element and table stands.

``tomllib`` gives values without positions, and the maintained libraries that keep positions rewrite
documents instead of reporting lines. This scanner only finds positions: it runs on text that ``tomllib``
has already accepted, so it decides nothing about validity (TOML 1.0: https://toml.io/en/v1.0.0).
"""

from __future__ import annotations

from bisect import bisect_right

Path = tuple[str | int, ...]

_BLANK = " \t\r\n"


def locate(text: str) -> dict[Path, int]:
    """The first line, counted from 1, of every key and list element of a valid document."""
    return _Scanner(text.replace("\r\n", "\n")).document()


class _Scanner:
    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._starts = [0, *(i + 1 for i, c in enumerate(text) if c == "\n")]
        self._lines: dict[Path, int] = {}
        self._tables: dict[Path, int] = {}  # arrays of tables: how many elements so far

    def document(self) -> dict[Path, int]:
        prefix: Path = ()
        while self._skip():
            start = self._at
            if self._text[start] != "[":
                self._pair(prefix)
                continue
            array = self._text.startswith("[[", start)
            self._at += 2 if array else 1
            keys = self._keys()
            self._at += 2 if array else 1
            prefix = self._header(keys, array, start)
        return self._lines

    def _header(self, keys: list[str], array: bool, start: int) -> Path:
        path: Path = ()
        for index, key in enumerate(keys):
            path += (key,)
            self._note(path, start)
            if array and index == len(keys) - 1:
                self._tables[path] = self._tables.get(path, 0) + 1
            if path in self._tables:
                path += (self._tables[path] - 1,)
                self._note(path, start)
        return path

    def _note(self, path: Path, offset: int) -> None:
        self._lines.setdefault(path, bisect_right(self._starts, offset))

    def _skip(self, extra: str = "") -> bool:
        """Passes blanks, comments and the ``extra`` characters; False at the end."""
        text, end = self._text, len(self._text)
        while self._at < end:
            char = text[self._at]
            if char == "#":
                stop = text.find("\n", self._at)
                self._at = end if stop < 0 else stop
            elif char in _BLANK or char in extra:
                self._at += 1
            else:
                return True
        return False

    def _keys(self) -> list[str]:
        """A dotted key; stops at the character behind it."""
        keys = []
        while self._skip("."):
            char = self._text[self._at]
            if char in "\"'":
                start = self._at
                self._string()
                import tomllib

                keys.append(str(tomllib.loads(f"k={self._text[start : self._at]}")["k"]))
            elif char.isalnum() or char in "-_":
                start = self._at
                while self._text[self._at].isalnum() or self._text[self._at] in "-_":
                    self._at += 1
                keys.append(self._text[start : self._at])
            else:
                break
        return keys

    def _pair(self, prefix: Path) -> None:
        start, path = self._at, prefix
        for key in self._keys():
            path += (key,)
            self._note(path, start)
        self._skip("=")
        self._value(path)

    def _value(self, path: Path) -> None:
        char = self._text[self._at]
        if char in "\"'":
            self._string()
        elif char == "[":
            self._at += 1
            index = 0
            while self._skip(",") and self._text[self._at] != "]":
                self._note((*path, index), self._at)
                self._value((*path, index))
                index += 1
            self._at += 1
        elif char == "{":
            self._at += 1
            while self._skip(",") and self._text[self._at] != "}":
                self._pair(path)
            self._at += 1
        else:
            while self._at < len(self._text) and self._text[self._at] not in ",]}#\n":
                self._at += 1

    def _string(self) -> None:
        text, quote = self._text, self._text[self._at]
        fence = quote * 3 if text.startswith(quote * 3, self._at) else quote
        self._at += len(fence)
        while not text.startswith(fence, self._at):
            self._at += 2 if quote == '"' and text[self._at] == "\\" else 1
        self._at += len(fence)
        if len(fence) == 3:
            # Up to two quotes may stand directly before the closing fence and belong to the text.
            for _ in range(2):
                self._at += text.startswith(quote, self._at)
