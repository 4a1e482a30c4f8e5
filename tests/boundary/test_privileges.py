"""Attacks on privileges: the payload is nobody outside, what it leaves behind helps nobody (S6, S8, P2)."""

from __future__ import annotations

import os
import resource
import stat

import pytest

from tests.boundary import harness
from tests.boundary.harness import Box


def test_the_payload_is_an_unprivileged_user_outside_and_box_inside(confined: Box) -> None:
    result = confined.sh("id -u; id -g; id -un; id -G; hostname; touch /work/mine; echo ~box")
    assert result.out.split() == ["1000", "1000", "box", "1000", "probe", "/home/box"]
    owner = (confined.paths.tree / "mine").stat()
    assert (owner.st_uid, owner.st_gid) == (confined.spec.payload_uid, confined.spec.payload_gid)
    assert owner.st_uid != 0
    for pid in confined.processes():
        with open(f"/proc/{pid}/status", encoding="ascii") as file:
            fields = dict(line.rstrip("\n").split(":\t", 1) for line in file if ":\t" in line)
        assert fields["Uid"].split() == [str(confined.spec.payload_uid)] * 4
        if os.geteuid() == 0:
            assert fields["Groups"].split() == []


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_started_by_root_what_only_root_may_read_stays_shut() -> None:
    """S6: even where a grant covers it. Without one it is absent."""
    with harness.box(harness.policy(read=["/etc"])) as box:
        result = box.sh("cat /etc/shadow; head -c 20 /etc/passwd; cat /etc/hostname")
        assert "Permission denied" in result.err
        assert result.out == "root:x:0:0:root:/rooprobe\n"


SET_ID = """
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
def attempt(name, call, *args, **kw):
    try:
        call(*args, **kw)
        print("WENT", name)
    except OSError as error:
        print(error.errno)
def raw(number, *args):
    if libc.syscall(number, *args) < 0:
        raise OSError(ctypes.get_errno(), "")
open("/work/shell", "wb").write(open("/bin/sh", "rb").read())
fd = os.open("/work/shell", os.O_RDONLY)
for mode in (0o4755, 0o2755, 0o6755):
    attempt("chmod", os.chmod, "/work/shell", mode)
    attempt("fchmod", os.chmod, fd, mode)
    attempt("fchmodat", os.chmod, "shell", mode, dir_fd=os.open("/work", os.O_RDONLY))
    attempt("open", os.open, "/work/o%o" % mode, os.O_CREAT | os.O_WRONLY, mode)
    attempt("tmpfile", os.open, "/work", os.O_TMPFILE | os.O_RDWR, mode)
    attempt("mknod", os.mknod, "/work/n%o" % mode, mode | 0o100000)
    if os.uname().machine == "x86_64":
        attempt("creat", raw, 85, b"/work/c%o" % mode, mode)
        attempt("rawopen", raw, 2, b"/work/r%o" % mode, 0o101, mode)
        attempt("rawmknod", raw, 133, b"/work/m%o" % mode, mode | 0o100000, 0)
    attempt("fchmodat2", raw, 452, -100, b"/work/shell", mode, 0)
    how = (ctypes.c_uint64 * 3)(0o101, mode, 0)
    attempt("openat2", raw, 437, -100, b"/work/t%o" % mode, ctypes.byref(how), ctypes.c_size_t(24))
"""


def test_no_set_id_bit_can_be_left_on_a_file() -> None:
    with harness.box() as box:
        result = box.python(SET_ID)
        words = result.out.split()
        assert "WENT" not in words, result.out
        assert set(words) == {"1", "38"}, result.err
        assert len(words) >= 24
        found = [
            path.name
            for path in box.paths.tree.iterdir()
            if path.lstat().st_mode & (stat.S_ISUID | stat.S_ISGID)
        ]
        assert found == []
        assert sum(count for (_, detail), count in box.refused.items() if "set-id" in detail) >= 21


def test_a_set_user_id_program_of_the_host_gains_nothing(confined: Box) -> None:
    result = confined.sh("ls -l /usr/bin/su >/dev/null; su -c id root </dev/null; grep Cap /proc/self/status")
    assert "uid=0" not in result.out
    assert set(result.out.split()[1::2]) == {"0000000000000000"}


