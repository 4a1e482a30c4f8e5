"""A refusal explained against the box's own policy, and the one change of a person's file that answers it.

A proposal is tried before it is shown: the person's files are resolved with the change and without it, and
what differs must be the change alone, enforceable by the box's tier.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from backends.boxes import generations, liveness
from backends.boxes.generations import Standing
from backends.boxes.layout import BoxPaths, config_dir
from backends.boxes.manifest import Manifest, load
from backends.errors import ClocheError, Refused, UsageError
from backends.policy import amend, danger, delta, files, resolve, schema
from backends.policy.files import ProfileFile
from backends.policy.model import Policy
from backends.policy.paths import covers
from backends.policy.remedy import Change, forbidden, remedy
from backends.policy.remedy import Refused as Row
from backends.policy.resolve import Resolved
from backends.snapshots import Explanation, Proposal

LIVE_KEY = "net.egress"
LIVE_TIER = "supervised"


class Made(NamedTuple):
    """A proposal with all that accepting it takes."""

    proposal: Proposal
    before: str | None  # the file as it is, None where there is none
    after: str
    next: Standing  # the box's policy with the change


def explain(paths: BoxPaths, kind: str, object: str, rule: str) -> Explanation:
    """See ``Engine.explain_denial``."""
    manifest = load(paths)
    now = generations.standing(paths, manifest)
    found = remedy(Row(kind, object, rule, now.policy, now.sources, str(Path.home().resolve())))
    proposal, why_not = None, found.why_not
    if found.change is not None:
        try:
            proposal = make(paths, manifest, now, found.change).proposal
        except ClocheError as error:
            why_not = f"{error.what}: {error.why}"
    return Explanation(kind, object, rule, found.where, found.reason, proposal, why_not)


def propose(paths: BoxPaths, key: str, value: str) -> Proposal:
    """See ``Engine.propose_rule``."""
    told = schema.BY_PATH.get(key)
    if told is None:
        raise files.unknown(key, "command line", key, schema.BY_PATH)
    try:
        spelled = files.check(told, "", value)
    except ValueError as error:
        raise files.bad_value(key, "command line", error) from None
    manifest = load(paths)
    now = generations.standing(paths, manifest)
    change = Change(key, str(spelled) if told.is_list else value)
    return make(paths, manifest, now, change).proposal


def refuse_forbidden(change: Change, policy: Policy) -> None:
    """``Refused`` for what no refusal and no ``cloche allow`` may widen."""
    home = str(Path.home().resolve())
    why = forbidden(change, policy, home) or _behind_links(change, policy, home)
    if why:
        raise Refused(
            f"{change.key} = {change.value} is not accepted",
            why,
            "where you mean it, write it into the profile yourself and make a new box",
            code="never-proposed",
        )


def _behind_links(change: Change, policy: Policy, home: str) -> str:
    """As ``forbidden`` for where a path leads: that may be a link, or the secret's own place."""
    if change.key not in ("fs.read", "fs.write"):
        return ""
    real = str(Path(change.value).resolve())
    if real != change.value and (why := forbidden(change._replace(value=real), policy, home)):
        return f"it leads to {real}: {why}"
    for place, what in danger.sensitive(home):
        there = str(Path(place).resolve())
        if there != place and (covers(there, real) or covers(real, there)):
            return f"it gives the box {what} ({place} leads there), which is never proposed"
    return ""


def make(paths: BoxPaths, manifest: Manifest, now: Standing, change: Change) -> Made:
    """Try one change; ``Refused`` when it cannot be made, changes more than itself, or changes nothing."""
    refuse_forbidden(change, now.policy)
    repository = None if manifest.detached else Path(manifest.repository)
    target, kind = _target(repository)
    before = _text(target)
    after = amend.amend(before or "", now.policy.profile, change.key, change.value)
    amended = files.parse(after.encode("utf-8"), str(target), kind, target.parent)
    own, _ = resolve.read_files(repository, True, None)
    plain = _resolve(paths, manifest, own, repository)
    changed = _resolve(paths, manifest, _exchanged(own, amended), repository)
    policy = delta.carried(now.policy, plain.policy, changed.policy)
    if before == after:
        # The file says it already, and the box was made before it did.
        policy = delta.carried(now.policy, _without(plain.policy, change), plain.policy)
    if policy == now.policy:
        raise Refused(
            "the box's policy has it already",
            _why_the_same(manifest, now),
            f"start it anew if it lives: cloche stop {paths.name}",
            code="nothing-to-change",
        )
    _only(change, now.policy, policy)
    sources = delta.origins(now.sources, plain.sources, changed.sources, change.key)
    live = (
        change.key == LIVE_KEY
        and policy.tier == LIVE_TIER
        and policy.net.mode == "allow"
        and liveness.read(paths).kind == "live"
    )
    shown = amend.unified(str(target), before, after)
    proposal = Proposal(change.key, change.value, str(target), shown, live)
    return Made(proposal, before, after, Standing(policy, sources, now.generation + 1))


