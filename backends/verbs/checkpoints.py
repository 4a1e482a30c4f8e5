"""Saving a live box with its processes, and going on from there."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from backends.boxes import liveness, manifest
from backends.boxes.layout import BoxPaths
from backends.boxes.lifecycle import require
from backends.errors import Busy, ClocheError, NoSuchBox, Refused
from backends.policy import canonical
from backends.policy.model import Policy
from backends.snapshots_checkpoint import CheckpointRow
from backends.trees.remove import remove
from backends.verbs import authority, passage, sessions

if TYPE_CHECKING:
    from backends.boxes.manifest import Manifest

FACTS = "checkpoint.json"
FILES = "files"
_OWN = ("tree", "home", "repo")  # folders of a box that lie on the host, and are saved as they were
_COPY = 1800.0  # seconds
_ELSEWHERE = 'a box of --tier container whose profile states runtime = "gvisor" has one'


def checkpoint(paths: BoxPaths) -> CheckpointRow:
    """See ``Engine.checkpoint``."""
    authority.require_outside("checkpoint")
    known = manifest.load(paths)
    policy = canonical.decode(paths.policy.read_bytes())
    live = liveness.read(paths)
    facts: Mapping[str, object] = live.facts.get("facts") or {}
    require_able(paths, facts)
    if live.kind != "live":
        raise NoSuchBox(
            f"box {paths.name} is not live",
            "nothing of it runs, so its files are all there is of it",
            f"cloche run {paths.name} -- CMD starts it",
            code="not-live",
        )
    from backends.container import gvisor_checkpoint

    assert live.init is not None  # as of every live box
    box = gvisor_checkpoint.running(paths, live.init.pid)
    if holding := gvisor_checkpoint.attached(box):
        raise Busy(
            f"box {paths.name} cannot be saved now",
            f"streams of others are held by: {'; '.join(holding[:5])}",
            "let these commands end; what goes on in the background with streams of its own is saved: "
            "COMMAND </dev/null >FILE 2>&1 &",
            code="attached",
        )
    fresh = gvisor_checkpoint.folder(paths).with_name("checkpoint-new")
    remove(fresh)
    fresh.mkdir(mode=0o700)
    try:
        size = gvisor_checkpoint.save(box, fresh / gvisor_checkpoint.STATE)
        sessions.stop(paths)
        with passage.holding(paths, "checkpoint") as held:
            (fresh / FILES).mkdir(mode=0o700)
            for name in _OWN:
                if (paths.root / name).is_dir():
                    _copy(paths.root / name, fresh / FILES / name)
            row = CheckpointRow(
                box=paths.key,
                made=time.time(),
                runtime="gvisor",
                version=gvisor_checkpoint.version(),
                kernel=str(facts.get("kernel", "")),
                image_digest=policy.image.rpartition("@")[2],
                policy_digest=known.policy_digest,
                size=size,
            )
            (fresh / FACTS).write_text(json.dumps(row._asdict(), sort_keys=True) + "\n", encoding="utf-8")
            target = gvisor_checkpoint.folder(paths)
            remove(target)
            fresh.rename(target)
            held.record("checkpoint", {**row._asdict(), "who": passage.person()})
            return row
    finally:
        remove(fresh)


def restore(paths: BoxPaths) -> CheckpointRow:
    """See ``Engine.restore``."""
    authority.require_outside("restore")
    known = manifest.load(paths)
    policy = canonical.decode(paths.policy.read_bytes())
    require_able(paths, {})
    from backends.container import gvisor_checkpoint

    place = gvisor_checkpoint.folder(paths)
    row = read(paths, place)
    if liveness.read(paths).kind == "live":
        raise Busy(
            f"box {paths.name} is live",
            "what runs in it would be lost",
            f"end it first: cloche stop {paths.name}",
            code="live",
        )
    _require_same(paths, row, policy, known, gvisor_checkpoint.version())
    with passage.holding(paths, "restore") as held:
        require(paths.name, held.manifest.state, "run")
        before = _put_back(paths, place / FILES)
        held.record("restored", {**row._asdict(), "who": passage.person()})
        (place / gvisor_checkpoint.NEXT).touch(mode=0o600)
    from backends.keeper import client

    try:
        client.start(paths, sessions.START_LIMIT).close()
    except ClocheError as error:
        with passage.holding(paths, "restore") as held:
            _take_back(paths, before)
            held.record("restore-failed", {"why": f"{error.what}: {error.why}", "who": passage.person()})
        raise
    finally:
        (place / gvisor_checkpoint.NEXT).unlink(missing_ok=True)
    remove(before)
    return row


def read(paths: BoxPaths, place: Path) -> CheckpointRow:
    """What was saved. ``NoSuchBox`` code "no-checkpoint" when nothing was."""
    try:
        value = json.loads((place / FACTS).read_bytes())
        return CheckpointRow(**value)
    except FileNotFoundError:
        raise NoSuchBox(
            f"box {paths.name} has no checkpoint",
            "none was made, or it was removed",
            f"cloche checkpoint {paths.name} makes one while the box is live",
            code="no-checkpoint",
        ) from None
    except (OSError, ValueError, TypeError) as error:
        raise Refused(
            f"the checkpoint of box {paths.name} cannot be read",
            str(error),
            f"rm -r {place}",
            code="checkpoint-damaged",
        ) from error


def require_able(paths: BoxPaths, facts: Mapping[str, object]) -> None:
    """``Refused`` by name for what cannot be saved with its processes. ``facts``: of its launch."""
    known = manifest.load(paths)
    policy = canonical.decode(paths.policy.read_bytes())
    if known.tier == "container" and policy.runtime == "gvisor":
        return
    if known.tier == "container":
        _refuse(
            paths,
            "the container tier's crun and runc leave that to CRIU, which saves no rootless container",
            'make a box whose profile states runtime = "gvisor"',
        )
    if known.tier == "microvm":
        vmm = str(facts.get("vmm", policy.vmm)).partition(" ")[0]
        if vmm == "microsandbox":
            _refuse(
                paths,
                "snapshots of microsandbox are not driven: no guest of it could be saved and tried",
                _ELSEWHERE,
            )
        _refuse(
            paths,
            "QEMU saves no guest while it has a folder of the host mounted by virtio-9p, as every box has",
            _ELSEWHERE,
        )
    _refuse(paths, f"processes of tier {known.tier} are the host kernel's own, and it saves none", _ELSEWHERE)


def _refuse(paths: BoxPaths, why: str, remedy: str) -> NoReturn:
    raise Refused(f"box {paths.name} cannot be saved with its processes", why, remedy, code="no-checkpoints")


def _require_same(paths: BoxPaths, row: CheckpointRow, policy: Policy, known: Manifest, version: str) -> None:
    """What was saved goes on only where it was: with the same program, image and policy."""
    for what, then, now in (
        ("runsc", row.version, version),
        ("image", row.image_digest, policy.image.rpartition("@")[2]),
        ("policy", row.policy_digest, known.policy_digest),
    ):
        if then != now:
            raise Refused(
                f"box {paths.name} cannot go on from its checkpoint",
                f"the {what} was {then}, and is {now or 'absent'} now",
                f"cloche run {paths.name} -- CMD starts it anew, with its files as they are",
                code="checkpoint-differs",
            )


def _put_back(paths: BoxPaths, saved: Path) -> Path:
    """The box's folders as they were. Returns the folder with what they were until now."""
    old = paths.root / "restoring"
    remove(old)
    old.mkdir(mode=0o700)
    try:
        for name in _OWN:
            if not (saved / name).is_dir():
                continue
            fresh = old / f"{name}.new"
            _copy(saved / name, fresh)
            (paths.root / name).rename(old / name)
            fresh.rename(paths.root / name)
    except BaseException:
        _take_back(paths, old)
        raise
    return old


def _take_back(paths: BoxPaths, old: Path) -> None:
    """The box's folders as they were before :func:`_put_back`, of which ``old`` is left."""
    for name in _OWN:
        if (old / name).exists():
            remove(paths.root / name)
            (old / name).rename(paths.root / name)
    remove(old)


def _copy(source: Path, target: Path) -> None:
    """Everything with its modes and times; links as links. Blocks are shared where the file system can."""
    program = shutil.which("cp", path="/usr/bin:/bin") or "cp"
    words = [program, "-a", "--reflink=auto", "--no-target-directory", "--", os.fspath(source)]
    done = subprocess.run(
        [*words, os.fspath(target)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=_COPY,
        check=False,
        env={"PATH": "/usr/bin:/bin", "LC_ALL": "C"},
        cwd="/",
    )
    if done.returncode:
        raise ClocheError(
            "the box's files cannot be copied",
            done.stderr.decode("utf-8", "replace").strip()[-400:],
            "make room, or look at what is named",
            code="checkpoint-copy",
        )
