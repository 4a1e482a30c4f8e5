"""Colours for source text in linear time.

The text is hostile: the rules of a general highlighter can be made to backtrack for minutes, in ``re``,
which no thread and no timer interrupts. These expressions cannot: each alternative starts with a different
character and repeats a single class. What is lost is depth; a diff needs words, strings and comments.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from widgets.ink import Run


class Language(NamedTuple):
    words: frozenset[str]
    comment: str  # to the end of the line, "" when none
    block: tuple[str, str]  # ("", "") when none
    quotes: str
    triple: bool  # strings of three quotes span lines


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_C_WORDS = (
    "auto bool break case catch char class const constexpr continue default delete do double else "
    "enum extern false float for goto if inline int long namespace new nullptr operator private "
    "protected public return short signed sizeof static struct switch template this throw true "
    "try typedef union unsigned using virtual void volatile while"
)
_PYTHON = Language(
    _words(
        "False None True and as assert async await break case class continue def del elif else except "
        "finally for from global if import in is lambda match nonlocal not or pass raise return try "
        "while with yield self"
    ),
    "#",
    ("", ""),
    "\"'",
    True,
)
_C = Language(_words(_C_WORDS), "//", ("/*", "*/"), "\"'", False)
_SCRIPT = Language(
    _words(
        "abstract any as async await boolean break case catch class const continue debugger default "
        "delete do else enum export extends false finally for from function get if implements import "
        "in instanceof interface let new null number of private protected public readonly return set "
        "static string super switch this throw true try type typeof undefined var void while with "
        "yield"
    ),
    "//",
    ("/*", "*/"),
    "\"'`",
    False,
)
_RUST = Language(
    _words(
        "as async await break const continue crate dyn else enum extern false fn for if impl in let "
        "loop match mod move mut pub ref return self Self static struct super trait true type unsafe "
        "use where while"
    ),
    "//",
    ("/*", "*/"),
    '"',
    False,
)
_GO = Language(
    _words(
        "break case chan const continue default defer else fallthrough for func go goto if import "
        "interface map package range return select struct switch type var nil true false"
    ),
    "//",
    ("/*", "*/"),
    "\"'`",
    False,
)
_JAVA = Language(
    _words(
        _C_WORDS
        + " abstract extends final implements import instanceof interface package super synchronized "
        "throws var record sealed null"
    ),
    "//",
    ("/*", "*/"),
    "\"'",
    False,
)
_SHELL = Language(
    _words(
        "case do done elif else esac export fi for function if in local return set then until while unset"
    ),
    "#",
    ("", ""),
    "\"'",
    False,
)
_RUBY = Language(
    _words(
        "alias and begin break case class def do else elsif end ensure false for if in module next "
        "nil not or redo require rescue retry return self super then true undef unless until when "
        "while yield"
    ),
    "#",
    ("", ""),
    "\"'",
    False,
)
_DATA = Language(_words("true false null yes no on off"), "#", ("", ""), "\"'", False)
_JSON = Language(_words("true false null"), "", ("", ""), '"', False)
_CSS = Language(frozenset(), "", ("/*", "*/"), "\"'", False)
_SQL = Language(
    _words("select insert update delete from where join on and or not null create table index drop alter "
        "into values set order by group having limit as in is SELECT INSERT UPDATE DELETE FROM WHERE "
        "JOIN ON AND OR NOT NULL CREATE TABLE INDEX DROP ALTER INTO VALUES SET ORDER BY GROUP HAVING "
        "LIMIT AS IN IS"),
    "--",
    ("/*", "*/"),
    "'",
    False,
)  # fmt: skip

LANGUAGES: dict[str, Language] = {
    **dict.fromkeys(("py", "pyi", "pyx"), _PYTHON),
    **dict.fromkeys(("c", "h", "cc", "cpp", "hpp", "cxx", "m", "cu"), _C),
    **dict.fromkeys(("js", "jsx", "ts", "tsx", "mjs", "cjs", "mts", "vue", "svelte"), _SCRIPT),
    **dict.fromkeys(("java", "kt", "kts", "scala", "cs", "swift", "dart"), _JAVA),
    **dict.fromkeys(("sh", "bash", "zsh", "mk", "makefile", "dockerfile", "containerfile"), _SHELL),
    **dict.fromkeys(("toml", "yaml", "yml", "ini", "cfg", "conf", "properties", "gitignore"), _DATA),
    **dict.fromkeys(("json", "lock", "jsonc"), _JSON),
    **dict.fromkeys(("css", "scss", "less", "tcss"), _CSS),
    "rs": _RUST,
    "go": _GO,
    "rb": _RUBY,
    "sql": _SQL,
}
_TOKEN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*|[0-9][0-9A-Za-z_.]*|\s+|[^\sA-Za-z0-9_]")


def language_of(path: bytes) -> Language | None:
    """The language that the file's name suggests, ``None`` when it says nothing."""
    name = path.rsplit(b"/", 1)[-1].decode("ascii", "replace").lower()
    return LANGUAGES.get(name.rsplit(".", 1)[-1])


def lex(text: str, language: Language, state: str = "") -> tuple[list[Run], str]:
    """The runs of one line, and what stays open at its end (``""``, a comment's or string's closing mark).

    ``text`` must already be printable. The state is passed on from line to line within a hunk.
    """
    out: list[Run] = []
    place = 0
    size = len(text)
    if state:
        end = text.find(state)
        ink = "comment" if state == language.block[1] else "string"
        if end < 0:
            return [Run(text, ink)], state
        place = end + len(state)
        out.append(Run(text[:place], ink))
    while place < size:
        if language.comment and text.startswith(language.comment, place):
            out.append(Run(text[place:], "comment"))
            return out, ""
        if language.block[0] and text.startswith(language.block[0], place):
            end = text.find(language.block[1], place + 2)
            if end < 0:
                out.append(Run(text[place:], "comment"))
                return out, language.block[1]
            end += len(language.block[1])
            out.append(Run(text[place:end], "comment"))
            place = end
            continue
        char = text[place]
        if char in language.quotes:
            if language.triple and text.startswith(char * 3, place):
                end = text.find(char * 3, place + 3)
                if end < 0:
                    out.append(Run(text[place:], "string"))
                    return out, char * 3
                end += 3
            else:
                end = _string_end(text, place)
            out.append(Run(text[place:end], "string"))
            place = end
            continue
        match = _TOKEN.match(text, place)
        if match is None:
            out.append(Run(text[place:]))
            break
        token = match[0]
        place = match.end()
        if token[0].isdigit():
            out.append(Run(token, "number"))
        elif token in language.words:
            out.append(Run(token, "word"))
        elif (token[0].isalpha() or token[0] == "_") and text.startswith("(", place):
            out.append(Run(token, "name"))
        elif out and not out[-1].ink:
            out[-1] = Run(out[-1].text + token)
        else:
            out.append(Run(token))
    return out, ""


def _string_end(text: str, start: int) -> int:
    quote = text[start]
    place = start + 1
    while place < len(text):
        if text[place] == "\\":
            place += 2
        elif text[place] == quote:
            return place + 1
        else:
            place += 1
    return len(text)
