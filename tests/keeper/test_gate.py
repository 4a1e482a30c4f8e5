"""What a real box was refused and what it executed, as the journal tells it."""

from __future__ import annotations

import os
import socket
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from backends.boxes.layout import BoxPaths
from backends.evidence import journal
from backends.evidence.tally import project
from backends.keeper.client import KeeperClient
from backends.policy.model import FsPolicy
from tests.conftest import Home
from tests.keeper import boxes
from tests.keeper.boxes import Running, run, sh
from tests.support import wait_until

PYTHON = "/usr/bin/python3"


def denials(keeper: KeeperClient) -> dict[tuple[str, str], int]:
    """(kind, object) to count."""
    return {(one["kind"], one["object"]): one["count"] for one in keeper.call("tally")["rows"]}


def execs(paths: BoxPaths) -> list[dict[str, Any]]:
    return boxes.records(paths, "exec")


def all_box(**changes: Any) -> BoxPaths:
    return boxes.make(policy=boxes.POLICY._replace(observe="all", **changes))


# ---------------------------------------------------------------- refusals


@pytest.mark.boundary
def test_refused_calls_fail_and_are_counted_exactly(keeper: KeeperClient) -> None:
    code = (
        "import ctypes, socket, errno\n"
        "libc = ctypes.CDLL(None, use_errno=True)\n"
        "for _ in range(137):\n"
        "    assert libc.unshare(0x10000000) == -1 and ctypes.get_errno() == errno.EPERM\n"
        "for _ in range(21):\n"
        "    try: socket.socket(17, 3, 0)\n"
        "    except OSError as e: assert e.errno == errno.EAFNOSUPPORT, e\n"
        "    else: raise SystemExit(9)\n"
    )
    ran = run(keeper, PYTHON, "-c", code)
    assert (ran.exit, ran.err) == (0, b"")
    found = denials(keeper)
    assert found[("syscall", "unshare of a new namespace, flags 0x10000000")] == 137
    assert found[("socket", "AF_PACKET SOCK_RAW")] == 21
    assert sum(found.values()) == 158
    assert keeper.call("stat")["denied"] == 158


@pytest.mark.boundary
def test_writes_outside_the_grants_are_counted_with_pid_and_command(keeper: KeeperClient) -> None:
    ran = sh(
        keeper, "for i in 1 2 3; do echo x > /usr/bin/planted; done; echo x > /etc/passwd; echo fine > f"
    )
    assert ran.exit == 0
    found = denials(keeper)
    assert found == {("fs-write", "/usr/bin/planted"): 3, ("fs-write", "/etc/passwd"): 1}
    row = next(one for one in keeper.call("tally")["rows"] if one["object"] == "/etc/passwd")
    assert row["pid"] > 0
    assert row["command"].startswith("/bin/sh -c for i")
    assert row["lane"] == "keeper"


@pytest.mark.boundary
def test_relative_paths_are_told_as_what_they_mean(keeper: KeeperClient) -> None:
    sh(keeper, "cd /usr/lib; echo x > ../share/planted; cd /work; echo x > ../../usr/planted")
    sh(keeper, "cd /; exec 3</usr; cd /work; echo x > /proc/self/cwd/ok; echo x > ./fine")
    assert denials(keeper) == {("fs-write", "/usr/share/planted"): 1, ("fs-write", "/usr/planted"): 1}


@pytest.mark.boundary
def test_a_path_beside_a_descriptor_is_resolved(keeper: KeeperClient) -> None:
    code = (
        "import os\n"
        "fd = os.open('/usr/share', os.O_RDONLY)\n"
        "try: os.open('../planted', os.O_WRONLY | os.O_CREAT, dir_fd=fd)\n"
        "except OSError: pass\n"
    )
    assert run(keeper, PYTHON, "-c", code).exit == 0
    assert denials(keeper) == {("fs-write", "/usr/planted"): 1}


@pytest.mark.boundary
def test_a_link_in_the_tree_that_leads_outside_is_told_by_its_target(home: Home) -> None:
    paths = all_box()
    with boxes.started(paths) as keeper:
        sh(
            keeper,
            "ln -s /root/.ssh/id_rsa key; cat key; ln -s /usr/planted w; echo x > w; mkdir d; ln -s /etc d/e",
        )
        assert sh(keeper, "cat d/e/shadow; cat d/e/passwd > /dev/null").exit == 0
        found = denials(keeper)
    assert found[("fs-read", "/root/.ssh/id_rsa")] == 1
    assert found[("fs-write", "/usr/planted")] == 1
    assert found[("fs-read", "/etc/shadow")] == 1
    assert all(name.startswith(("/root", "/usr/planted", "/etc/shadow")) for _, name in found)


