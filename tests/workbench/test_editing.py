"""A file in the person's editor: a private read-only copy, no shell between, nothing that it could steer."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from app.workers.editing import Copies, edit, editor_argv, editor_environment
from backends.errors import Refused


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    """A PATH of programs that write down how they were started."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ("vim", "nvim", "nano", "emacs", "less", "mine"):
        program = folder / name
        program.write_text('#!/bin/sh\nprintf "%s\\n" "$PWD" "$SHELL" "${LESSOPEN-none}" "$@" > "$OUT"\n')
        program.chmod(0o755)
    return folder


def environ(programs: Path, **rest: str) -> dict[str, str]:
    return {"PATH": str(programs), **rest}


@pytest.mark.parametrize(
    ("editor", "options"),
    [
        ("vim", ["-Z", "-R", "-n", "--cmd", "set nomodeline noexrc", "+7"]),
        ("nvim", ["-R", "-n", "-i", "NONE", "--cmd", "set nomodeline noexrc", "+7"]),
        ("nano", ["-R", "-v", "+7"]),
        ("less", ["-L", "+7g"]),
        ("mine --flag 'two words'", ["--flag", "two words"]),
    ],
)
def test_known_editors_read_only_and_others_get_the_path_alone(
    programs: Path, editor: str, options: list[str]
) -> None:
    argv = editor_argv(environ(programs, EDITOR=editor), Path("/copy/x"), 7)
    assert argv == [str(programs / editor.split()[0]), *options, "/copy/x"]


def test_emacs_obeys_no_variables_of_the_file(programs: Path) -> None:
    argv = editor_argv(environ(programs, EDITOR="emacs"), Path("/copy/x"), 0)
    assert "enable-local-variables nil" in argv[2]
    assert argv[3:] == ["+1", "/copy/x"]


def test_visual_comes_first_and_without_both_one_is_found(programs: Path) -> None:
    assert editor_argv(environ(programs, VISUAL="mine", EDITOR="vim"), Path("/x"))[0].endswith("/mine")
    assert editor_argv(environ(programs), Path("/x"))[0].endswith("/vim")


@pytest.mark.parametrize("wanted", ["no-such-editor", "vim 'unclosed"])
def test_an_editor_that_cannot_be_had_is_refused_with_a_reason(programs: Path, wanted: str) -> None:
    with pytest.raises(Refused):
        editor_argv(environ(programs, EDITOR=wanted), Path("/x"))


def test_nothing_in_the_value_is_read_by_a_shell(programs: Path, tmp_path: Path) -> None:
    argv = editor_argv(environ(programs, EDITOR=f"mine ; touch {tmp_path}/marker $(id)"), Path("/x"))
    assert argv[1:] == [";", "touch", f"{tmp_path}/marker", "$(id)", "/x"]


def test_the_copy_is_private_read_only_and_goes_with_the_review() -> None:
    copies = Copies()
    file = copies.put("ab" * 20, b"src/../-rf $(x)\n\xff[b].py", b"bytes\0")
    assert file.read_bytes() == b"bytes\0"
    assert file.name == "read-only-rf_x_b_.py"
    assert all(char.isalnum() or char in "._-" for char in file.name)
    assert stat.S_IMODE(file.stat().st_mode) == 0o400
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    assert stat.S_IMODE(file.parent.parent.stat().st_mode) == 0o700
    assert copies.put("ab" * 20, b"src/../-rf $(x)\n\xff[b].py", b"bytes\0") == file
    assert copies.put("cd" * 20, b".vimrc", b"").name == "read-only-vimrc"
    copies.close()
    assert not file.parent.parent.exists()
    copies.close()


def test_the_editor_runs_beside_nothing_and_with_a_shell_that_does_nothing(
    programs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OUT", str(tmp_path / "out"))
    monkeypatch.setenv("LESSOPEN", "|run %s")
    copies = Copies()
    file = copies.put("ab" * 20, b"x.py", b"1")
    given = {**os.environ, "PATH": f"{programs}:/usr/bin:/bin", "EDITOR": "mine"}
    assert edit(editor_argv(given, file), given) == 0
    assert (tmp_path / "out").read_text().splitlines() == [str(file.parent), "/bin/false", "none", str(file)]
    assert os.listdir(file.parent) == [file.name]
    assert editor_environment(given)["EDITOR"] == "mine"
    copies.close()
