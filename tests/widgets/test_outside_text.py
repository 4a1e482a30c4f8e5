"""Kinds U1 and U2 in every widget: outside text is literal, nothing in it is clickable, nothing is obeyed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from textual.widget import Widget

from backends.snapshots import CheckRow, Claim, DenialRow, Enforcement, FileChange, JournalRecord
from backends.snapshots_evidence import (
    Bulk,
    Dependency,
    InnerEnd,
    InnerRun,
    InnerTest,
    LockFile,
    Outside,
    ProposalEvidence,
    Ran,
    Secret,
)
from tests.widgets.drawn import bench
from tests.workbench import frozen
from widgets.box_table import BoxTable
from widgets.checks import Evidence
from widgets.diff_view import DiffView
from widgets.file_list import FileList
from widgets.output import OutputTail
from widgets.pane import BoxPane
from widgets.patch import index_patch
from widgets.policy_view import PolicyView
from widgets.process_tree import ProcessTree
from widgets.tally import TallyView
from widgets.timeline import Timeline

HOSTILE = (
    "src/[id]/p.tsx",
    "x[/",
    "[@click=app.apply]README.md[/]",
    "[link=file:///etc/passwd]x[/link]",
    "a\x1b]0;owned\x07b",
    "a\x1b]52;c;aGk=\x1b\\b",
    "a\x9b31mb",
    "a\rb",
    "a\nb",
    "a\u202eb\u2066",
    "\udcff\udc9b",
    "{danger} $denial",
)


def table(text: str) -> tuple[Widget, Callable[[Any], object]]:
    row = frozen.box(text, needs=text, last_line=text, repository=text, base_ref=text, purpose=text)
    return BoxTable(), lambda widget: widget.set_boxes((row, row._replace(key="k", needs="")))


def pane(text: str) -> tuple[Widget, Callable[[Any], object]]:
    row = frozen.box(text, needs=text, last_line=text, base_ref=text, purpose=text)
    view = frozen.FrozenEngine((row,)).view(row.key)
    view = view._replace(
        processes=(frozen.process(1, 0, text),),
        tally=frozen.tally(frozen.denial("net", text, 2, text)),
        sessions=(frozen.session(1, "x", 1)._replace(argv=(text,)),),
        output=text.encode("utf-8", "surrogateescape"),
    )
    return BoxPane(row), lambda widget: [widget.set_view(view), widget.set_trouble(text)]


def tree(text: str) -> tuple[Widget, Callable[[Any], object]]:
    return ProcessTree(), lambda widget: widget.set_processes((frozen.process(1, 0, text),))


def denials(text: str) -> tuple[Widget, Callable[[Any], object]]:
    row = DenialRow(text, text, text, text, text, 1, text, 1, 0.0, 0.0)
    return TallyView(), lambda widget: widget.set_tally(frozen.tally(row))


def output(text: str) -> tuple[Widget, Callable[[Any], object]]:
    return OutputTail(), lambda widget: widget.set_output(text.encode("utf-8", "surrogateescape"))


def timeline(text: str) -> tuple[Widget, Callable[[Any], object]]:
    kinds = ("created", "transition", "session-start", "exec", "denial", "export", "apply", text)
    data = dict.fromkeys(
        ("from", "to", "who", "why", "argv", "object", "kind", "command", "out", "branch"), text
    )
    records = tuple(JournalRecord(n, 0.0, kind, data, "") for n, kind in enumerate(kinds))
    return Timeline(), lambda widget: widget.set_records(records)


def policy(text: str) -> tuple[Widget, Callable[[Any], object]]:
    status = frozen.STATUS._replace(
        row=frozen.box(text, profile=text, tier=text),
        answers=((text, text),),
        claims=(Claim(text, text, text, text, 0.0),),
        enforcement=(Enforcement(text, text, text, text, text, text),),
        launch_host=text,
        policy_digest=text,
        tree_provider=text,
    )
    return PolicyView(), lambda widget: widget.set_status(status)


def changes(text: str) -> FileChange:
    return frozen.CHANGES[0]._replace(path=text.encode("utf-8", "surrogateescape"))


def files(text: str) -> tuple[Widget, Callable[[Any], object]]:
    return FileList(), lambda widget: widget.set_files((changes(text),), ())


def diff(text: str) -> tuple[Widget, Callable[[Any], object]]:
    raw = text.encode("utf-8", "surrogateescape").replace(b"\n", b"\\n")
    patch = (
        b"diff --git a/x b/x\nrename to "
        + raw
        + b"\n@@ -1 +1 @@ "
        + raw
        + b"\n-"
        + raw
        + b"\n+"
        + raw
        + b"2\n"
    )
    return DiffView(), lambda widget: widget.set_index(index_patch(patch, (changes(text).path,)))


def evidence(text: str) -> tuple[Widget, Callable[[Any], object]]:
    review = (
        frozen.FrozenEngine()
        .review(frozen.FLEET[2].key)
        ._replace(
            checks=(CheckRow(text, "warn", text, changes(text).path), CheckRow(text, text, text, None)),
            tally=frozen.tally(frozen.denial(text, text)),
            sessions=(frozen.session(1, "x", 0)._replace(argv=(text,)),),
        )
    )
    path = changes(text).path
    beside = ProposalEvidence(
        (Ran(1, (text,), True, 0, 1.0, "after"),),
        (
            InnerTest(
                (text,),
                2,
                (InnerEnd(None, text, text, 1), InnerEnd(1, text, "", 1)),
                InnerRun(1, text, text, 1.0, "after", (text,)),
            ),
        ),
        1.0,
        0,
        (Outside(path, 1.0, True),),
        0,
        0,
        (LockFile(path, 1, 0, 0, 0, (Dependency(text, "added", text, text),), text),),
        (Secret(path, 1, text, text, True),),
        ((path, text),),
        (Bulk(path, "generated", text),),
        text,
        1,
        (text,),
    )
    review = review._replace(diff=review.diff._replace(skipped=((path, text),)), evidence=beside)

    def show(widget: Any) -> None:
        widget._folded["bulk"] = False
        widget.set_review(review)

    return Evidence(), show


PRINTED = {"a\nb": ["a", "b"]}
"""Of output a line end is a line end."""

MAKERS = (table, pane, tree, denials, output, timeline, policy, files, diff, evidence)


@pytest.mark.parametrize("maker", MAKERS, ids=lambda maker: maker.__name__)
@pytest.mark.parametrize("text", HOSTILE, ids=ascii)
async def test_outside_text_is_literal_inert_and_harmless(
    maker: Callable[[str], tuple[Widget, Callable[[Any], object]]], text: str
) -> None:
    widget, give = maker(text)
    async with bench(widget, (150, 40)) as pilot:
        give(widget)
        await pilot.pause()
        shown = ""
        for strip in pilot.app.screen._compositor.render_strips():
            for segment in strip:
                assert segment.control is None
                assert segment.text.isprintable(), ascii(segment.text)
                assert segment.style is None or segment.style.link is None
                assert segment.style is None or "@click" not in segment.style.meta
                shown += segment.text
        if text.isprintable():
            assert text in shown
        elif maker is output and text in PRINTED:
            assert shown.split() == PRINTED[text]
        else:
            assert "\\" in shown
