"""Whether this host can still keep what a box was promised: its own policy, tried by the launch's code."""

from __future__ import annotations

from backends import tiers
from backends.doctor.policy import trusted
from backends.doctor.remembered import Held
from backends.doctor.rows import Box, Voice, command
from backends.errors import ClocheError, UsageError
from backends.host import causes, probes
from backends.keeper.init_protocol import ProtocolError
from backends.keeper.limits import described
from backends.policy.model import Policy
from backends.snapshots import Finding
from backends.tiers.protocol import Tier
from backends.values import Enforcement

WHY = "a box under this policy does not start here today"
LIMIT_WHY = "nothing on this host stops the box there, so it can take what others need"
PART_WHY = "the box gets something else than the policy says, as far as this host can hold it"


class Proofs:
    """The proofs of one run; boxes under the same policy share one."""

    def __init__(self) -> None:
        self._known: dict[str, probes.Tried | ClocheError | str] = {}
        self._held = Held()

    def end(self) -> None:
        """Remember what was kept, for who asks what changed since."""
        self._held.save()

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
            since = self._held.since(box.manifest.policy_digest)
            return [
                voice.fail(f"the {policy.tier} tier cannot take {one.key}", one.why + since, WHY, one.remedy)
                for one in refused
            ]
        return self._judge(voice, box, tier, policy)

    def _judge(self, voice: Voice, box: Box, tier: Tier, policy: Policy) -> list[Finding]:
        digest = box.manifest.policy_digest
        tried = self._known.get(digest)
        if tried is None:
            tried = self._known[digest] = _try(tier, policy)
        if isinstance(tried, ClocheError):
            return [voice.fail(tried.what, tried.why + self._held.since(digest), WHY, tried.next_step)]
        again = "cloche probe --fresh"
        if isinstance(tried, str):
            since = self._held.since(digest)
            return [voice.fail("a box under its policy did not start", tried + since, WHY, again)]
        wrong = [proof for proof in tried.proofs if proof.result != probes.PROVED]
        since = self._held.since(digest) if wrong else ""
        rows = [voice.fail(f"not so: {one.text}", one.evidence + since, WHY, again) for one in wrong]
        if not rows:
            self._held.passed(digest)
            said = "a box under exactly this policy was started, ran a program and ended"
            if tier.confined:
                said = f"{said}; its init proved {len(tried.proofs)} claims"
            rows = [voice.ok("this host keeps the box's claims today", said)]
        return rows + _limits(box, tier, described(tried.enforcement, policy.resources))


def _limits(box: Box, tier: Tier, enforcement: tuple[Enforcement, ...]) -> list[Finding]:
    """What was asked for and is enforced in part, or not at all."""
    short = [row for row in enforcement if row.missing]
    if not tier.confined:
        keys = ", ".join(row.key for row in short)
        why = f"its tier is {tier.name}: what runs in it runs as you"
        voice = Voice(box.paths.key, "limits")
        return [voice.note("nothing of its policy confines it", keys, why, "cloche new --tier auto")]
    rows: list[Finding] = []
    for row in short:
        voice = Voice(box.paths.key, f"limit {row.key}")
        text = f"{row.key} = {row.requested} is"
        remedy = _remedy(row.missing)
        if row.enforced in ("", "not enforced"):
            rows.append(voice.warn(f"{text} not enforced here", row.missing, LIMIT_WHY, remedy))
        elif row.key != "resources.disk":  # which is measured and not held on every host, as its row says
            text = f"{text} enforced in part: {row.enforced}"
            rows.append(voice.note(text, row.missing, PART_WHY, remedy))
    return rows


def _remedy(missing: str) -> str:
    return causes.BY_ID["delegation"].remedy if "delegation" in missing else "cloche probe"


def _try(tier: Tier, policy: Policy) -> probes.Tried | ClocheError | str:
    try:
        return probes.under(tier, policy)
    except ClocheError as error:
        return error
    except (probes.ProbeError, ProtocolError, OSError) as error:
        return str(error) or type(error).__name__