@pytest.mark.boundary
def test_reads_outside_are_counted_only_when_asked_for(keeper: KeeperClient, home: Home) -> None:
    sh(keeper, "cat /etc/shadow; cat /root/.ssh/id_rsa")
    assert denials(keeper) == {}
    paths = boxes.make("other", boxes.POLICY._replace(observe="all"))
    with boxes.started(paths) as other:
        sh(
            other,
            "cat /etc/shadow; cat /root/.ssh/id_rsa; cat /etc/passwd /usr/bin/env /no/such/place > /dev/null",
        )
        assert denials(other) == {("fs-read", "/etc/shadow"): 1, ("fs-read", "/root/.ssh/id_rsa"): 1}


@pytest.mark.boundary
def test_a_look_for_masked_places_in_the_box_s_own_home_is_counted(home: Home) -> None:
    person = os.path.expanduser("~")
    fs = boxes.POLICY.fs._replace(deny=(f"{person}/.ssh", f"{person}/.aws"))
    paths = all_box(fs=fs)
    with boxes.started(paths) as keeper:
        sh(
            keeper,
            "cat ~/.ssh/id_ed25519; cat ~/.aws/credentials; cat ~/.bashrc",
        )
        sh(keeper, "mkdir ~/.ssh; echo own > ~/.ssh/own; cat ~/.ssh/own")
        found = denials(keeper)
    assert found[("fs-read", "~/.ssh/id_ed25519")] == 1
    assert found[("fs-read", "~/.aws/credentials")] == 1
    assert ("fs-read", "~/.ssh/own") not in found
    assert not any(name == "~/.bashrc" for _, name in found)


@pytest.mark.boundary
def test_masked_paths_below_a_grant_name_the_rule(home: Home) -> None:
    granted = home.root / "granted"
    (granted / "secret").mkdir(parents=True)
    granted.chmod(0o755)
    (granted / "secret" / "key").write_text("k")
    (granted / "open").write_text("o")
    home.root.chmod(0o755)
    fs = FsPolicy(read=(*boxes.POLICY.fs.read, str(granted)), write=(), deny=(str(granted / "secret"),))
    paths = all_box(fs=fs)
    with boxes.started(paths) as keeper:
        ran = sh(keeper, f"cat {granted}/open; cat {granted}/secret/key")
        assert ran.out == b"o"
        rows = keeper.call("tally")["rows"]
    assert [(one["kind"], one["object"], one["rule"]) for one in rows] == [
        ("fs-read", f"{granted}/secret/key", f"fs.deny = {granted}/secret")
    ]
    home.root.chmod(0o700)


@pytest.mark.boundary
def test_destinations_that_cannot_be_reached_are_counted(keeper: KeeperClient) -> None:
    code = (
        "import socket\n"
        "def go(family, address):\n"
        "    try: socket.socket(family).connect(address)\n"
        "    except OSError as e: return\n"
        "    raise SystemExit(9)\n"
        "for _ in range(3): go(socket.AF_INET, ('192.0.2.7', 443))\n"
        "go(socket.AF_INET6, ('2001:db8::1', 80))\n"
        "go(socket.AF_INET, ('127.0.0.1', 9))\n"
        "u = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n"
        "try: u.sendto(b'x', ('192.0.2.53', 53))\n"
        "except OSError: pass\n"
    )
    ran = run(keeper, PYTHON, "-c", code)
    assert (ran.exit, ran.err) == (0, b"")
    assert denials(keeper) == {
        ("net", "192.0.2.7:443"): 3,
        ("net", "[2001:db8::1]:80"): 1,
        ("net", "192.0.2.53:53 (name server)"): 1,
    }


@pytest.mark.boundary
def test_host_sockets_are_refused_and_named_but_the_box_s_own_work(home: Home, keeper: KeeperClient) -> None:
    name = f"cloche-test-{os.getpid()}"
    with socket.socket(socket.AF_UNIX) as path, socket.socket(socket.AF_UNIX) as abstract:
        path.bind(str(home.root / "listen"))
        path.listen()
        abstract.bind("\0" + name)
        abstract.listen()
        code = (
            "import socket, os\n"
            "def go(address):\n"
            "    try: socket.socket(socket.AF_UNIX).connect(address)\n"
            "    except OSError: return 'refused'\n"
            "    return 'connected'\n"
            "own = socket.socket(socket.AF_UNIX); own.bind('/tmp/own'); own.listen()\n"
            f"print(go({str(home.root / 'listen')!r}), go('\\0' + {name!r}), go('/tmp/own'))\n"
        )
        ran = run(keeper, PYTHON, "-c", code)
        assert ran.out == b"refused refused connected\n"
    assert denials(keeper) == {
        ("socket", f"unix:{home.root}/listen"): 1,
        ("socket", f"unix:@{name}"): 1,
    }