def test_only_three_descriptors_and_no_variable_reach_a_session(monkeypatch: pytest.MonkeyPatch) -> None:
    """P2: the caller holds secrets at 3 and 2048 and in its environment."""
    monkeypatch.setenv("SECRET_TOKEN", "t0ken-in-the-environment")
    secret = os.memfd_create("secret")
    os.write(secret, b"secret")
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))  # a login's soft limit is 1024
    for number in (3000, 2048):
        os.dup2(secret, number, inheritable=True)
    os.set_inheritable(secret, True)
    try:
        with harness.box() as box:
            result = box.sh(
                "ls /proc/self/fd; env; cat /proc/1/environ; ls /proc/1/fd;"
                "tr '\\0' '\\n' < /proc/$$/environ; cat /proc/1/cmdline"
            )
            # ls has the folder itself open
            assert result.out.split()[:4] == ["0", "1", "2", "3"]
            assert "SECRET" not in result.out
            assert "t0ken" not in result.out
            assert result.err.count("Permission denied") == 2
            assert result.out.rstrip("\0").endswith("cloche init probe")
            assert "pytest" not in result.out
            if os.geteuid() == 0:
                with open(f"/proc/{box.live.init.pid}/environ", "rb") as file:
                    assert file.read().strip(b"\0") == b""
    finally:
        for number in (secret, 3000, 2048):
            os.close(number)


INIT = """
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
for name in ("mem", "environ", "maps", "auxv", "fd/3", "root", "cwd", "exe", "ns/user", "map_files", "stack"):
    path = "/proc/1/" + name
    try:
        if name in ("root", "cwd", "exe", "ns/user", "fd/3"):
            os.readlink(path)
        elif name == "map_files":
            os.listdir(path)
        else:
            open(path, "rb").read(1)
        print("READ", name)
    except OSError:
        pass
try:
    open("/proc/1/mem", "r+b")
    print("WRITE mem")
except OSError:
    pass
for signal in (15, 2, 1, 9, 19, 6):
    os.kill(1, signal)
buffer = ctypes.create_string_buffer(8)
iov = (ctypes.c_size_t * 2)(ctypes.addressof(buffer), 8)
if libc.syscall(310, 1, iov, 1, iov, 1, 0) >= 0: print("PROCESS_VM")
if libc.ptrace(16, 1, 0, 0) == 0: print("PTRACE")
pidfd = os.pidfd_open(1)
if libc.syscall(438, pidfd, 3, 0) >= 0: print("PIDFD_GETFD")
print("done")
"""


def test_the_launcher_is_closed_to_what_it_started_and_cannot_be_ended(confined: Box) -> None:
    """S8: memory, environment, descriptors of pid 1 refused; no signal from inside ends it."""
    assert confined.python(INIT).out == "done\n"
    assert confined.alive()
    assert confined.sh("echo still here").out == "still here\n"


def test_the_launcher_is_closed_also_where_debugging_is_allowed() -> None:
    with harness.box(harness.policy(debug=True)) as box:
        assert "done" in box.python(INIT).out
        assert "READ" not in box.python(INIT).out
        assert "PTRACE" not in box.python(INIT).out
        assert box.alive()


def test_init_holds_nothing_of_the_host(confined: Box) -> None:
    if os.geteuid() != 0:
        return  # init is not dumpable: only root may look
    folder = f"/proc/{confined.live.init.pid}/fd"
    held = sorted(os.readlink(f"{folder}/{fd}") for fd in os.listdir(folder))
    kinds = [name.split(":")[0] for name in held]
    assert kinds == ["/dev/null"] * 3 + ["/proc/1/oom_score_adj", "anon_inode", "pipe", "socket"]


def test_the_last_user_namespace_is_the_boxs_own_also_without_the_filter() -> None:
    """Below the filter lies a second layer: namespaces, no capabilities, a count that is used up."""
    from backends.kernel import seccomp
    from backends.kernel.bpf import Assembler

    def open_filter(_spec: seccomp.FilterSpec, _arch: str | None = None) -> bytes:
        asm = Assembler()
        asm.load(0)
        asm.equal(0xFFFF, "notify")
        asm.ret(seccomp.RET_ALLOW)
        asm.label("notify")
        asm.ret(seccomp.RET_USER_NOTIF)
        return asm.assemble()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(seccomp, "build", open_filter)
        with harness.box() as box:
            evidence = {row[0]: row[3] for row in box.proofs}
            assert evidence["user-namespace"] == "unshare: No space left on device"
            assert evidence["mount"].startswith("mount: ")
            script = "unshare -Ur id; unshare -m id; mount -t tmpfs x /tmp; umount /proc; chroot /usr id"
            assert box.sh(script).out == ""


def test_every_session_can_signal_every_other(confined: Box) -> None:
    """S8: one domain, so a shell can end the dev server that the agent started."""
    null = os.open("/dev/null", os.O_RDWR)
    number, pid, got = confined.start(["sleep", "1000"], fds=[null, null, null])
    os.close(null)
    for fd in got:
        os.close(fd)
    assert confined.sh(f"kill {pid}").exit == 0
    assert os.waitstatus_to_exitcode(confined.wait(number)["status"]) == -15
