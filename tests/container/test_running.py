"""A box of tier ``container`` runs commands like any other box: streams, codes, terminal, tree, end."""

from __future__ import annotations

import errno
import json
import os
import signal
from pathlib import Path

import pytest

from backends.trees import inert
from tests import support
from tests.container.world import World


@pytest.fixture(scope="module")
def box(world: World) -> Path:
    return world.new("plain")


def test_streams_and_the_exit_code_pass_through(world: World, box: Path) -> None:
    done = world.cloche("run", "plain", "--", "sh", "-c", "cat; echo err >&2; exit 7", stdin=b"in\n")
    assert (done.code, done.out, done.err) == (7, "in\n", "err\n")


def test_a_word_that_is_not_utf_8_is_refused_and_never_changed(world: World, box: Path) -> None:
    done = world.cloche("run", "plain", "--", "touch", os.fsdecode(b"/work/a\xff"), "/work/b")
    assert done.code == 126
    assert os.strerror(errno.EILSEQ) in done.err
    assert not (box / "tree" / "b").exists()
    assert world.cloche("run", "plain", "--", "touch", "/work/\u00fc").code == 0
    assert (box / "tree" / "\u00fc").exists()


@pytest.mark.parametrize(
    ("argv", "code"),
    [
        (("true",), 0),
        (("false",), 1),
        (("no-such-program",), 127),
        (("/etc/passwd",), 126),
        (("/work",), 126),
        (("sh", "-c", "kill -TERM $$"), 128 + signal.SIGTERM),
    ],
)
def test_a_command_ends_as_it_would_on_the_host(
    world: World, box: Path, argv: tuple[str, ...], code: int
) -> None:
    assert world.cloche("run", "plain", "--", *argv).code == code


def test_a_file_without_an_interpreter_line_goes_to_the_shell(world: World, box: Path) -> None:
    (box / "tree" / "plain").write_text("echo from $0\n")
    (box / "tree" / "plain").chmod(0o755)
    if os.geteuid() == 0:
        os.chown(box / "tree" / "plain", *os.stat(box / "tree")[4:6])
    assert world.cloche("run", "plain", "--", "./plain").out == "from ./plain\n"


def test_who_and_where_a_session_is(world: World, box: Path) -> None:
    done = world.cloche("run", "plain", "--", "sh", "-c", "id -u; id -G; pwd; echo $HOME; hostname; umask")
    assert done.out.split() == ["1000", "1000", "/work", "/home/box", "plain", "0022"]


def test_the_environment_is_the_boxs_own(world: World, box: Path) -> None:
    world.env["AWS_SECRET_ACCESS_KEY"] = "hush"
    done = world.cloche("run", "plain", "--", "env")
    names = {line.partition("=")[0] for line in done.out.splitlines()}
    assert "AWS_SECRET_ACCESS_KEY" not in names
    assert {"HOME", "PATH", "CLOCHE_BOX"} <= names


def test_what_is_written_is_the_persons_file_and_in_the_diff(world: World, box: Path) -> None:
    assert world.cloche("run", "plain", "--", "sh", "-c", "echo new > added.txt").code == 0
    made = box / "tree" / "added.txt"
    assert made.read_text() == "new\n"
    assert made.stat().st_uid == (box / "tree").stat().st_uid
    assert "+new" in world.cloche("diff", "plain").out


def test_the_tree_shows_orphans_and_stop_ends_all_of_them(world: World) -> None:
    box = world.new("orphans")
    world.cloche("run", "orphans", "--", "sh", "-c", "(setsid sleep 4711 &); sleep 0.2")
    shown = world.cloche("ps", "orphans").out
    assert "sleep 4711" in shown
    assert "conmon" not in shown
    pids = [pid for pid in map(int, filter(str.isdigit, os.listdir("/proc"))) if _is(pid, b"4711")]
    assert pids
    assert world.cloche("stop", "orphans").code == 0
    assert not [pid for pid in pids if _is(pid, b"4711")]
    live = world.live(box)
    assert not support.is_alive(live["init"])
    assert not support.is_alive(live["beside"][0])


def _inert(box: Path) -> bool:
    """Whether the tree's ``.git`` on disk is the host's own, a repository of nothing."""
    folder = box / "tree" / ".git"
    own = {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}
    return own == inert.FILES and not list((folder / "objects").iterdir())


def _is(pid: int, word: bytes) -> bool:
    try:
        return word in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return False


