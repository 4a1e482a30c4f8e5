"""The line that an error or an explanation names is the line that a person has to edit."""

from __future__ import annotations

import tomllib

from hypothesis import given
from hypothesis import strategies as st

from backends.policy.lines import Path, locate

DOCUMENT = '''# comment with [a.table] and key = 1
top = "x" # end
"quoted key".'literal' = 1
multi = """
[not.a.table]
not = "a key" \\""" still
"""
literal = \'\'\'
k = 1\'\'\'
quotes = """ends with two quotes"""""
list = [
  "one",  # [comment]
  "two, ]",

  ["nested", { in = 1, line = [2] }],
]

[profiles.web]
extends = "default"
fs.read = ["/a",
  "/b"]
fs.write = []

  [ profiles . web . "net" ]
  mode = "deny"

[[array]]
a = 1
[[array]]
a = 2
[array.sub]
b = 3
'''

WANTED: dict[Path, int] = {
    ("top",): 2,
    ("quoted key",): 3,
    ("quoted key", "literal"): 3,
    ("multi",): 4,
    ("literal",): 8,
    ("quotes",): 10,
    ("list",): 11,
    ("list", 0): 12,
    ("list", 1): 13,
    ("list", 2): 15,
    ("list", 2, 0): 15,
    ("list", 2, 1): 15,
    ("list", 2, 1, "in"): 15,
    ("list", 2, 1, "line"): 15,
    ("list", 2, 1, "line", 0): 15,
    ("profiles",): 18,
    ("profiles", "web"): 18,
    ("profiles", "web", "extends"): 19,
    ("profiles", "web", "fs"): 20,
    ("profiles", "web", "fs", "read"): 20,
    ("profiles", "web", "fs", "read", 0): 20,
    ("profiles", "web", "fs", "read", 1): 21,
    ("profiles", "web", "fs", "write"): 22,
    ("profiles", "web", "net"): 24,
    ("profiles", "web", "net", "mode"): 25,
    ("array",): 27,
    ("array", 0): 27,
    ("array", 0, "a"): 28,
    ("array", 1): 29,
    ("array", 1, "a"): 30,
    ("array", 1, "sub"): 31,
    ("array", 1, "sub", "b"): 32,
}


def paths_of(value: object, at: Path = ()) -> set[Path]:
    found = {at} if at else set()
    items: list[tuple[str | int, object]] = []
    if isinstance(value, dict):
        items = list(value.items())
    elif isinstance(value, list):
        items = list(enumerate(value))
    return found.union(*(paths_of(one, (*at, key)) for key, one in items))


def test_every_key_and_element_has_its_line() -> None:
    assert locate(DOCUMENT) == WANTED
    assert paths_of(tomllib.loads(DOCUMENT)) == set(WANTED)


def test_windows_line_ends_count_once() -> None:
    assert locate("a = 1\r\n\r\nb = 2\r\n") == {("a",): 1, ("b",): 3}


names = st.text("ab.-\"'#=[] \n\u00e9\\", min_size=1, max_size=6)
leaves = (
    st.integers(-9, 9)
    | st.booleans()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text("xy,]}#\"'\\\n[= ", max_size=8)
)
documents = st.recursive(
    st.dictionaries(names, leaves, max_size=3),
    lambda inner: st.dictionaries(names, leaves | inner | st.lists(leaves | inner, max_size=3), max_size=3),
    max_leaves=12,
)
layouts = st.randoms(use_true_random=False)


def quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


class Writer:
    """Writes a document in one of its many layouts and notes the line of each key as it goes."""

    def __init__(self, random: object) -> None:
        self.text = ""
        self.lines: dict[Path, int] = {}
        self.random = random

    def note(self, path: Path) -> None:
        self.lines.setdefault(path, self.text.count("\n") + 1)

    def coin(self) -> bool:
        return bool(self.random.random() < 0.5)  # type: ignore[attr-defined]

    def value(self, value: object, at: Path) -> None:
        if isinstance(value, dict):
            self.text += "{"
            for index, (key, one) in enumerate(value.items()):
                self.text += ", " if index else ""
                self.note((*at, key))
                self.text += f"{quoted(key)} = "
                self.value(one, (*at, key))
            self.text += "}"
        elif isinstance(value, list):
            self.text += "["
            for index, one in enumerate(value):
                self.text += "\n # [x] = ,\n" if self.coin() else " "
                self.note((*at, index))
                self.value(one, (*at, index))
                self.text += ","
            self.text += "]"
        elif isinstance(value, str):
            plain = "'" not in value and "\n" not in value
            multi = '"""' not in value and "\\" not in value and not value.endswith('"')
            if plain and self.coin():
                self.text += f"'{value}'"
            elif multi and self.coin():
                self.text += f'"""\n{value}"""'
            else:
                self.text += quoted(value)
        elif isinstance(value, bool):
            self.text += "true" if value else "false"
        else:
            self.text += repr(value)

    def table(self, table: dict[str, object], at: Path) -> None:
        later = []
        for key, value in table.items():
            if isinstance(value, dict) and self.coin():
                later.append((key, value))
                continue
            self.text += "\n# k = 1\n" if self.coin() else ""
            self.note((*at, key))
            self.text += f"{quoted(key)}="
            self.value(value, (*at, key))
            self.text += " # end\n" if self.coin() else "\n"
        for key, inner in later:
            for depth in range(1, len(at) + 2):
                self.note((*at, key)[:depth])
            self.text += "[" + ".".join(quoted(str(part)) for part in (*at, key)) + "]\n"
            self.table(inner, (*at, key))


@given(documents, layouts)
def test_any_document_in_any_layout_is_located(document: dict[str, object], random: object) -> None:
    writer = Writer(random)
    writer.table(document, ())
    assert tomllib.loads(writer.text) == document
    assert locate(writer.text) == writer.lines
