"""Attacks from inside a real container, checked from outside."""

from __future__ import annotations

import os
import socket
import stat
from pathlib import Path

import pytest

from backends.kernel import syscalls
from tests import support
from tests.container.inside import script
from tests.container.world import World

PYTHON = True


@pytest.fixture(scope="module")
def box(world: World) -> Path:
    return world.new("attacked")


MOUNTING = ("fsopen", "open_tree", "move_mount", "mount_setattr", "fsconfig", "pivot_root", "chroot")


def numbers(*names: str) -> str:
    return repr({name: syscalls.number(name) for name in names})


def test_nothing_is_mounted_and_no_namespace_made(world: World, box: Path) -> None:
    body = (
        f"n = {numbers('mount', 'umount2', 'unshare', 'setns', 'clone', 'clone3')}\n"
        f"others = {numbers(*MOUNTING)}\n"
        "found['tmpfs'] = call(n['mount'], 'none', '/tmp', 'tmpfs', 0, 0)\n"
        "found['bind'] = call(n['mount'], '/work', '/tmp', '', 4096, 0)\n"
        "found['remount'] = call(n['mount'], 'none', '/', '', 32 | 4096, 0)\n"
        "found['umount'] = call(n['umount2'], '/work/.git', 2)\n"
        "for name, number in others.items():\n"
        "    found[name] = call(number, 0, '/', 0, 0, 0)\n"
        "for shift in (17, 25, 26, 27, 28, 29, 30):\n"
        "    found[f'unshare {shift}'] = call(n['unshare'], 1 << shift)\n"
        "    found[f'clone {shift}'] = call(n['clone'], 1 << shift | 17, 0, 0, 0, 0)\n"
        "found['time'] = call(n['unshare'], 1 << 7)\n"
        "for name in ('user', 'mnt', 'net', 'pid'):\n"
        "    fd = os.open(f'/proc/self/ns/{name}', os.O_RDONLY)\n"
        "    found[f'setns {name}'] = call(n['setns'], fd, 0)\n"
        "found['clone3'] = call(n['clone3'], 0, 0)\n"
    )
    found = world.python("attacked", script(body))
    assert found.pop("clone3") == "ENOSYS"
    assert set(found.values()) == {"EPERM"}, found


def test_the_kernels_wide_doors_are_shut(world: World, box: Path) -> None:
    names = (
        "add_key", "keyctl", "request_key", "bpf", "perf_event_open", "userfaultfd", "io_uring_setup",
        "ptrace", "process_vm_readv", "pidfd_getfd", "open_by_handle_at", "kexec_load", "init_module",
        "name_to_handle_at", "quotactl", "fanotify_init", "syslog", "swapon", "reboot", "settimeofday",
    )  # fmt: skip
    found = world.python("attacked", script(f"for k, v in {numbers(*names)}.items(): found[k] = call(v)\n"))
    assert {name: got for name, got in found.items() if got not in ("EPERM", "ENOSYS")} == {}


def test_only_plain_sockets_can_be_made(world: World, box: Path) -> None:
    body = (
        "for name, args in {'packet': (17, 3, 0), 'alg': (38, 5, 0), 'vsock': (40, 1, 0), 'raw': (2, 3, 1),\n"
        "    'raw6': (10, 3, 58), 'mptcp': (2, 1, 262), 'sctp': (2, 1, 132), 'audit': (16, 3, 9),\n"
        "    'netfilter': (16, 3, 12)}.items():\n"
        "    found[name] = attempt(lambda: socket.socket(*args))\n"
        "for name, args in {'tcp': (2, 1, 0), 'udp6': (10, 2, 0), 'unix': (1, 1, 0)}.items():\n"
        "    found[name] = attempt(lambda: socket.socket(*args))\n"
    )
    found = world.python("attacked", script(body))
    assert {found.pop(name) for name in ("tcp", "udp6", "unix")} == {"ok"}
    assert "ok" not in found.values(), found


