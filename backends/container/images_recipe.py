"""What makes a host's program work elsewhere, beside its libraries; and the ground every such image has.

A program without a recipe is taken with its libraries, or, if it is a script, with its interpreter.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

from backends.container.images_entries import Entry, folder, link, text
from backends.container.images_host import Collection, ask, which
from backends.errors import UsageError

MOST_PROGRAMS = 100
_APPLETS = 1000
_FOLDERS = ("/dev", "/proc", "/sys", "/run", "/etc", "/var", "/work", "/home", "/home/box", "/root", "/mnt")
_TERMINALS = (
    *("x/xterm", "x/xterm-256color", "s/screen", "s/screen-256color", "t/tmux-256color"),
    *("v/vt100", "l/linux", "d/dumb", "a/ansi", "r/rxvt-unicode-256color"),
)
# Without a static busybox: what scripts take for granted.
_ORDINARY = (
    *("sh", "cat", "ls", "cp", "mv", "rm", "mkdir", "rmdir", "ln", "chmod", "touch", "head", "tail", "wc"),
    *("sort", "uniq", "cut", "tr", "tee", "printf", "echo", "env", "test", "true", "false", "sleep", "date"),
    *("id", "uname", "pwd", "basename", "dirname", "readlink", "realpath", "stat", "du", "df", "dd", "seq"),
    *("nproc", "expr", "od", "sha256sum", "grep", "sed", "find", "xargs", "tar", "gzip", "ps", "kill"),
    *("diff", "cmp"),
)


def collect(programs: Sequence[str], shell: bool = True) -> Collection:
    """The files of an image with these programs of the host. ``UsageError`` for one that is not there.

    ``shell``: with a shell and the ordinary commands too, from a static busybox where the host has one.
    """
    if not 0 < len(programs) <= MOST_PROGRAMS:
        raise UsageError(
            "no image is made of that",
            f"it takes 1 to {MOST_PROGRAMS} names of programs",
            "cloche image build --from-host python3 git --name NAME",
            code="programs",
        )
    made = Collection()
    for path in _FOLDERS:
        made.put(path, folder())
    made.put("/tmp", folder(0o1777))  # noqa: S108 (a name in an image)
    made.put("/var/tmp", folder(0o1777))  # noqa: S108
    for merged in ("/bin", "/sbin", "/lib", "/lib64"):
        if os.path.lexists(merged):
            made.add(merged)
    for name in programs:
        program(made, name)
    if shell:
        _shell(made)
    _ground(made)
    made.add_libraries()
    return made


def program(made: Collection, name: str) -> None:
    """Take the program ``name`` with what its recipe says."""
    if name == "ca-certificates":
        _certificates(made)
        return
    path = which(name)
    if path is None:
        raise UsageError(
            f"there is no program {name!r} to take",
            "it is in none of the system's folders: /usr/local/bin, /usr/bin, /bin, /usr/sbin, /sbin",
            "install it, or leave it out",
            code="no-such-program",
        )
    real = made.add(path)
    if real is None:
        raise UsageError(
            f"the program {path} is not taken",
            made.left[path],
            "what goes into an image belongs to root and is readable by everybody",
            code="unfit-program",
        )
    if interpreter := _interpreter(real):
        for one in interpreter:
            if which(one):
                program(made, one)
    word = os.path.basename(name)
    for prefix, recipe in _RECIPES.items():
        if word == prefix or (word.startswith(prefix) and word[len(prefix) :].replace(".", "").isdigit()):
            recipe(made, real)
            break


def _interpreter(path: str) -> tuple[str, ...]:
    """What the first line of a script names (execve(2)): the interpreter, and behind env(1) the program."""
    with open(path, "rb") as file:
        line = file.readline(256)
    if not line.startswith(b"#!"):
        return ()
    words = line[2:].decode("utf-8", "replace").split()
    if words[:1] == ["/usr/bin/env"]:
        return ("/usr/bin/env", *[word for word in words[1:2] if word.isidentifier()])
    return tuple(words[:1])


def _python(made: Collection, real: str) -> None:
    """The standard library, without its tests; compiled files go along, so that it starts as fast as here."""
    made_of = ask(real, "-I", "-S", "-c", "import sysconfig as s; print(s.get_path('stdlib'))")
    if not made_of.startswith("/"):
        return
    skipped = {
        "test",
        "tests",
        "idlelib",
        "turtledemo",
        "site-packages",
        "dist-packages",
        "EXTERNALLY-MANAGED",
    }

    def skip(place: str, name: str) -> bool:
        return name in skipped or name.startswith("config-") or ".opt-" in name

    made.add_tree(made_of, skip)
    if os.path.isdir("/usr/share/python-wheels"):
        made.add_tree("/usr/share/python-wheels", _nothing)  # what ensurepip installs, on Debian
    made.left.pop(made_of + "/sitecustomize.py", None)
    made.put(f"/etc/{os.path.basename(made_of)}/sitecustomize.py", text(""))  # where Debian's link leads
    for library in ask("/sbin/ldconfig", "-p").splitlines():
        if library.strip().startswith("libgcc_s.so.1 ("):
            made.add(library.rpartition(" => ")[2])  # loaded by libc itself when a thread is cancelled
    _certificates(made)


def _git(made: Collection, real: str) -> None:
    where = ask(real, "--exec-path")
    if where.startswith("/"):
        made.add_tree(where, _nothing)
    made.add_tree("/usr/share/git-core/templates", _nothing)
    _certificates(made)


def _perl(made: Collection, real: str) -> None:
    for place in ask(real, "-e", r'print join("\n", @INC)').splitlines():
        if place.startswith("/usr/") and os.path.isdir(place):
            made.add_tree(place, _nothing)


def _curl(made: Collection, real: str) -> None:
    _certificates(made)


def _certificates(made: Collection) -> None:
    """Whom the host's TLS trusts: public by their nature. Keys are elsewhere, and root's alone."""

    def own(place: str, name: str) -> bool:
        """Certificates made for this host itself, which hold its name."""
        real = os.path.realpath(f"{place}/{name}")
        return name != "ca-certificates.crt" and "/share/ca-certificates/" not in real

    if os.path.isdir("/etc/ssl/certs"):
        made.add_tree("/etc/ssl/certs", own)
    for name in ("certs", "cert.pem"):
        if os.path.lexists(f"/usr/lib/ssl/{name}"):
            made.add(f"/usr/lib/ssl/{name}")


_RECIPES: dict[str, Callable[[Collection, str], None]] = {
    "python": _python,
    "python3": _python,
    "git": _git,
    "perl": _perl,
    "curl": _curl,
    "wget": _curl,
}


def _shell(made: Collection) -> None:
    busybox = which("busybox")
    if busybox is None or not _static(busybox):
        for name in _ORDINARY:
            if path := which(name):
                made.add(path)
        return
    real = made.add(busybox)
    if real is None:
        return
    at = os.path.dirname(real)
    for name in ask(real, "--list").split()[:_APPLETS]:
        path = f"{at}/{name}"
        if path not in made.entries and f"/usr/bin/{name}" not in made.entries and "/" not in name:
            made.put(path, link(os.path.basename(real)))


def _static(path: str) -> bool:
    """Whether a program names no dynamic linker of its own; its name would be near the beginning (elf(5))."""
    with open(path, "rb") as file:
        return b"/ld-" not in file.read(4096)


def _ground(made: Collection) -> None:
    from backends.tiers import etc

    texts = etc.synthesize("box", "/bin/sh", host_network=False)
    for path in ("/etc/passwd", "/etc/group", "/etc/nsswitch.conf", "/etc/hosts"):
        made.put(path, _decoded(texts[path]))
    made.put("/etc/profile", text("export PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin\n"))
    for name in _TERMINALS:
        for base in ("/lib/terminfo", "/usr/share/terminfo"):
            if os.path.exists(f"{base}/{name}"):
                made.add(f"{base}/{name}")
                break
    if os.path.isdir("/usr/lib/locale/C.utf8"):
        made.add_tree("/usr/lib/locale/C.utf8", _nothing)
    if os.path.exists("/usr/lib/os-release"):
        made.add("/usr/lib/os-release")
        made.put("/etc/os-release", link("../usr/lib/os-release"))


def _decoded(data: bytes) -> Entry:
    return Entry("file", 0o644, size=len(data), data=data)


def _nothing(place: str, name: str) -> bool:
    return False