def test_lookups_of_the_name_cache_are_counted_apart(keeper: KeeperClient) -> None:
    assert sh(keeper, "id; ls -l /").exit == 0
    tally = keeper.call("tally")
    assert tally["total"] == 0
    assert tally["name_cache_asked"] > 0


def test_without_unix_sockets_they_are_refused_and_counted(home: Home) -> None:
    paths = boxes.make(policy=boxes.POLICY._replace(net=boxes.POLICY.net._replace(unix=False)))
    with boxes.started(paths) as keeper:
        code = "import socket\nfor _ in range(5):\n try: socket.socket(1)\n except PermissionError: pass\n"
        assert run(keeper, PYTHON, "-c", code).exit == 0
        assert denials(keeper)[("socket", "AF_UNIX SOCK_STREAM")] == 5


# ---------------------------------------------------------------- many


@pytest.mark.boundary
def test_ten_thousand_repeats_are_one_row_and_few_records(box: BoxPaths, keeper: KeeperClient) -> None:
    code = "import ctypes\nlibc = ctypes.CDLL(None)\nfor _ in range(10000): libc.unshare(0x10000000)\n"
    began = time.monotonic()
    assert run(keeper, PYTHON, "-c", code, limit=60).exit == 0
    tally = keeper.call("tally")
    assert (len(tally["rows"]), tally["rows"][0]["count"], tally["total"]) == (1, 10_000, 10_000)
    keeper.call("stop")
    kept = boxes.records(box, "denial")
    assert sum(one["count"] for one in kept) == 10_000
    assert len(kept) < 5 + time.monotonic() - began, "one a second"
    assert project(journal.read(box.journal)).total == 10_000


@pytest.mark.boundary
def test_a_flood_of_different_objects_loses_no_count_and_a_probe_still_shows(
    box: BoxPaths, keeper: KeeperClient
) -> None:
    code = (
        "import os\n"
        "for n in range(6000):\n"
        "    try: os.open(f'/usr/flood-{n}', os.O_WRONLY | os.O_CREAT)\n"
        "    except OSError: pass\n"
    )
    assert run(keeper, PYTHON, "-c", code, limit=60).exit == 0
    tally = keeper.call("tally")
    assert tally["total"] == 6000
    assert sum(one["count"] for one in tally["rows"]) + tally["others"] == 6000
    before = tally["others"]
    sh(keeper, "echo x > /usr/the-probe")
    after = keeper.call("tally")
    assert after["total"] == 6001
    shown = ("fs-write", "/usr/the-probe") in denials(keeper)
    assert shown or after["others"] == before + 1
    keeper.call("stop")
    told = project(journal.read(box.journal))
    assert (told.total, told.others + sum(row.count for row in told.rows)) == (6001, 6001)


@pytest.mark.boundary
def test_others_are_served_while_one_floods(box: BoxPaths, keeper: KeeperClient) -> None:
    code = "import ctypes\nlibc = ctypes.CDLL(None)\nwhile True: libc.unshare(0x10000000)\n"
    floods = [Running(keeper, [PYTHON, "-c", code]) for _ in range(2)]
    for _ in range(5):
        assert sh(keeper, "echo through", limit=60).out == b"through\n"
    for one in floods:
        keeper.call("signal", session=one.session, signal=9)
        assert one.finish().exit == 137


# ---------------------------------------------------------------- execs


def test_an_install_script_s_children_are_in_the_journal(box: BoxPaths, keeper: KeeperClient) -> None:
    boxes.write_script(
        box,
        "install.sh",
        "#!/bin/sh\nenv > /dev/null\ncat ~/.npmrc 2>/dev/null\n"
        "sh -c 'head -c 1 /etc/hostname | wc -c > /dev/null' --password=hunter2hunter2\nexit 0\n",
    )
    assert sh(keeper, "./install.sh").exit == 0
    wait_until(lambda: len(execs(box)) >= 7, "the execs are journalled")
    found = execs(box)
    assert [Path(one["path"]).name for one in found[:2]] == ["sh", "install.sh"]
    assert Counter(Path(one["path"]).name for one in found) == Counter(
        {"sh": 2, "install.sh": 1, "env": 1, "cat": 1, "head": 1, "wc": 1}
    )
    by_pid = {one["pid"]: one for one in found}
    wc = next(one for one in found if one["path"].endswith("/wc"))
    assert wc["argv"] == ["wc", "-c"]
    assert by_pid[wc["parent"]]["path"] == "/usr/bin/sh"
    inner = next(one for one in found if "[redacted]" in " ".join(one["argv"]))
    assert inner["argv"][-1] == "--password=[redacted]"
    assert "hunter2" not in box.journal.read_text()


