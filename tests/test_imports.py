"""What may import what, and what a short command pays for."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.support import ROOT

SCREEN = {"textual", "rich"}
HEAVY = {"pyroute2", "dnslib", "git", "watchfiles", "psutil"}


def imported_by(statement: str) -> set[str]:
    """Top-level modules that a fresh interpreter holds after ``statement``."""
    report = "print(json.dumps(sorted({name.partition('.')[0] for name in sys.modules})))"
    code = f"import sys, json\n{statement}\n{report}"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True, timeout=60
    )
    return set(json.loads(done.stdout.splitlines()[-1]))


def test_engine_imports_no_screen_and_no_heavy_package() -> None:
    assert imported_by("import backends.engine") & (SCREEN | HEAVY) == set()


def test_command_line_imports_no_screen_before_a_verb_is_known() -> None:
    assert imported_by("import app.cli") & (SCREEN | HEAVY | {"asyncio"}) == set()


@pytest.mark.parametrize(
    "module", ["backends.keeper.client", "backends.keeper.__main__", "backends.keeper.init"]
)
def test_keeper_init_and_client_are_lean(module: str) -> None:
    lean = imported_by(f"import {module}")
    assert lean & (SCREEN | HEAVY | {"asyncio", "dataclasses", "argparse"}) == set()


def test_snapshots_need_nothing_but_the_standard_library() -> None:
    assert imported_by("import backends.snapshots") & (SCREEN | HEAVY | {"dataclasses"}) == set()


def test_import_contracts_hold() -> None:
    code = "from importlinter.cli import lint_imports_command; lint_imports_command()"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
