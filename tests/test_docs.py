"""What the documents name exists: files, verbs, options, modules."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from app.cli.table import VERBS
from tests.support import ROOT

DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
MADE = {"bench/results"}  # by a command, and not kept in the repository
VERB_NAMES = {verb.name for verb in VERBS}
OPTIONS = {name for verb in VERBS for param in verb.params for name in param.names} | {"--json", "--help"}


def ident(path: Path) -> str:
    return str(path.relative_to(ROOT))


def commands(text: str) -> list[str]:
    """Every `cloche ...` in code: lines of blocks and code spans."""
    found = []
    for block in re.findall(r"^```[^\n]*\n(.*?)^```", text, re.S | re.M):
        found += re.findall(r"^\s*(cloche(?: [^#\n]*)?)", block, re.M)
    return found + re.findall(r"`(cloche [^`\n]+)`", re.sub(r"^```.*?^```", "", text, flags=re.S | re.M))


@pytest.mark.parametrize("path", DOCUMENTS, ids=ident)
def test_every_relative_link_leads_to_a_file(path: Path) -> None:
    targets = re.findall(r"\]\(([^)#\s]+)[^)]*\)", path.read_text())
    local = [target for target in targets if "://" not in target]
    assert [target for target in local if not (path.parent / target).exists()] == []


@pytest.mark.parametrize("path", DOCUMENTS, ids=ident)
def test_every_command_names_a_verb_and_options_that_exist(path: Path) -> None:
    wrong = []
    for command in commands(path.read_text()):
        words = command.split(" -- ")[0].split()
        verb = next((w for w in (" ".join(words[1:3]), *words[1:2]) if w in VERB_NAMES), None)
        named = words[1:] and words[1][0].islower()
        if named and verb is None:
            wrong.append(command)
        wrong += [f"{command}: {word}" for word in words if word.startswith("--") and word not in OPTIONS]
    assert wrong == []


@pytest.mark.parametrize("path", DOCUMENTS, ids=ident)
def test_every_module_and_folder_that_is_named_exists(path: Path) -> None:
    names = re.findall(
        r"`((?:app|backends|widgets|themes|tests|docs|bench|\.ci)/[\w./-]+)`", path.read_text()
    )
    assert [name for name in names if name not in MADE and not (ROOT / name).exists()] == []


def test_the_architecture_names_every_operation_of_the_keeper() -> None:
    code = (ROOT / "backends" / "keeper" / "requests.py").read_text()
    operations = re.findall(r'^ {12}"([a-z]+)": \(self\._', code, re.M)
    text = (ROOT / "docs" / "maintainers" / "architecture.md").read_text()
    assert "run" in operations
    assert [name for name in operations if f"`{name}`" not in text] == []
