"""Keys as the bytes that a program in a terminal expects (xterm, ctlseqs)."""

from __future__ import annotations

_CURSOR = {"up": "A", "down": "B", "right": "C", "left": "D", "home": "H", "end": "F"}
_TILDE = {
    **{"insert": 2, "delete": 3, "pageup": 5, "pagedown": 6},
    **{"f5": 15, "f6": 17, "f7": 18, "f8": 19, "f9": 20, "f10": 21, "f11": 23, "f12": 24},
}
_SS3 = {"f1": "P", "f2": "Q", "f3": "R", "f4": "S"}
_PLAIN = {
    "enter": b"\r",
    "tab": b"\t",
    "shift+tab": b"\x1b[Z",
    "backspace": b"\x7f",
    "escape": b"\x1b",
    "space": b" ",
    "ctrl+space": b"\x00",
    "ctrl+@": b"\x00",
    "ctrl+backslash": b"\x1c",
    "ctrl+right_square_bracket": b"\x1d",
    "ctrl+circumflex_accent": b"\x1e",
    "ctrl+underscore": b"\x1f",
    "ctrl+backspace": b"\x08",
}
_MODIFIERS = {"shift": 1, "alt": 2, "ctrl": 4}


def bytes_of(key: str, character: str | None, application_cursor: bool = False) -> bytes:
    """What pressing ``key`` (Textual's name) types; b"" for a key that types nothing."""
    if key in _PLAIN:
        return _PLAIN[key]
    *modifiers, name = key.split("+")
    level = 1 + sum(_MODIFIERS.get(modifier, 0) for modifier in modifiers)
    if name in _CURSOR:
        if level > 1:
            return f"\x1b[1;{level}{_CURSOR[name]}".encode()
        return f"\x1b{'O' if application_cursor else '['}{_CURSOR[name]}".encode()
    if name in _TILDE:
        return f"\x1b[{_TILDE[name]}{f';{level}' if level > 1 else ''}~".encode()
    if name in _SS3:
        return f"\x1b[1;{level}{_SS3[name]}".encode() if level > 1 else f"\x1bO{_SS3[name]}".encode()
    if "ctrl" in modifiers and len(name) == 1 and name.isascii() and name.isalpha():
        code = bytes([ord(name.upper()) - 64])
        return b"\x1b" + code if "alt" in modifiers else code
    if "alt" in modifiers and len(name) == 1:
        return b"\x1b" + name.encode()
    if character and character.isprintable():
        return character.encode("utf-8", "ignore")
    return b""


def paste_bytes(text: str, bracketed: bool) -> bytes:
    """Pasted text; within brackets nothing of it may end the bracket early."""
    clean = text.replace("\x1b", "").replace("\r\n", "\r").replace("\n", "\r")
    data = clean.encode("utf-8", "ignore")
    return b"\x1b[200~" + data + b"\x1b[201~" if bracketed else data