def test_no_set_id_bit_and_no_device_reaches_the_disk(world: World, box: Path) -> None:
    body = (
        f"n = {numbers('chmod', 'open', 'creat', 'mknod', 'fchmodat2')}\n"
        "os.chdir('/work'); open('plain', 'w').close()\n"
        "for mode in (0o4755, 0o2755, 0o6755):\n"
        "    found[f'chmod {mode:o}'] = call(n['chmod'], 'plain', mode)\n"
        "    found[f'creat {mode:o}'] = call(n['creat'], f'c{mode:o}', mode)\n"
        "    found[f'open {mode:o}'] = call(n['open'], f'o{mode:o}', 0o101, mode)\n"
        "    found[f'mknod {mode:o}'] = call(n['mknod'], f'm{mode:o}', mode | 0o100000, 0)\n"
        "call(n['fchmodat2'], -100, 'plain', 0o4755, 0)\n"  # what comes of it is looked at from outside
        "for kind in (0o020000, 0o060000):\n"
        "    found[f'device {kind:o}'] = call(n['mknod'], f'd{kind:o}', kind | 0o666, 0x103)\n"
        "found['fifo'] = call(n['mknod'], 'fifo', 0o010644, 0)\n"
    )
    found = world.python("attacked", script(body))
    assert found.pop("fifo") == "ok"
    assert set(found.values()) == {"EPERM"}, found
    for path in (box / "tree").iterdir():
        status = path.lstat()
        assert not stat.S_ISCHR(status.st_mode) and not stat.S_ISBLK(status.st_mode), path
        if path.name != "plain":
            assert not status.st_mode & 0o6000, path
    # A call that the host's seccomp library may have no name for: what it makes nobody else can reach.
    plain = (box / "tree" / "plain").stat()
    if plain.st_mode & 0o6000:
        assert box.stat().st_mode & 0o077 == 0
        assert "libseccomp has no name" in world.cloche("status", "attacked").out


def test_the_first_process_and_the_hosts_are_out_of_reach(world: World, box: Path) -> None:
    body = (
        "for name in ('environ', 'mem', 'maps', 'root', 'cwd', 'fd/3', 'fd', 'stack', 'auxv'):\n"
        "    path = f'/proc/1/{name}'\n"
        "    found[name] = attempt(lambda: os.readlink(path) if name in ('root', 'cwd') else\n"
        "        os.listdir(path) if name == 'fd' else open(path, 'rb').read(1))\n"
        "for number in (9, 15, 19, 1):\n"
        "    found[f'kill {number}'] = attempt(lambda: os.kill(1, number))\n"
        "import resource\n"
        "found['prlimit'] = attempt(lambda: resource.prlimit(1, resource.RLIMIT_NOFILE, (3, 3)))\n"
        "seen = sorted(int(p) for p in os.listdir('/proc') if p.isdigit())\n"
        "found['seen'] = seen\n"
    )
    found = world.python("attacked", script(body))
    seen = found.pop("seen")
    assert seen[0] == 1 and len(seen) <= 4
    assert set(found.values()) <= {"EPERM", "EACCES"}, found
    assert world.cloche("run", "attacked", "--", "true").code == 0


def test_only_the_boxs_own_places_can_be_written(world: World, box: Path) -> None:
    body = (
        "places = set()\n"
        "for top, folders, files in os.walk('/'):\n"
        "    folders[:] = [f for f in folders if os.path.join(top, f) not in ('/proc', '/work/.git')]\n"
        "    if os.access(top, os.W_OK): places.add(top)\n"
        "    for name in files:\n"
        "        path = os.path.join(top, name)\n"
        "        if not os.path.islink(path) and os.access(path, os.W_OK): places.add(path)\n"
        "    if top in ('/work', '/home/box', '/tmp', '/dev/shm', '/dev/mqueue'): folders[:] = []\n"
        "found = sorted(p for p in places if not p.startswith(('/work/', '/home/box/', '/tmp/')))\n"
    )
    found = set(world.python("attacked", script(body)))
    places = {"/work", "/home/box", "/tmp", "/dev/shm", "/dev/mqueue"}
    devices = {f"/dev/{name}" for name in ("null", "zero", "full", "random", "urandom", "tty", "ptmx")}
    assert found - devices - {name for name in found if name.startswith("/dev/pts/")} == places


