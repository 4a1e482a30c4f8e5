"""``cloche matrix``: the table of this host, one box's row, and other products."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support import Done

Cli = Callable[..., Done]

LOOSE = """
[profiles.loose]
tier = "process"
net.mode = "host"
"""


def test_the_table_marks_what_this_host_proved(cli: Cli) -> None:
    done = cli("matrix")
    assert done.code == 0
    rows = {line[:20].strip(): line for line in done.out.splitlines()}
    for name in ("workspace", "process", "supervised", "gVisor", "Firecracker", "bubblewrap, nsjail"):
        assert any(row.startswith(name) for row in rows), name
    assert "+ proved on this host" in done.err
    value = json.loads(cli("matrix", "--json").out)
    found = {row["id"]: row for row in value["rows"]}
    claimed = {claim["id"]: claim["result"] for claim in json.loads(cli("probe", "--json").out)["claims"]}
    for tier in ("workspace", "process", "supervised"):
        assert found[tier]["state"] == claimed[tier]
        for cell in found[tier]["cells"]:
            assert {claim["result"] for claim in cell["claims"]} <= {"proved", "failed", "not run"}
            if cell["result"] == "proved":
                assert all(claimed[claim["id"]] == "proved" for claim in cell["claims"])
    assert all(cell["result"] == "" for cell in found["gvisor"]["cells"])
    assert value["projects"] is None and value["box"] == ""


@pytest.mark.usefixtures("kept")
def test_a_boxs_row_names_what_deletes_a_cell_and_where_it_was_stated(cli: Cli, repo: Path) -> None:
    (repo / "cloche.toml").write_text(LOOSE)
    assert cli("new", "b", "--profile", "loose").code == 0
    before = cli("matrix", "b")
    assert "not run" in before.out and "the box was never live" in before.err
    assert cli("run", "b", "--", "true").code == 0
    assert cli("stop", "b").code == 0
    value = json.loads(cli("matrix", "b", "--json").out)
    (row,) = value["rows"]
    cells = {cell["column"]: cell for cell in row["cells"]}
    assert value["box"].endswith("/b") and row["id"] == "process"
    (deleted,) = cells["network"]["deleted_by"]
    assert (deleted["id"], deleted["key"], deleted["value"]) == ("host-network", "net.mode", "host")
    assert deleted["where"] == f"{repo / 'cloche.toml'}:4"
    assert cells["kernel"]["result"] == "proved" and cells["kernel"]["deleted_by"] == []
    shown = cli("matrix", "b")
    assert f"({repo / 'cloche.toml'}:4)" in shown.out
    assert "never live" not in shown.err and "nothing in its policy" not in shown.err


@pytest.mark.usefixtures("kept")
def test_a_box_that_nothing_confines_has_no_cell_to_delete(cli: Cli) -> None:
    assert cli("new", "b", "--tier", "workspace").code == 0
    done = cli("matrix", "b")
    assert done.code == 0
    assert "all yours" in done.out
    assert "nothing confines this tier" in done.err


@pytest.mark.usefixtures("kept")
def test_a_box_with_its_cells_says_that_none_is_deleted(cli: Cli) -> None:
    assert cli("new", "b", "--tier", "process").code == 0
    done = cli("matrix", "b")
    assert "nothing in its policy deletes a cell" in done.err


def test_other_products_are_listed_with_their_pages(cli: Cli) -> None:
    done = cli("matrix", "--projects")
    assert done.code == 0
    lines = done.out.splitlines()
    names = ["Agent Substrate", "E2B", "Modal", "OpenHands", "Claude Code", "Codex", "Daytona"]
    assert [next(name for name in names if line.startswith(name)) for line in lines[1:8]] == names
    assert "https://e2b.dev/docs/sandbox/persistence" in done.out
    assert "unverified" in next(line for line in lines if line.startswith("Codex"))
    value = json.loads(cli("matrix", "--projects", "--json").out)
    assert [one["name"] for one in value["projects"]] == names
    assert all(one["read"] for one in value["projects"])


def test_a_failure_that_was_asked_for_unmarks_its_tier_and_is_told(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CLOCHE_INJECT", "landlock")
    done = cli("matrix", "--json")
    assert "landlock" in done.err
    value = json.loads(done.out)
    row = next(row for row in value["rows"] if row["id"] == "process")
    assert row["state"] == "failed"
    assert {cell["result"] for cell in row["cells"]} == {"", "not run"}
    assert [one.partition("=")[0] for one in value["injected"]] == ["landlock"]


def test_projects_are_not_asked_of_a_box(cli: Cli) -> None:
    done = cli("matrix", "--projects", "b")
    assert (done.code, done.out) == (2, "")
    assert "about other products" in done.err
