"""Why a virtual machine is not saved with its processes: QEMU's own word, and the refusal that says it."""

from __future__ import annotations

import ctypes
import json
import os
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from backends.kernel.syscalls import PR_SET_CHILD_SUBREAPER
from backends.microvm import confining, qemu
from backends.microvm.vmm import TCG, GuestSpec, Image, Limits, Share
from tests.microvm import world as worlds
from tests.microvm.world import Guests


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Any]:
    """A guest with one folder, and a function that asks its QEMU (QMP); only this test's has that socket."""
    if why := worlds.missing():
        pytest.skip(why)
    words = qemu.arguments
    place = tmp_path / "qmp"
    monkeypatch.setattr(
        qemu, "arguments", lambda spec: [*words(spec), "-qmp", f"unix:{place},server=on,wait=off"]
    )
    monkeypatch.setattr(confining, "plan", lambda *_: confining.Confinement(lambda: None, "nothing"))
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    folder, tree = tmp_path / "launch", tmp_path / "tree"
    folder.mkdir(mode=0o700)
    tree.mkdir()
    spec = GuestSpec(
        name="asked",
        folder=folder,
        image=Image("", "", Path()),
        shares=(Share("work", tree, "/work", True),),
        accelerator=TCG,
        memory=256 << 20,
        cpus=1,
        procs=None,
        tmp=8 << 20,
        shm=8 << 20,
        uid=os.geteuid(),
        gid=os.getegid(),
        home="/",
        files=(),
        proxy=None,
        egress=(),
    )
    reader, writer = os.pipe()
    guest = qemu.VMM.boot(spec, Limits(None, None, None), reader)
    try:
        with socket.socket(socket.AF_UNIX) as sock:
            sock.connect(str(place))
            with sock.makefile("rw") as file:

                def ask(command: str, **arguments: object) -> dict[str, Any]:
                    file.write(json.dumps({"execute": command, "arguments": arguments}) + "\n")
                    file.flush()
                    while True:
                        answer: dict[str, Any] = json.loads(file.readline())
                        if "return" in answer or "error" in answer:
                            return answer

                file.readline()
                ask("qmp_capabilities")
                yield ask
    finally:
        guest.end()
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)
        for fd in (reader, writer, *guest.monitors):
            os.close(fd)
        _reap()


def _reap() -> None:
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            continue
    except ChildProcessError:
        return


@pytest.mark.boundary
@pytest.mark.timeout(400)
def test_qemu_saves_no_guest_that_has_a_folder_of_the_host(asked: Any, tmp_path: Path) -> None:
    said = asked("migrate", uri=f"unix:{tmp_path}/nobody")
    assert "Migration is disabled when VirtFS export path" in said["error"]["desc"]


def unsaved(world: Guests) -> Path:
    """A box of the tier that never ran."""
    made = list((world.root / "s" / "cloche").glob("*/unsaved"))
    return made[0] if made else world.new("unsaved")


@pytest.mark.parametrize("verb", ["checkpoint", "restore"])
def test_a_box_of_the_tier_is_refused_by_name(world: Guests, verb: str) -> None:
    unsaved(world)
    done = world.cloche(verb, "unsaved", "--json")
    refused = json.loads(done.err.splitlines()[-1])
    assert (done.code, refused["code"]) == (3, "no-checkpoints")
    assert "virtio-9p" in refused["why"] and "gvisor" in refused["next"]


def test_a_box_of_microsandbox_is_refused_by_its_own_reason(world: Guests) -> None:
    from backends.boxes.layout import BoxPaths
    from backends.errors import Refused
    from backends.verbs import checkpoints

    path = unsaved(world)
    with pytest.raises(Refused) as caught:
        checkpoints.require_able(BoxPaths(path), {"vmm": "microsandbox (msb 0.7.11)"})
    assert "microsandbox" in caught.value.why