def _why_the_same(manifest: Manifest, now: Standing) -> str:
    if now.generation > manifest.generation:
        return "it was accepted and counts from the box's next start"
    return "what refused it is not in the profile: the host's own permissions, or another limit"


def _target(repository: Path | None) -> tuple[Path, str]:
    """The person's own file: the repository's, or for a detached box the user's configuration."""
    if repository is None:
        return config_dir() / files.USER_FILE, "user"
    if not repository.is_dir():
        raise Refused(
            "the profile cannot be changed",
            f"the box's repository is not at {repository} any more",
            "cloche doctor",
            code="no-repository",
        )
    return repository / files.REPOSITORY_FILE, "repository"


def _text(target: Path) -> str | None:
    if target.is_symlink():
        raise Refused(
            f"{target} is not changed",
            "it is a symbolic link: what would be written lies elsewhere",
            "write it into the file that it leads to",
            code="linked-file",
        )
    if files.read(target, "repository" if target.name == files.REPOSITORY_FILE else "user") is None:
        return None
    return target.read_bytes().decode("utf-8")


def _resolve(
    paths: BoxPaths, manifest: Manifest, own: list[ProfileFile], repository: Path | None
) -> Resolved:
    protected = [paths.root, *([Path(manifest.git_dir)] if manifest.git_dir else [])]
    return resolve.merge_files(
        manifest.profile, own, [], repository=repository, tier=manifest.tier, protected=protected
    )


def _exchanged(own: list[ProfileFile], amended: ProfileFile) -> list[ProfileFile]:
    """The files in their order, with the amended one in its place; the repository's comes last."""
    others = [file for file in own if file.kind != amended.kind]
    if amended.kind == "repository":
        return [*others, amended]
    built_in = [file for file in others if file.kind == "built-in"]
    return [*built_in, amended, *(file for file in others if file.kind != "built-in")]


def _without(policy: Policy, change: Change) -> Policy:
    """``policy`` as if the change were not stated; only for lists, since a value has no "before"."""
    room, _, name = change.key.partition(".")
    held = getattr(policy, room)
    entries = getattr(held, name, None)
    if not isinstance(entries, tuple):
        raise Refused(
            "the file states that value already",
            "the box was made before it did",
            "make a new box for it: cloche new",
            code="nothing-to-change",
        )
    return policy._replace(**{room: held._replace(**{name: tuple(e for e in entries if e != change.value)})})


def _only(change: Change, before: Policy, after: Policy) -> None:
    """``UsageError`` when more than the named key differs.

    What is writable is no longer listed as readable, and a grant brings the masks that now lie below it.
    """
    room, _, name = change.key.partition(".")
    rest = {field for field in Policy._fields if getattr(before, field) != getattr(after, field)}
    if rest - {room}:
        raise _more(change, sorted(rest - {room})[0])
    if not name:
        return
    old, new = getattr(before, room), getattr(after, room)
    moved = {field for field in old._fields if getattr(old, field) != getattr(new, field)}
    with_it = {"write": {"read", "hidden"}}.get(name, set())
    if set(before.fs.deny) <= set(after.fs.deny):
        with_it = with_it | {"deny"}
    if moved - {name} - with_it:
        raise _more(change, f"{room}.{sorted(moved - {name} - with_it)[0]}")


def _more(change: Change, key: str) -> UsageError:
    return UsageError(
        f"{change.key} = {change.value} would change more than itself",
        f"with it {key} of the box's policy changes too",
        "write the profile yourself and make a new box",
        code="not-narrow",
    )
