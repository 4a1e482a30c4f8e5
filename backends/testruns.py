"""Which command lines are test runs, as far as a command line tells. Pure.

For the evidence beside a proposal and for the keeper, for whom boxes wait: :func:`may_be` is cheap.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

_RUNNERS = frozenset(
    (
        "pytest", "py.test", "nose2", "nosetests", "tox", "nox", "ctest", "jest", "vitest", "mocha", "ava",
        "karma", "rspec", "phpunit", "pest", "minitest", "trial", "behave", "cucumber", "bats", "gotestsum",
        "tap", "prove", "busted", "cypress",
    )
)  # fmt: skip
_TASKS = frozenset(
    ("make", "gmake", "npm", "pnpm", "yarn", "bun", "deno", "cargo", "go", "mvn", "mvnw", "gradle", "gradlew",
     "just", "task", "rake", "bazel", "dotnet", "swift", "mix", "sbt", "composer", "lein", "meson", "ninja",
     "zig", "flutter", "dart", "stack", "cabal", "hatch", "invoke")
)  # fmt: skip
_TASK = r"(?:test|tests|check|nextest|verify|t)(?:[:_.-].*)?\Z"
_BEFORE = frozenset(
    ("env", "time", "nice", "timeout", "sudo", "exec", "uv", "poetry", "pipenv", "pdm", "rye", "run", "npx",
     "bunx", "bundle", "dotenv", "xvfb-run", "coverage", "command", "nohup", "stdbuf", "hatch", "dlx")
)  # fmt: skip
_SHELLS = frozenset(("sh", "bash", "dash", "zsh", "ksh", "ash"))
_INTERPRETERS = (
    "python", "pypy", "node", "deno", "bun", "ruby", "perl", "php", "lua", "env", "busybox", "java", "tclsh",
    *sorted(_SHELLS),
)  # fmt: skip
_LONGEST = 20_000  # characters of a script that are looked at
_WORDS = 4000
_SEPARATORS = frozenset(
    (";", "&&", "||", "|", "&", "(", ")", "{", "}", "\n", "then", "do", "else", "!", "if")
)
# What some word of every test run holds, in small letters; a task's "t" apart.
_HINTS = (
    "test", "check", "verify", "nose", "tox", "nox", "jest", "mocha", "ava", "karma", "spec", "phpunit",
    "pest", "trial", "behave", "cucumber", "bats", "tap", "prove", "busted", "cypress",
)  # fmt: skip


def may_be(argv: Sequence[str]) -> bool:
    """Whether :func:`is_test` is worth asking: never False where it says True of plain words."""
    text = " ".join(argv).lower()
    if any(hint in text for hint in _HINTS):
        return True
    rest = " ".join(["", *argv[1:]])
    return " t" in rest or ":t" in rest or "\nt" in rest or "\tt" in rest


def interprets(argv: Sequence[str], script: Sequence[str]) -> bool:
    """Whether ``argv`` is the interpreter that the first line of the program of ``script`` names."""
    if not argv or not script or not _name(argv[0]).startswith(_INTERPRETERS):
        return False
    return any(_name(word) == _name(script[0]) for word in argv[1:4])


def is_test(argv: Sequence[str]) -> bool:
    """Whether a command line is that of a test run, also inside ``sh -c``. What it does is not known."""
    words = list(argv[:_WORDS])
    if not words:
        return False
    if _name(words[0]) in _SHELLS:
        for at, word in enumerate(words[1:], 1):
            if word.startswith("-") and not word.startswith("--") and word.endswith("c"):
                return at + 1 < len(words) and _script(words[at + 1])
            if not word.startswith("-"):
                return _named_test(word)
        return False
    return _command(words)


def _name(word: str) -> str:
    return word.rpartition("/")[2].removesuffix(".exe").removesuffix(".cmd").lower()


def _script(text: str) -> bool:
    import shlex  # costs what few need

    lexer = shlex.shlex(text[:_LONGEST], posix=True, punctuation_chars=";&|()\n")
    lexer.whitespace = " \t\r"
    lexer.whitespace_split = True
    command: list[str] = []
    try:
        for number, word in enumerate(lexer):
            if number > _WORDS:
                break
            if word in _SEPARATORS or not word.strip(";&|()\n"):
                if _command(command):
                    return True
                command = []
            else:
                command.append(word)
    except ValueError:  # a quotation that never ends
        return _command(command)
    return _command(command)


def _command(words: list[str]) -> bool:
    at = 0
    while at < len(words):
        word, name = words[at], _name(words[at])
        if name in _BEFORE or word.startswith("-") or re.fullmatch(r"\w+=.*|[\d.]+[smh]?", word, re.DOTALL):
            if name == "hatch" and words[at + 1 : at + 2] == ["test"]:
                return True
            at += 1
            continue
        break
    if at == len(words):
        return False
    name, rest = _name(words[at]), words[at + 1 :]
    if name in _RUNNERS:
        return True
    if re.fullmatch(r"python[\d.]*|pypy[\d.]*", name):
        return _python(rest)
    if name == "node":
        return "--test" in rest or any(_test_program(word) for word in rest[:1])
    if name in _TASKS:
        tasks = [word for word in rest if not word.startswith("-") and word != "run" and "=" not in word]
        # A task's own name, and of one of a subproject (":app:test") the last part.
        return any(
            re.match(_TASK, word.lower()) or re.match(_TASK, word.lower().rpartition(":")[2])
            for word in tasks[:4]
        )
    return _named_test(words[at])


def _python(rest: list[str]) -> bool:
    for at, word in enumerate(rest):
        if word == "-m":
            module = rest[at + 1 : at + 2]
            if module and module[0] == "coverage":
                return _python(rest[at + 3 :]) if rest[at + 2 : at + 3] == ["run"] else False
            return bool(module) and module[0].partition(".")[0] in (
                _RUNNERS | {"unittest", "doctest", "nose"}
            )
        if not word.startswith("-"):
            return _test_program(word)
    return False


def _test_program(word: str) -> bool:
    """A script that an interpreter is given: a runner's own, or one whose name says so."""
    return _name(word).partition(".")[0] in _RUNNERS or _named_test(word)


def _named_test(word: str) -> bool:
    """A script whose own name says so: run_tests.sh, test.py, ./check."""
    name = _name(word).partition(".")[0]
    return bool(re.search(r"(?:\A|[_-])(?:tests?|runtests?|check)(?:[_-]|\Z)", name))
