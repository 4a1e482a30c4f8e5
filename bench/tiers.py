"""Every tier that this host has, side by side: making a box, its first command, and one more.

The tiers that run an image have one of the host's own programs, made here without a network. ``microvm`` is
measured on hardware where a guest boots by it, and on an emulated processor, which is another thing.
"""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

from backends.engine import Engine, NewBox
from backends.errors import ClocheError
from bench import rows
from bench.acts import Stage
from bench.peer import TRUE, Unavailable, call, program
from bench.rows import EMULATED, PLAIN_QEMU, TIERS_MEASURED

IMAGE = "measured"
SLOW = 3  # rounds of what boots a guest
PROFILES = """
[profiles.measured]
extends = "default"
{rootful}
[profiles.emulated]
extends = "default"
accelerator = "tcg"
vmm = "qemu"
"""
_ISSUED = 120.0  # seconds for a guest without a word


def measure(stage: Stage, rounds: int) -> None:
    """Samples of every row of the group, or why there are none."""
    _profiles(Path(stage.env["XDG_CONFIG_HOME"]))
    engine = Engine(stage.subject)
    why = _image(engine)
    for tier in TIERS_MEASURED:
        imaged = tier not in ("process", "supervised")
        lacking = why if imaged else ""
        for number in range(rounds if tier != EMULATED else min(rounds, SLOW)):
            lacking = lacking or _round(stage, engine, tier, number, imaged)
        for act in rows.ACTS if lacking else ():
            stage.sampler.miss(rows.of_tier(tier, act), lacking)
    _plain(stage, min(rounds, SLOW))


def _profiles(config: Path) -> None:
    folder = config / "cloche"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    rootful = "rootful = true" if os.geteuid() == 0 else ""
    (folder / "config.toml").write_text(PROFILES.format(rootful=rootful))


def _image(engine: Engine) -> str:
    try:
        engine.image_from_host(["true"], IMAGE)
    except ClocheError as error:
        return f"{error.what}: {error.why}"
    return ""


def _round(stage: Stage, engine: Engine, tier: str, number: int, imaged: bool) -> str:
    """One box of a tier; why there is none, else ""."""
    box = "".join(one if one.isalnum() else "-" for one in f"tier-{tier}-{number}")
    profile = "emulated" if tier == EMULATED else "measured" if tier == "container" else "default"
    request = NewBox(name=box, tier=tier.partition(" ")[0], profile=profile, image=IMAGE if imaged else "")
    begin = time.perf_counter()
    try:
        engine.create(request)
        made = time.perf_counter()
        first = engine.run(box, [TRUE], stage.env, stage.streams)
    except ClocheError as error:
        return f"{error.what}: {error.why}"
    ran = time.perf_counter()
    second = engine.run(box, [TRUE], stage.env, stage.streams)
    done = time.perf_counter()
    if first.exit or second.exit:
        raise SystemExit(f"{TRUE} ended with {first.exit} and {second.exit} at tier {tier}")
    for act, spent in zip(rows.ACTS, (made - begin, ran - made, done - ran), strict=True):
        stage.sampler.add(rows.of_tier(tier, act), spent)
    engine.remove(box, force=True)
    return ""


def _plain(stage: Stage, rounds: int) -> None:
    """QEMU alone with the same kernel, on an emulated processor: until a first process has ended it."""
    from backends.microvm import initrd, kernels

    try:
        boot = initrd.prepare(kernels.find())
        ramdisk = _ramdisk(stage.work)
        argv = [
            program("qemu-system-x86_64", "qemu-system-x86"),
            "-nodefaults",
            "-no-user-config",
            "-no-reboot",
        ]
        argv += ["-display", "none", "-machine", "q35", "-accel", "tcg", "-cpu", "max", "-m", "256"]
        argv += ["-kernel", str(boot.kernel), "-initrd", str(ramdisk), "-append", "quiet panic=-1"]
        for _ in range(rounds):
            begin = time.perf_counter()
            call(argv, limit=_ISSUED)
            stage.sampler.add(PLAIN_QEMU, time.perf_counter() - begin)
    except (Unavailable, kernels.NoKernel, ClocheError) as error:
        stage.sampler.miss(PLAIN_QEMU, str(error))


def _ramdisk(work: Path) -> Path:
    """A root of one program, which turns the machine off."""
    root = work / "ramdisk"
    root.mkdir()
    busybox = Path(program("busybox", "busybox-static"))
    (root / "busybox").write_bytes(busybox.read_bytes())
    (root / "init").write_text("#!/busybox sh\n/busybox poweroff -f\n")
    for name in ("busybox", "init"):
        (root / name).chmod(0o755)
    made = work / "ramdisk.cpio"
    with made.open("wb") as out:
        done = subprocess.run(
            [str(busybox), "cpio", "-o", "-H", "newc"],
            input=b"init\nbusybox\n",
            stdout=out,
            stderr=subprocess.PIPE,
            cwd=root,
            check=False,
        )
    if done.returncode:
        raise Unavailable(f"busybox cpio: {done.stderr.decode(errors='replace').strip()}")
    return made