def test_the_kernels_own_files_take_no_write(world: World, box: Path) -> None:
    body = (
        "for path in ('/proc/sysrq-trigger', '/proc/sys/kernel/core_pattern', '/proc/sys/vm/drop_caches',\n"
        "    '/proc/sys/kernel/hostname', '/proc/irq/0/smp_affinity', '/sys/kernel/uevent_helper',\n"
        "    '/sys/power/state', '/sys/fs/cgroup/cgroup.procs', '/proc/self/oom_score_adj'):\n"
        "    found[path] = attempt(lambda: open(path, 'w').write('-1000'))\n"
        "for path in ('/proc/kcore', '/proc/keys', '/proc/timer_list', '/sys/firmware', '/sys/fs/cgroup'):\n"
        "    found[path] = attempt(lambda: (os.listdir(path) and None) if os.path.isdir(path) else\n"
        "        open(path, 'rb').read(8))\n"
        "folders = [p for p in ('/sys/firmware', '/sys/fs/cgroup') if os.path.isdir(p)]\n"
        "found['hidden'] = [len(os.listdir(p)) for p in folders]\n"
    )
    found = world.python("attacked", script(body))
    assert set(found.pop("hidden")) <= {0}
    written = {
        path: got for path, got in found.items() if path.startswith(("/proc/sys", "/proc/irq", "/sys/"))
    }
    reads = {"/sys/firmware", "/sys/fs/cgroup"}
    assert {path for path, got in written.items() if got == "ok"} <= reads, written


def test_nothing_of_the_host_is_there(world: World, box: Path) -> None:
    marker = Path(world.root / "h" / "secret")
    marker.write_text("hush")
    paths = [
        str(marker), str(box / "manifest.json"), str(world.root), "/home/tester", "/etc/shadow",
        "/run/docker.sock", "/var/run/docker.sock", "/run/podman/podman.sock", "/run/user", "/dev/kvm",
        "/dev/fuse", "/dev/net/tun", "/dev/sda", "/dev/vda", "/dev/mem",
    ]  # fmt: skip
    body = f"for path in {paths!r}: found[path] = os.path.lexists(path)\n"
    found = world.python("attacked", script(body))
    assert [path for path, there in found.items() if there] == []