def test_a_session_is_killed_with_what_it_left_at_its_wall_limit(world: World) -> None:
    world.profile("brief", 'resources = { wall = "1s" }')
    world.new("brief", profile="brief")
    done = world.cloche("run", "brief", "--", "sh", "-c", "sleep 4712 & sleep 4712")
    assert done.code == 124
    support.wait_until(
        lambda: not any(_is(int(pid), b"4712") for pid in os.listdir("/proc") if pid.isdigit()),
        "nothing of the session runs",
    )


def test_a_proposal_is_what_the_box_holds(world: World) -> None:
    box = world.new("proposed")
    script = "rm run.sh; mkdir d; echo x > d/f; ln -s f d/link; echo y >> README.md"
    assert world.cloche("run", "proposed", "--", "sh", "-c", script).code == 0
    world.cloche("stop", "proposed")
    done = world.cloche("propose", "proposed")
    assert done.code == 0, done.err
    assert "4 files" in done.out
    assert _inert(box)
    out = world.root / "exported"
    done = world.cloche("export", "proposed", "--out", str(out))
    assert done.code == 0, done.err
    (launch,) = json.loads((out / "receipt.json").read_text())["launches"]
    assert launch["facts"] == world.live(box)["facts"]
    assert launch["facts"]["runtime"] in ("crun", "runc")
    assert launch["host"]["kernel"] == launch["facts"]["kernel"] == os.uname().release
    assert f"runtime {launch['facts']['runtime']}" in (out / "report.md").read_text()


def test_git_works_inside_and_its_folder_is_not_there_outside(world: World, box: Path) -> None:
    done = world.cloche("run", "plain", "--", "ls", ".git")
    assert "HEAD" in done.out.split()
    assert _inert(box)


def test_status_names_runtime_engine_image_and_kernel(world: World, box: Path) -> None:
    world.cloche("run", "plain", "--", "true")
    facts = world.live(box)["facts"]
    assert facts["runtime"] in ("crun", "runc")
    assert facts["image_digest"].startswith("sha256:")
    assert facts["kernel"] == os.uname().release
    shown = world.cloche("status", "plain").out
    assert facts["runtime"] in shown
    assert ("rootful" if os.geteuid() == 0 else "rootless Podman") in shown
    assert facts["image_digest"] in shown


def test_a_box_that_writes_all_the_time_is_read_at_a_standstill_and_goes_on(world: World) -> None:
    box = world.new("busy")
    loop = "i=0; while :; do i=$((i+1)); echo $i > a; echo $i > b; done"
    world.cloche("run", "busy", "--", "sh", "-c", f"(setsid sh -c '{loop}' >/dev/null 2>&1 &)")
    tree = box / "tree"
    support.wait_until(lambda: (tree / "b").exists(), "it writes")
    for _ in range(4):
        assert "diff --git a/b b/b" in world.cloche("diff", "busy").out
    before = (tree / "a").read_text()
    support.wait_until(lambda: (tree / "a").read_text() not in ("", before), "it goes on writing")
    assert world.cloche("stop", "busy").code == 0
    done = world.cloche("propose", "busy")
    assert done.code == 0, done.err


def test_whoever_only_starts_a_container_leaves_no_process_behind(world: World, box: Path) -> None:
    assert world.cloche("run", "plain", "--", "true").code == 0
    keeper = world.live(box)["keeper"]["pid"]

    def children() -> list[str]:
        pids = Path(f"/proc/{keeper}/task/{keeper}/children").read_text().split()
        return sorted(Path(f"/proc/{pid}/comm").read_text().strip() for pid in pids)

    support.wait_until(lambda: children() == ["cloche-steward", "conmon"], "nothing else is the keeper's")


def test_an_image_sets_its_own_variables_and_nothing_of_the_hosts(world: World) -> None:
    recipe = world.root / "recipe"
    recipe.mkdir()
    tool = "#!/bin/sh\\necho tool\\n"
    (recipe / "Containerfile").write_text(
        'FROM box\nENV FLAVOUR=plain PATH=/opt/tools:/bin\nWORKDIR /etc\nUSER 0\nENTRYPOINT ["false"]\n'
        f"RUN mkdir -p /opt/tools && printf '{tool}' > /opt/tools/tool && chmod 755 /opt/tools/tool\n"
    )
    rootful = ("--rootful",) if os.geteuid() == 0 else ()
    done = world.cloche("image", "build", *rootful, str(recipe), "--name", "flavoured")
    assert done.code == 0, done.err
    world.new("flavoured", image="flavoured")
    done = world.cloche("run", "flavoured", "--", "sh", "-c", "tool; echo $FLAVOUR; pwd; id -u; echo $HOME")
    assert done.out.split() == ["tool", "plain", "/work", "1000", "/home/box"], done.err
    assert world.cloche("run", "flavoured", "--", "tool").out == "tool\n"
