"""A user namespace with the person's subordinate ids, for programs that expect to be root of their own.

``podman`` makes such a namespace itself and then leaves a process behind that keeps it (``podman pause``,
one for each user, for ever). In one that is made here nothing stays: it ends, with all that was mounted in
it, when the last process of it ends.

Root has no use for such a namespace and gets a mount namespace (:func:`shelter`).

Run as a file: ``python -I -S userns.py PROGRAM ARGUMENT...`` executes the program inside, with the
environment that it was given; with ``--shelter STORE RUN`` before the program, root's kind. Lean, because a
steward calls :func:`enter` in its own process.

Source: user_namespaces(7), newuidmap(1), subuid(5); pkg/rootless of github.com/containers/podman, which
takes ``_CONTAINERS_USERNS_CONFIGURED`` for "this process is in such a namespace already".
"""

from __future__ import annotations

import os
import sys

Extent = tuple[int, int, int]  # first id inside, first id outside, length

INSIDE = "_CONTAINERS_USERNS_CONFIGURED"
FAILED = 125  # what podman(1) exits with when it is podman that failed
_FLAGS = 0x10000000 | 0x00020000  # CLONE_NEWUSER | CLONE_NEWNS


def extents(kind: str, own: int) -> tuple[Extent, ...]:
    """The map that podman would write for ``own``: root is the person, then all ids of ``/etc/<kind>``.

    ``kind``: ``subuid`` or ``subgid``. Only the person's own id when the file names none.
    """
    import pwd

    try:
        name = pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        name = ""
    made: list[Extent] = [(0, own, 1)]
    inside = 1
    try:
        with open(f"/etc/{kind}", encoding="utf-8", errors="replace") as file:
            rows = [line.strip().split(":") for line in file]
    except FileNotFoundError:
        rows = []
    for row in rows:
        if len(row) != 3 or row[0] not in (name, str(os.geteuid())):
            continue
        if row[1].isdecimal() and row[2].isdecimal() and int(row[2]) > 0:
            made.append((inside, int(row[1]), int(row[2])))
            inside += int(row[2])
    return tuple(made)


def subordinate() -> bool:
    """Whether the person has subordinate user and group ids at all."""
    return len(extents("subuid", os.geteuid())) > 1 and len(extents("subgid", os.getegid())) > 1


def names() -> dict[str, str]:
    """What tells podman, in the environment, that it is inside and who made it."""
    return {
        INSIDE: "done",
        "_CONTAINERS_ROOTLESS_UID": str(os.geteuid()),
        "_CONTAINERS_ROOTLESS_GID": str(os.getegid()),
    }


def enter() -> None:
    """Move this process, which must have one thread, into a new user and mount namespace, as its root.

    ``OSError`` where the kernel refuses, ``RuntimeError`` with the words of newuidmap(1) where that does.
    """
    pid = os.getpid()
    commands = [
        ["newuidmap", str(pid), *_words(extents("subuid", os.geteuid()))],
        ["newgidmap", str(pid), *_words(extents("subgid", os.getegid()))],
    ]
    began, go = os.pipe2(os.O_CLOEXEC)
    told, tell = os.pipe2(os.O_CLOEXEC)
    helper = os.fork()
    if helper == 0:
        os.close(go)  # or the read below would never see the end of a parent that failed
        _map(began, tell, commands)
    os.close(began)
    os.close(tell)
    try:
        _unshare()
        os.write(go, b"1")
        said = b""
        while part := os.read(told, 4096):
            said += part
    finally:
        os.close(go)
        os.close(told)
        _, status = os.waitpid(helper, 0)
    if status:
        raise RuntimeError(said.decode("utf-8", "replace").strip()[:500] or "newuidmap failed")


SHELTER = "--shelter"
_PLACE = "/run/cloche-podman"  # an empty folder of the host's, and a file system of our own in the shelter
STORE, RUN = f"{_PLACE}/store", f"{_PLACE}/run"
_NEWNS = 0x00020000
_BIND, _REC, _SLAVE = 0x1000, 0x4000, 0x80000


def shelter(store: str, run: str) -> None:
    """Move this process, root's, into a mount namespace with the folders at :data:`STORE` and :data:`RUN`.

    For a container with a user namespace Podman opens every folder above its own to everybody
    (``makeAccessible``), /root among them. Above these two there is nothing to open.
    """
    import ctypes

    libc = ctypes.CDLL(None, use_errno=True)

    def mount(source: str, target: str, kind: str, flags: int) -> None:
        if libc.mount(source.encode(), target.encode(), kind.encode(), flags, None):
            number = ctypes.get_errno()
            raise OSError(number, f"mount {target}: {os.strerror(number)}")

    if libc.unshare(_NEWNS):
        number = ctypes.get_errno()
        raise OSError(number, f"no mount namespace: {os.strerror(number)}")
    libc.mount.argtypes = (ctypes.c_char_p,) * 3 + (ctypes.c_ulong, ctypes.c_char_p)
    mount("none", "/", "", _REC | _SLAVE)
    os.makedirs(_PLACE, mode=0o755, exist_ok=True)
    mount("cloche", _PLACE, "tmpfs", 0)
    for source, target in ((store, STORE), (run, RUN)):
        os.mkdir(target)
        mount(source, target, "", _BIND | _REC)


def _words(of: tuple[Extent, ...]) -> list[str]:
    return [str(number) for extent in of for number in extent]


def _map(began: int, tell: int, commands: list[list[str]]) -> None:
    """The helper, which stayed outside: only there do the set-id programs have their rights."""
    status = 1
    try:
        if os.read(began, 1):
            os.dup2(tell, 2)
            status = 0
            for words in commands:
                pid = os.posix_spawnp(words[0], words, {"PATH": "/usr/bin:/bin:/usr/local/bin"})
                if os.waitpid(pid, 0)[1]:
                    status = 1
                    break
    except OSError as error:
        os.write(tell, f"{error.filename or 'newuidmap'}: {error.strerror}".encode())
        status = 1
    finally:
        os._exit(status)


def _unshare() -> None:
    import ctypes

    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(_FLAGS):
        number = ctypes.get_errno()
        raise OSError(number, f"no user namespace: {os.strerror(number)}")


def main(words: list[str]) -> None:
    """Execute ``words`` inside. Does not return."""
    try:
        if words[0] == SHELTER:
            environment = dict(os.environ)
            shelter(words[1], words[2])
            del words[:3]
        else:
            environment = {**os.environ, **names()}
            enter()
        os.execvpe(words[0], words, environment)  # noqa: S606 (no shell is wanted)
    except (OSError, RuntimeError) as error:
        sys.stderr.write(f"{error}\n")
        sys.exit(FAILED)


if __name__ == "__main__":
    main(sys.argv[1:])
