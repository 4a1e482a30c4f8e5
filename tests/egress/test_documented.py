"""The tables of docs/egress.md say what the code does, row by row."""

from __future__ import annotations

import re

import pytest

from backends.egress.matcher import Matcher
from backends.egress.pins import Pins, judged
from backends.egress.rules import BadRule, parse, parse_all
from tests.support import ROOT

TEXT = (ROOT / "docs" / "egress.md").read_text("utf-8")
HOST = ("192.0.2.7",)


def rows(heading: str) -> list[tuple[str, ...]]:
    section = TEXT.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    lines = re.findall(r"^\|(.*)\|$", section, re.M)
    return [tuple(cell.strip() for cell in line.split("|")) for line in lines[2:]]


def bare(cell: str) -> str:
    return cell.strip("`")


@pytest.mark.parametrize(("written", "kept", "because"), rows("Rules as they are kept"))
def test_a_rule_is_kept_or_refused_as_documented(written: str, kept: str, because: str) -> None:
    if kept == "error":
        with pytest.raises(BadRule) as caught:
            parse(bare(written))
        assert caught.value.why.endswith(f": {because}")
    else:
        assert parse(bare(written)).text == bare(kept)
        assert parse(bare(kept)) == parse(bare(written))


@pytest.mark.parametrize(("rules", "asked", "answer"), rows("Names that the box asks for"))
def test_a_name_is_resolved_or_refused_as_documented(rules: str, asked: str, answer: str) -> None:
    matcher = Matcher(parse_all(bare(rules).split()))
    assert bool(matcher.name(bare(asked))) is {"resolved": True, "refused": False}[answer]


@pytest.mark.parametrize(("rules", "found", "pinned"), rows("Addresses that a name may stand for"))
def test_an_answer_is_pinned_as_documented(rules: str, found: str, pinned: str) -> None:
    matcher = Matcher(parse_all(bare(rules).split()), HOST)
    pin = judged("a.example", bare(found).split(), matcher.answer, 0.0)
    wanted = () if pinned == "nothing" else tuple(bare(pinned).split())
    assert pin.addresses == wanted
    assert len(pin.addresses) + len(pin.refused) == len(bare(found).split())


@pytest.mark.parametrize(("rules", "pinned", "destination", "said", "verdict"), rows("Connections"))
def test_a_connection_meets_the_documented_verdict(
    rules: str, pinned: str, destination: str, said: str, verdict: str
) -> None:
    matcher = Matcher(parse_all(bare(rules).split()))
    pins = Pins()
    for pair in bare(pinned).split():
        name, _, address = pair.partition("=")
        pins.put(judged(name, [address], matcher.answer, 0.0))
    host, _, port = bare(destination).rpartition(":")
    host = host.strip("[]")
    found = matcher.destination(host, int(port), pins.names(host), bare(said) or None)
    if verdict.startswith("allowed"):
        assert found.allowed and found.rule is not None
        assert found.rule.raw is verdict.endswith("says nothing")
    else:
        assert (found.allowed, found.rule, f"refused: {found.reason}") == (False, None, verdict)
