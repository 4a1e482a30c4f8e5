"""The guest's initramfs: the first process's program, the host's own interpreter for it, kernel modules.

Which files the interpreter needs is not guessed: a dry run imports the program and tells what it loaded and
mapped. Modules travel as compiled code. The result is made once for each kernel, interpreter and version of
the program, in the cache. Format: Documentation/driver-api/early-userspace/buffer-format.rst ("newc").
"""

from __future__ import annotations

import importlib.util
import json
import marshal
import os
import stat
import subprocess
import sys
from pathlib import Path

from backends.boxes.layout import cache_dir
from backends.boxes.manifest import write_atomically
from backends.digest import sha256
from backends.errors import Refused
from backends.microvm import kernels
from backends.microvm.kernels import Kernel
from backends.record import NamedTuple

_ROOT = Path(__file__).resolve().parents[2]  # of the package ``backends``
_APPLICATION = "/cloche"
_PATIENCE = 60.0
_KEPT = 4  # sets of boot files that the cache keeps
_DRY_RUN = """
import sys
sys.path.insert(0, sys.argv[1])
import backends.microvm.guest.agent
"x".encode("ascii"), "x".encode("latin-1"), "x".encode("utf-8", "surrogateescape")
names = {}
for name, module in sorted(sys.modules.items()):
    spec = getattr(module, "__spec__", None)
    origin = getattr(module, "__file__", None)
    if origin and spec:
        names[spec.name] = [origin, hasattr(module, "__path__")]
with open("/proc/self/maps") as file:
    mapped = sorted({line.split(None, 5)[5].strip() for line in file if line.count("/")})
import json
print(json.dumps({"modules": names, "mapped": [one for one in mapped if one.startswith("/")],
    "stdlib": __import__("os").path.dirname(__import__("os").__file__), "prefix": sys.base_exec_prefix,
    "platlib": sys.platlibdir, "version": list(sys.version_info[:2])}))
"""


class Boot(NamedTuple):
    """What a monitor boots."""

    kernel: Path
    initrd: Path
    release: str


def prepare(kernel: Kernel) -> Boot:
    """Boot files for ``kernel``, made if the cache has none. ``Refused`` when they cannot be made."""
    interpreter = os.path.realpath(getattr(sys, "_base_executable", "") or sys.executable)
    status = os.stat(interpreter)
    image = kernel.image.stat()
    key = sha256(
        json.dumps(
            [
                kernel.release,
                os.fspath(kernel.image),
                [image.st_size, image.st_mtime_ns],
                interpreter,
                [status.st_size, status.st_mtime_ns],
                sys.version,
                _program_digest(),
            ]
        ).encode()
    ).hexdigest()[:20]
    folder = cache_dir() / "guests"
    boot = Boot(folder / f"vmlinux-{key}", folder / f"initrd-{key}", kernel.release)
    if boot.kernel.exists() and boot.initrd.exists():
        os.utime(boot.initrd)
        return boot
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    try:
        write_atomically(boot.initrd, _archive(interpreter, kernels.modules(kernel)))
        write_atomically(boot.kernel, kernels.extract(kernel.image))
        for path in (boot.kernel, boot.initrd):
            path.chmod(0o644)  # a monitor of root's runs as another user, and is given the open files
    except (OSError, kernels.NoKernel, subprocess.SubprocessError, ValueError) as error:
        raise Refused(
            "a guest's boot files cannot be made",
            str(error),
            kernels.remedy()
            if isinstance(error, kernels.NoKernel)
            else f"see that {folder} can be written and {interpreter} be read",
            code="guest-boot-files",
        ) from error
    _prune(folder, key)
    return boot


def _program_digest() -> str:
    """Of all sources that may be packed: those of our own package are few enough."""
    found = []
    for room in ("microvm", "microvm/guest", "keeper", "kernel", "."):
        for path in sorted((_ROOT / "backends" / room).glob("*.py")):
            status = path.stat()
            found.append((os.fspath(path), status.st_size, status.st_mtime_ns))
    return sha256(repr(found).encode()).hexdigest()


def _prune(folder: Path, key: str) -> None:
    old = sorted(folder.glob("initrd-*"), key=lambda path: path.stat().st_mtime, reverse=True)[_KEPT:]
    for path in old:
        if not path.name.endswith(key):
            path.unlink(missing_ok=True)
            (folder / path.name.replace("initrd-", "vmlinux-")).unlink(missing_ok=True)


