"""Landlock's levels: what each handles, and that a restriction binds what is forked after it."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from backends.kernel import landlock


def inside(action: Callable[[], object]) -> str:
    """Runs ``action`` in a child; ``ok`` or the name of its errno."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        word = "?"
        try:
            action()
            word = "ok"
        except OSError as error:
            word = errno.errorcode[error.errno or 0]
        finally:
            os.write(writer, word.encode())
            os._exit(0)
    os.close(writer)
    word = os.read(reader, 100).decode()
    os.close(reader)
    os.waitpid(pid, 0)
    return word


def test_each_level_handles_what_it_introduced_and_all_before() -> None:
    names = {level: set(landlock.domain(level).names()) for level in range(1, 8)}
    assert names[2] - names[1] == {"REFER"}
    assert names[3] - names[2] == {"TRUNCATE"}
    assert names[4] == names[3]  # its TCP rights are handled only when asked for
    assert set(landlock.domain(4, net=3).names()) - names[4] == {"BIND_TCP", "CONNECT_TCP"}
    assert names[5] - names[4] == {"IOCTL_DEV"}
    assert names[6] - names[5] == {"SCOPE_ABSTRACT_UNIX_SOCKET", "SCOPE_SIGNAL"}
    assert names[7] == names[6]


def test_the_variable_lowers_the_level_and_never_raises_it(monkeypatch: pytest.MonkeyPatch) -> None:
    offered = landlock.abi()
    monkeypatch.setenv(landlock.ABI_VARIABLE, "1")
    assert landlock.abi() == 1
    monkeypatch.setenv(landlock.ABI_VARIABLE, "99")
    assert landlock.abi() == offered
    monkeypatch.setenv(landlock.ABI_VARIABLE, "no number")
    assert landlock.abi() == offered


def test_what_no_rule_allows_is_refused_also_for_children(tmp_path: Path) -> None:
    (tmp_path / "open").mkdir()
    (tmp_path / "shut").write_text("secret")

    def attempt() -> None:
        landlock.restrict([(str(tmp_path / "open"), landlock.FS_READ_WRITE)])
        (tmp_path / "open" / "new").write_text("fine")
        pid = os.fork()
        if pid == 0:
            try:
                (tmp_path / "shut").read_text()
            except PermissionError:
                os._exit(7)
            os._exit(0)
        if os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) != 7:
            raise OSError(errno.ENOTRECOVERABLE, "the child read it")
        (tmp_path / "shut").read_text()

    assert inside(attempt) == "EACCES"
    assert (tmp_path / "open" / "new").read_text() == "fine"


@pytest.mark.parametrize(("level", "expected"), [(1, "ok"), (2, "ok"), (3, "EACCES"), (7, "EACCES")])
def test_truncating_is_covered_from_level_3_on(tmp_path: Path, level: int, expected: str) -> None:
    target = tmp_path / "file"
    target.write_text("content")
    target.chmod(0o666)

    def attempt() -> None:
        landlock.restrict([("/usr", landlock.FS_READ_EXECUTE)], abi=level)
        os.truncate(target, 0)

    assert inside(attempt) == expected


def test_rights_of_folders_on_a_file_are_left_out_of_its_rule(tmp_path: Path) -> None:
    target = tmp_path / "file"
    target.write_text("a")

    def attempt() -> None:
        landlock.restrict([(str(target), landlock.FS_READ_WRITE)])
        target.write_text("b")

    assert inside(attempt) == "ok"


def test_a_rule_may_be_a_descriptor_which_stays_open(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("a")

    def attempt() -> None:
        fd = os.open(tmp_path, os.O_PATH)
        landlock.restrict([(fd, landlock.FS_READ)])
        os.fstat(fd)
        (tmp_path / "file").read_text()
        os.open("/etc/hostname", os.O_RDONLY)

    assert inside(attempt) == "EACCES"


def test_a_missing_path_stops_the_restriction() -> None:
    assert inside(lambda: landlock.restrict([("/nonexistent", landlock.FS_READ)])) == "ENOENT"