def test_no_socket_of_the_host_answers(world: World, box: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as tcp, socket.socket(socket.AF_UNIX) as abstract:
        abstract.bind(b"\0cloche-attack-" + os.urandom(4).hex().encode())
        abstract.listen()
        name = abstract.getsockname()
        port = tcp.getsockname()[1]
        body = (
            f"found['loopback'] = attempt(lambda: socket.create_connection(('127.0.0.1', {port}), 2))\n"
            f"found['abstract'] = attempt(lambda: socket.socket(socket.AF_UNIX).connect({name!r}))\n"
            "for address in ('10.0.2.2', '192.0.2.1', '169.254.169.254'):\n"
            "    found[address] = attempt(lambda: socket.create_connection((address, 80), 2))\n"
            "found['names'] = attempt(lambda: socket.getaddrinfo('example.org', 80))\n"
            "s = socket.create_server(('127.0.0.1', 0))\n"
            "found['own'] = attempt(lambda: socket.create_connection(s.getsockname(), 2))\n"
        )
        found = world.python("attacked", script(body))
    assert found.pop("own") == "ok"
    assert "ok" not in found.values(), found


def test_what_a_link_in_the_tree_points_at_never_leaves_the_host(world: World) -> None:
    secret = world.root / "h" / "key"
    secret.write_text("TOP-SECRET-OF-THE-HOST")
    box = world.new("linked")
    body = (
        f"os.symlink({str(secret)!r}, '/work/file'); os.symlink('/', '/work/root')\n"
        f"os.remove('/work/README.md'); os.symlink({str(secret)!r}, '/work/README.md')\n"
        "found['git'] = [attempt(lambda: os.rename('/work/.git', '/work/x')),\n"
        "    attempt(lambda: os.rmdir('/work/.git'))]\n"
    )
    assert world.python("linked", script(body)) == {"git": ["EBUSY", "EBUSY"]}
    shown = world.cloche("diff", "linked")
    assert shown.code == 0
    assert "TOP-SECRET" not in shown.out
    assert world.cloche("stop", "linked").code == 0
    assert "TOP-SECRET" not in world.cloche("propose", "linked").out
    assert secret.read_text() == "TOP-SECRET-OF-THE-HOST"
    again = world.cloche("run", "linked", "--", "cat", "/work/file")  # of a proposed box it is refused
    assert "TOP-SECRET" not in again.out
    assert (box / "tree" / "file").is_symlink()


def test_nothing_of_the_keeper_is_open_in_a_session(world: World, box: Path) -> None:
    body = (
        "found['fds'] = sorted(int(fd) for fd in os.listdir('/proc/self/fd'))\n"
        "found['kinds'] = [stat.S_IFMT(os.fstat(fd).st_mode) for fd in (0, 1, 2)]\n"
        "found['groups'] = os.getgroups()\n"
        "lines = open('/proc/self/status').read().splitlines()\n"
        "found['status'] = [line for line in lines if line.startswith(('Cap', 'NoNew'))]\n"
    )
    found = world.python("attacked", script(body))
    assert found["fds"][:3] == [0, 1, 2] and len(found["fds"]) <= 4  # and that of the listing
    assert set(found["groups"]) <= {1000}
    assert all(line.split()[1].strip("0") in ("", "1") for line in found["status"])
    assert sum("NoNewPrivs:\t1" in line for line in found["status"]) == 1


def test_one_box_is_not_another(world: World, box: Path) -> None:
    world.new("neighbour")
    assert world.cloche("run", "neighbour", "--", "sh", "-c", "echo mine > /home/box/f").code == 0
    body = (
        "found['home'] = os.listdir('/home/box')\n"
        "found['mounts'] = 'neighbour' in open('/proc/self/mountinfo').read()\n"
    )
    found = world.python("attacked", script(body))
    assert "f" not in found["home"]
    assert found["mounts"] is False


def test_a_session_begins_in_no_folder_that_a_link_of_procfs_leads_to(world: World) -> None:
    box = world.new("elsewhere")
    body = (
        "for fd in range(3, 20): os.symlink(f'/proc/self/fd/{fd}', f'/work/l{fd}')\n"
        "os.symlink('/proc/1/cwd', '/work/first'); os.symlink('/proc/self/cwd', '/work/own')\n"
    )
    world.python("elsewhere", script(body))
    for name in ("first", "own", *(f"l{fd}" for fd in range(3, 20))):
        done = world.cloche("run", "--cwd", name, "elsewhere", "--", "ls", "-la", "..")
        assert done.code in (126, 127), (name, done.out)
        assert done.out == ""
    assert (box / "tree" / "first").is_symlink()


def test_a_box_that_stops_whatever_enters_it_can_still_be_ended(world: World) -> None:
    box = world.new("stopping")
    body = (
        "first = os.getpid()\n"
        "if os.fork() == 0:\n"
        "    os.setsid(); null = os.open('/dev/null', os.O_RDWR)\n"
        "    for fd in (0, 1, 2): os.dup2(null, fd)\n"
        "    while os.getppid() == first: pass\n"
        "    while True:\n"
        "        for name in os.listdir('/proc'):\n"
        "            if name.isdigit() and int(name) not in (1, os.getpid()):\n"
        "                attempt(lambda: os.kill(int(name), 19))\n"
    )
    world.python("stopping", script(body))
    done = world.cloche("run", "stopping", "--", "true", timeout=60)
    assert done.code == 126 or done.code == 0, done.err  # what enters is stopped, or was faster
    assert world.cloche("stop", "stopping", timeout=60).code == 0
    live = world.live(box)
    assert not support.is_alive(live["init"]) and not support.is_alive(live["beside"][0])
