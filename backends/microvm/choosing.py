"""Which monitor a box gets: the first that booted a guest on this host, by the policy's ``vmm``.

A boot is the only proof (a host may offer KVM and boot nothing), and costs seconds: what came of one is kept
for this boot of the host, this kernel, this user, this monitor and its version.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator

from backends import injected
from backends.boxes.layout import cache_dir
from backends.boxes.manifest import write_atomically
from backends.digest import sha256
from backends.errors import Refused
from backends.microvm import vmm as vmms
from backends.microvm.vmm import AUTO, HARDWARE, MODULES, TCG, TCG_LABEL, Observed, Proof, Vmm
from backends.tiers.protocol import Refusal

PATIENCE = {HARDWARE: 25.0, TCG: 90.0}  # seconds that one proof may take
RETRY = 900.0  # seconds after which a monitor that booted nothing is tried again
_VERSION = 1
_KVM = {"absent": "there is no /dev/kvm", "EACCES": "/dev/kvm is closed to this user"}


def candidates(name: str, accelerator: str) -> Iterator[Vmm]:
    """The monitors that a policy admits, in order."""
    for one in MODULES if name == AUTO else (name,):
        found = vmms.get(one)
        if accelerator in found.accelerators:
            yield found


def refusals(name: str, accelerator: str) -> tuple[Refusal, ...]:
    """Why no monitor can be had; empty when one booted a guest."""
    found: list[Refusal] = []
    asked = list(candidates(name, accelerator))
    if not asked:
        return (Refusal("vmm", f"{name} knows no accelerator {accelerator}", 'state vmm = "auto" or "qemu"'),)
    for vmm in asked:
        lacking = _obstacles(vmm, accelerator)
        if lacking:
            found += [one._replace(why=f"{vmm.name}: {one.why}") for one in lacking]
            continue
        proof = proved(vmm, accelerator)
        if proof.proved:
            return ()
        found.append(
            Refusal("tier", f"{vmm.name} booted no guest here: {proof.evidence}", remedy(accelerator))
        )
    return tuple(found)


def choose(name: str, accelerator: str) -> Vmm:
    """The monitor for a box; ``Refused`` where none booted a guest."""
    for vmm in candidates(name, accelerator):
        if not _obstacles(vmm, accelerator) and proved(vmm, accelerator).proved:
            return vmm
    first = refusals(name, accelerator)[0]
    raise Refused("no virtual machine can be had here", first.why, first.remedy, code="no-vmm")


def _obstacles(vmm: Vmm, accelerator: str) -> tuple[Refusal, ...]:
    """What is in the way of a boot; first what was asked to be."""
    asked: tuple[Refusal, ...] = ()
    if injected.how("vmm") == "absent":
        asked += (Refusal("vmm", f"it is not installed{injected.MARK}", remedy(accelerator)),)
    if accelerator == HARDWARE and injected.how("kvm") in _KVM:
        asked += (Refusal("accelerator", _KVM[injected.how("kvm")] + injected.MARK, remedy(accelerator)),)
    return asked + vmm.obstacles(accelerator)


def _struck(accelerator: str) -> str:
    """Why no guest boots, where that was asked for."""
    if injected.how("vmm") == "hung":
        return f"its monitor gave no answer within {PATIENCE[accelerator]:g} s{injected.MARK}"
    if accelerator == HARDWARE and injected.how("kvm") == "boots-nothing":
        return f"/dev/kvm opens, and no guest boots with it{injected.MARK}"
    return ""


def remedy(accelerator: str) -> str:
    """What to do where no guest boots."""
    if accelerator == TCG:
        return "cloche probe says what was tried; use --tier supervised or container"
    return (
        f'use a host whose hypervisor boots guests, or --tier supervised; accelerator = "tcg" works without: '
        f"{TCG_LABEL}"
    )


def proved(vmm: Vmm, accelerator: str, *, fresh: bool = False) -> Proof:
    """What a boot with ``vmm`` came to: the one that is remembered, or one tried now."""
    if why := _struck(accelerator):
        return Proof(False, why, 0.0, None)  # and is never kept
    path = cache_dir() / f"guest-proof-{vmm.name}-{accelerator}.json"
    key = _key(vmm, accelerator)
    if not fresh:
        kept = _read(path, key)
        if kept is not None:
            return kept
    proof = vmm.prove(accelerator, PATIENCE[accelerator])
    value = {
        "key": key,
        "at": time.time(),
        "proved": proof.proved,
        "evidence": proof.evidence,
        "seconds": proof.seconds,
        "observed": list(proof.observed) if proof.observed else None,
    }
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    write_atomically(path, json.dumps(value).encode(), last=False)
    return proof


def _key(vmm: Vmm, accelerator: str) -> str:
    with open("/proc/sys/kernel/random/boot_id") as file:
        boot = file.read().strip()
    parts = (_VERSION, boot, os.uname().release, os.geteuid(), vmm.name, vmm.version(), accelerator)
    return sha256(repr(parts).encode()).hexdigest()


def _read(path: os.PathLike[str], key: str) -> Proof | None:
    try:
        with open(path, "rb") as file:
            value = json.load(file)
        if value["key"] != key or (not value["proved"] and time.time() - value["at"] > RETRY):
            return None
        observed = Observed(*value["observed"]) if value["observed"] else None
        return Proof(bool(value["proved"]), str(value["evidence"]), float(value["seconds"]), observed)
    except (OSError, ValueError, KeyError, TypeError):
        return None
