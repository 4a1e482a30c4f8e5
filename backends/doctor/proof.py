"""Whether this host can still keep what a box was promised: its own policy, tried by the launch's code."""

from __future__ import annotations

from backends import tiers
from backends.doctor.policy import trusted
from backends.doctor.rows import Box, Voice, command
from backends.errors import ClocheError, UsageError
from backends.host import probes
from backends.keeper.init_protocol import ProtocolError
from backends.policy.model import Policy
from backends.snapshots import Finding
from backends.tiers.protocol import Tier

WHY = "a box under this policy does not start here today"
LIMIT_WHY = "nothing on this host stops the box there, so it can take what others need"


class Proofs:
    """The proofs of one run; boxes under the same policy share one."""

    def __init__(self) -> None:
        self._known: dict[str, probes.Tried | ClocheError | str] = {}

    def check(self, box: Box) -> list[Finding]:
        """The launch as a whole, then each limit that this host does not enforce."""
        voice = Voice(box.paths.key, "proof")
        policy = trusted(box.paths, box.manifest)
        if policy is None:
            remedy = command("cloche", "doctor", box.paths.key)
            return [voice.note("its policy was not tried", "it is not the box's own", WHY, remedy)]
        try:
            tier = tiers.get(policy.tier)
        except UsageError as error:
            return [voice.error(error, WHY)]
        refused = tier.refusals(policy)
        if refused:
            return [
                voice.fail(f"the {policy.tier} tier refuses: {one.key}", one.why, WHY, one.remedy)
                for one in refused
            ]
        return self._judge(voice, box, tier, policy)

    def _judge(self, voice: Voice, box: Box, tier: Tier, policy: Policy) -> list[Finding]:
        tried = self._known.get(box.manifest.policy_digest)
        if tried is None:
            tried = self._known[box.manifest.policy_digest] = _try(tier, policy)
        if isinstance(tried, ClocheError):
            return [voice.error(tried, WHY)]
        if isinstance(tried, str):
            return [voice.fail("a box under its policy did not start", tried, WHY, "cloche probe --fresh")]
        wrong = [proof for proof in tried.proofs if proof.result != probes.PROVED]
        rows = [voice.fail(f"not so: {one.text}", one.evidence, WHY, "cloche probe --fresh") for one in wrong]
        if not rows:
            said = "a box under exactly this policy was started, ran a program and ended"
            if tier.confined:
                said = f"{said}; its init proved {len(tried.proofs)} claims"
            rows = [voice.ok("this host keeps the box's claims today", said)]
        limits = Voice(box.paths.key, "limits")
        return rows + [
            limits.warn(
                f"{row.key} = {row.requested} is not enforced here", row.missing, LIMIT_WHY, "cloche probe"
            )
            for row in tried.enforcement
            if row.missing and not row.enforced
        ]


def _try(tier: Tier, policy: Policy) -> probes.Tried | ClocheError | str:
    try:
        return probes.under(tier, policy)
    except ClocheError as error:
        return error
    except (probes.ProbeError, ProtocolError, OSError) as error:
        return str(error) or type(error).__name__
