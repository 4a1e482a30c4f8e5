"""What the project is as files: its wheel, the size of its modules, and what its texts must not name."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.support import ROOT

PACKAGES = {"app", "backends", "widgets", "themes"}
# Split so that this file does not find itself.
MACHINE_WORDS = [
    "/work" + "/main",
    "/work" + "/shared",
    "\\.\\./sha" + "red/",
    "/opt" + "/(wheels|pypi)",
    "(extra-)?index" + "-url",
    "pythonhost" + "ed\\.org",
    "/root/" + "\\.pyenv",
    "snapshot\\.deb" + "ian",
    "deb\\.deb" + "ian\\.org",
    "registry\\.npm" + "js",
]


def project_files() -> list[Path]:
    """Files of the project: what git knows and what it would add; everything but made folders without git."""
    done = subprocess.run(
        [
            "git",
            "-c",
            f"safe.directory={ROOT}",
            "ls-files",
            "-z",
            "--cached",
            "--others",
            "--exclude-standard",
        ],
        cwd=ROOT,
        capture_output=True,
        check=True,
    )
    names = [name for name in done.stdout.decode("utf-8", "surrogateescape").split("\0") if name]
    return [ROOT / name for name in names if (ROOT / name).is_file()]


def modules() -> list[Path]:
    return [path for path in project_files() if path.suffix == ".py"]


def test_no_module_is_longer_than_500_lines() -> None:
    long = {
        str(path.relative_to(ROOT)): count
        for path in modules()
        if (count := len(path.read_bytes().splitlines())) > 500
    }
    assert long == {}


def swallowed(path: Path) -> list[str]:
    """Handlers that catch everything, or anything, and say nothing."""
    found = []
    for node in ast.walk(ast.parse(path.read_bytes())):
        if not isinstance(node, ast.ExceptHandler):
            continue
        everything = node.type is None or ast.unparse(node.type) in ("Exception", "BaseException")
        silent = all(isinstance(one, ast.Pass | ast.Continue) for one in node.body)
        passed_over = path.is_relative_to(ROOT / "tests") is False and isinstance(node.body[0], ast.Pass)
        if (everything and silent) or passed_over:
            found.append(f"{path.relative_to(ROOT)}:{node.lineno}")
    return found


def test_no_error_is_swallowed() -> None:
    assert [place for path in modules() for place in swallowed(path)] == []


def test_nothing_is_left_for_later() -> None:
    words = re.compile(r"\b(TO" + r"DO|FIX" + r"ME|X" + r"XX)\b")
    found = [
        f"{path.relative_to(ROOT)}:{number}"
        for path in modules()
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if words.search(line)
    ]
    assert found == []


def test_no_text_names_a_machine_or_a_registry() -> None:
    pattern = re.compile("|".join(MACHINE_WORDS))
    found = []
    for path in project_files():
        content = path.read_bytes()
        if b"\0" in content[:8000]:
            continue
        for number, line in enumerate(content.decode("utf-8", "replace").splitlines(), 1):
            if pattern.search(line):
                found.append(f"{path.relative_to(ROOT)}:{number}: {line.strip()[:120]}")
    assert found == []


def test_lock_holds_exact_versions_and_nothing_else() -> None:
    lines = [
        line for line in (ROOT / "requirements.lock").read_text().splitlines() if not line.startswith("#")
    ]
    assert lines
    assert [line for line in lines if not re.fullmatch(r"[A-Za-z0-9._-]+==[A-Za-z0-9.+!]+", line)] == []


@pytest.fixture(scope="module")
def wheel_names(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """Names in a wheel that the installed build backend makes, without any network."""
    out = tmp_path_factory.mktemp("wheel")
    done = subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(out)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (wheel,) = out.glob("cloche-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


def test_wheel_holds_the_four_packages_and_nothing_beside_them(wheel_names: set[str]) -> None:
    tops = {name.partition("/")[0] for name in wheel_names}
    assert {top for top in tops if not top.endswith(".dist-info")} == PACKAGES


def test_wheel_holds_every_module_and_all_data_of_the_four_packages(wheel_names: set[str]) -> None:
    names = {str(path.relative_to(ROOT)) for path in project_files()}
    expected = {name for name in names if name.partition("/")[0] in PACKAGES}
    assert expected - wheel_names == set()


def test_wheel_holds_no_test_and_no_bytecode(wheel_names: set[str]) -> None:
    assert [
        n for n in wheel_names if "/tests/" in n or "test_" in n.rpartition("/")[2] or n.endswith(".pyc")
    ] == []