def test_a_program_that_replaces_itself_at_once_is_told_twice_and_in_order(
    box: BoxPaths, keeper: KeeperClient
) -> None:
    for _ in range(5):
        assert run(keeper, "/bin/sh", "-c", "exec /bin/true").exit == 0
    keeper.call("stop")
    assert [one["path"] for one in execs(box)] == ["/bin/sh", "/bin/true"] * 5


def test_every_exec_of_a_burst_is_journalled(box: BoxPaths, keeper: KeeperClient) -> None:
    script = "i=0; while [ $i -lt 1000 ]; do /bin/true; i=$((i+1)); done"
    assert sh(keeper, script, limit=60).exit == 0
    keeper.call("stop")
    assert sum(one["path"] == "/bin/true" for one in execs(box)) == 1000


def test_names_that_a_shell_only_tries_are_no_execs(box: BoxPaths, keeper: KeeperClient) -> None:
    code = "import os\ntry: os.execvp('no-such-tool', ['x'])\nexcept OSError: os.execvp('true', ['true'])\n"
    assert run(keeper, PYTHON, "-c", code).exit == 0
    keeper.call("stop")
    assert [one["argv"][0] for one in execs(box)] == [PYTHON, "true"]
    assert boxes.records(box, "denial") == []


@pytest.mark.boundary
def test_programs_outside_the_grants_are_counted_as_refused_execs(home: Home, box: BoxPaths) -> None:
    program = home.root / "tool"
    program.write_text("#!/bin/sh\nexit 0\n")
    program.chmod(0o755)
    with boxes.started(box) as keeper:
        assert sh(keeper, f"{program}").exit == 127
        assert denials(keeper) == {("exec", str(program)): 1}


def test_exits_of_orphans_are_journalled_with_the_pid_of_their_exec(
    box: BoxPaths, keeper: KeeperClient
) -> None:
    sh(keeper, "(setsid sh -c 'exec sleep 0.2' > /dev/null 2>&1 &) ; exit 0")
    wait_until(lambda: keeper.call("stat")["processes"] == 0, "the orphan ends")
    keeper.call("stop")
    orphan = next(one for one in execs(box) if one["argv"] == ["sleep", "0.2"])
    ends = {one["pid"]: one for one in boxes.records(box, "exit")}
    assert ends[orphan["pid"]]["status"] == 0


# ---------------------------------------------------------------- hostile arguments


@pytest.mark.boundary
def test_pointers_to_nowhere_harm_nobody(keeper: KeeperClient) -> None:
    code = (
        "import ctypes, errno\n"
        "libc = ctypes.CDLL(None, use_errno=True)\n"
        "libc.syscall.argtypes = [ctypes.c_long] * 7\n"
        "for number in (2, 257, 59, 322, 42, 85):\n"
        "    for bad in (0, 1, 0xdead0000, 2**63 - 1, -1, -4096):\n"
        "        libc.syscall(number, bad, bad, bad, bad, bad, bad)\n"
        "print('alive')\n"
    )
    assert run(keeper, PYTHON, "-c", code).out == b"alive\n"
    assert sh(keeper, "echo fine").out == b"fine\n"


@pytest.mark.boundary
def test_names_of_any_bytes_are_carried(box: BoxPaths, keeper: KeeperClient) -> None:
    code = (
        "import os\n"
        "long = [b'/usr/' + b'a' * 300, b'/usr/' + b'b/' * 2040]\n"
        "for name in [b'/usr/\\xff\\x1b]0;x\\x07', b'/usr/new\\nline', *long]:\n"
        "    try: os.open(name, os.O_WRONLY | os.O_CREAT)\n"
        "    except OSError: pass\n"
    )
    assert run(keeper, PYTHON, "-c", code).exit == 0
    names = {name for _, name in denials(keeper)}
    assert "/usr/\udcff\x1b]0;x\x07" in names
    assert "/usr/new\nline" in names
    keeper.call("stop")
    assert journal.verify(box.journal).problems == ()


@pytest.mark.boundary
def test_a_huge_argv_is_cut_not_refused(box: BoxPaths, keeper: KeeperClient) -> None:
    code = "import os\nos.execv('/bin/true', ['true'] + ['x' * 1000] * 1500)\n"
    assert run(keeper, PYTHON, "-c", code).exit == 0
    keeper.call("stop")
    last = execs(box)[-1]
    assert last["path"] == "/bin/true"
    assert sum(len(word) for word in last["argv"]) < 20_000


def test_the_tally_goes_on_over_launches(box: BoxPaths) -> None:
    for _ in range(2):
        with boxes.started(box) as keeper:
            sh(keeper, "echo x > /usr/again")
    with boxes.started(box) as keeper:
        assert denials(keeper) == {("fs-write", "/usr/again"): 2}
        assert keeper.call("stat")["denied"] == 2
