"""The verb table is the truth: documentation, parser and handlers agree with it."""

from __future__ import annotations

import inspect
from importlib import import_module

import pytest

from app.cli import manual
from app.cli.dispatch import overview, parser_for
from app.cli.table import GROUPS, VERBS, Verb
from tests.support import ROOT


def test_the_documentation_is_made_from_the_table() -> None:
    text = (ROOT / "docs" / "commands.md").read_text()
    assert text == manual.render(), "run: python -m app.cli.manual > docs/commands.md"


@pytest.mark.parametrize("verb", VERBS, ids=lambda verb: verb.name)
def test_every_verb_has_a_handler_a_parser_and_a_versioned_schema(verb: Verb) -> None:
    module, _, function = verb.handler.partition(":")
    handler = getattr(import_module(f"app.cli.{module}"), function)
    assert len(inspect.signature(handler).parameters) == 2
    word, _, version = verb.schema.removeprefix("cloche.").partition("/")
    assert verb.schema.startswith("cloche.") and word and version.isdecimal()
    assert verb.fields and all(field.meaning for field in verb.fields)
    assert verb.group in GROUPS
    text = parser_for(verb).format_help()
    assert "--json" in text


def test_the_overview_names_every_verb() -> None:
    text = overview()
    for verb in VERBS:
        assert f"  {verb.name} " in text