def _archive(interpreter: str, modules: list[tuple[str, bytes]]) -> bytes:
    dry = subprocess.run(
        [interpreter, "-S", "-s", "-E", "-B", "-c", _DRY_RUN, os.fspath(_ROOT)],
        env={},
        capture_output=True,
        check=False,
        timeout=_PATIENCE,
    )
    if dry.returncode:
        raise ValueError(f"the guest's program does not load: {dry.stderr.decode('utf-8', 'replace')[-500:]}")
    seen = json.loads(dry.stdout)
    archive = _Cpio()
    for path in seen["mapped"]:
        if os.path.isfile(path):
            archive.file(path, Path(path).read_bytes(), 0o755)
            for name in _other_names(path):
                archive.link(name, path)
    loader = _loader(interpreter)
    if loader:
        archive.file(loader, Path(loader).read_bytes(), 0o755)
    for name, (origin, package) in seen["modules"].items():
        if origin.endswith(".py"):
            archive.file(*_compiled(name, origin, package, seen["stdlib"]))
    archive.file(f"{seen['stdlib']}/os.pyc", _code("os", f"{seen['stdlib']}/os.py"), 0o644)  # a landmark
    archive.folder(f"{seen['stdlib']}/lib-dynload")
    archive.file(
        "/init",
        f"#!{interpreter} -SsEB\nimport sys\n"
        "if sys.argv[1:] == ['--proof']:\n    print('cloche-proof')\n    sys.exit()\n"
        f"sys.path.insert(0, {_APPLICATION!r})\n"
        "from backends.microvm.guest.agent import main\nmain()\n".encode(),
        0o755,
    )
    for name, data in modules:
        archive.file(f"/modules/{name}", data, 0o644)
    archive.file("/modules/order", "\n".join(name for name, _ in modules).encode(), 0o644)
    for folder in ("/proc", "/sys", "/dev", "/tmp"):  # noqa: S108 (the guest's own)
        archive.folder(folder)
    archive.device("/dev/console", 0o600, 5, 1)
    archive.device("/dev/null", 0o666, 1, 3)
    return archive.end()


def _compiled(name: str, origin: str, package: bool, stdlib: str) -> tuple[str, bytes, int]:
    """Where a module's code lies in the guest, the code as a file that needs no source, and its mode."""
    root = _APPLICATION if name.split(".")[0] == "backends" else stdlib
    place = f"{root}/{name.replace('.', '/')}" + ("/__init__.pyc" if package else ".pyc")
    return place, _code(name, origin), 0o644


def _code(name: str, origin: str) -> bytes:
    """A .pyc of ``origin`` that is trusted as it is (PEP 552, unchecked)."""
    code = compile(Path(origin).read_bytes(), name, "exec", dont_inherit=True, optimize=0)
    return importlib.util.MAGIC_NUMBER + bytes([1, 0, 0, 0]) + bytes(8) + marshal.dumps(code)


def _other_names(library: str) -> list[str]:
    """The links beside a library that lead to it: it is looked for by one of them (ld.so(8), SONAME)."""
    folder = os.path.dirname(library)
    stem = os.path.basename(library).partition(".so")[0] + ".so"
    names = [f"{folder}/{name}" for name in os.listdir(folder) if name.startswith(stem)]
    return [name for name in names if os.path.islink(name) and os.path.realpath(name) == library]


def _loader(program: str) -> str:
    """The dynamic loader that a program names (PT_INTERP, elf(5)); "" for a static one."""
    with open(program, "rb") as file:
        head = file.read(1 << 16)
    offset = int.from_bytes(head[32:40], "little")
    size, count = int.from_bytes(head[54:56], "little"), int.from_bytes(head[56:58], "little")
    for number in range(count):
        at = offset + number * size
        if int.from_bytes(head[at : at + 4], "little") == 3:
            start = int.from_bytes(head[at + 8 : at + 16], "little")
            return head[start : head.index(b"\0", start)].decode()
    return ""


class _Cpio:
    """An archive of format "newc"; folders on the way to a file come by themselves."""

    def __init__(self) -> None:
        self._out = bytearray()
        self._names: set[str] = set()
        self._number = 0

    def file(self, path: str, data: bytes, mode: int) -> None:
        if path not in self._names:
            self._above(path)
            self._entry(path, stat.S_IFREG | mode, data)

    def link(self, path: str, target: str) -> None:
        if path not in self._names:
            self._above(path)
            self._entry(path, stat.S_IFLNK | 0o777, target.encode())

    def folder(self, path: str) -> None:
        if path not in self._names and path != "/":
            self._above(path)
            self._entry(path, stat.S_IFDIR | 0o755, b"")

    def device(self, path: str, mode: int, major: int, minor: int) -> None:
        self._above(path)
        self._entry(path, stat.S_IFCHR | mode, b"", (major, minor))

    def end(self) -> bytes:
        self._entry("TRAILER!!!", 0, b"")
        return bytes(self._out)

    def _above(self, path: str) -> None:
        self.folder(os.path.dirname(path))

    def _entry(self, path: str, mode: int, data: bytes, device: tuple[int, int] = (0, 0)) -> None:
        self._names.add(path)
        self._number += 1
        name = path.lstrip("/").encode() + b"\0"
        fields = (self._number, mode, 0, 0, 1, 0, len(data), 0, 0, *device, len(name), 0)
        self._out += b"070701" + "".join(f"{value:08X}" for value in fields).encode() + name
        self._out += bytes(-len(self._out) % 4)
        self._out += data
        self._out += bytes(-len(self._out) % 4)
