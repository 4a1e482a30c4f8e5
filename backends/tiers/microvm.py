"""The ``microvm`` tier: the box's processes run in a virtual machine, with a kernel of their own.

The machine has no network card. The box's folders are shared with attributes mapped, so that nothing of what
the guest makes is a link or a device on the host.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from backends.errors import Refused
from backends.policy.fit import misfits
from backends.policy.model import Policy
from backends.tiers.protocol import LaunchSpec, LiveBox, Refusal

if TYPE_CHECKING:
    from backends.tiers.builder import Builder


class MicrovmTier:
    name = "microvm"
    confined = True
    promise = (
        "all processes of the box run on a kernel of their own, in a virtual machine without a network card; "
        "the host's kernel serves the monitor alone"
    )
    stays_false = (
        "what the guest says of its processes is the guest's word; with accelerator tcg nothing of this is "
        "promised: emulated, about 13 times slower, no isolation promised"
    )

    def refusals(self, policy: Policy) -> tuple[Refusal, ...]:
        return (*_policy_refusals(policy), *_host_refusals(policy))

    def begin(self, begun: Builder | None) -> None:
        if begun is not None:
            begun.abandon()

    def launch(self, spec: LaunchSpec) -> LiveBox:
        from backends.microvm import launching

        for first in self.refusals(spec.policy):
            raise Refused(
                f"the {self.name} tier cannot take {first.key}", first.why, first.remedy, code="tier"
            )
        return launching.launch(spec)


def _policy_refusals(policy: Policy) -> Iterable[Refusal]:
    for misfit in misfits(policy, MicrovmTier.name):
        yield Refusal(*misfit)
    if policy.tree == "overlay":
        yield Refusal(
            "tree",
            "a guest shares one folder: layers of the host cannot be shown in it",
            'state tree = "auto" or tree = "checkout"',
        )
    if policy.fs.write:
        yield Refusal(
            "fs.write",
            "a guest is given no folder of the host beside its own",
            "remove fs.write from the profile: what a command needs comes with the image",
        )


def _host_refusals(policy: Policy) -> Iterable[Refusal]:
    from backends.microvm import choosing

    yield from choosing.refusals(policy.vmm, policy.accelerator)


TIER = MicrovmTier()
