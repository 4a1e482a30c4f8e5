"""From what people wrote to the one policy of a box.

Layers, each over the one before: the defaults of the schema; then, for every profile of the ``extends``
chain from its root to the one that was asked for, what the built-in profiles, the user's configuration and
the repository's ``cloche.toml`` say about it; then the command line. A ``cloche.toml`` that came with foreign
code is laid between the last two and may only narrow.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from backends.boxes.layout import config_dir, state_dir
from backends.errors import BadRule, ClocheError, Refused, UsageError
from backends.policy import files, fit, grants, schema
from backends.policy.danger import PolicyWarning, warnings
from backends.policy.files import ProfileFile, Stated
from backends.policy.merge import Draft, Ignored
from backends.policy.model import (
    POLICY_VERSION,
    EnvPolicy,
    FsPolicy,
    NetPolicy,
    Policy,
    Resources,
    ReviewPolicy,
)
from backends.record import NamedTuple

DEFAULT_PROFILE = "default"
FOREIGN_PROFILE = "review"
COMMAND_LINE = "command line"


class Resolved(NamedTuple):
    """A policy with the origin of each of its values.

    ``sources`` maps ``net.mode``, ``fs.read[/usr]`` or ``env.set.CI`` to "file:line" (or the words for a
    default or the command line). It is kept beside the policy and is no part of the digest.
    """

    policy: Policy
    sources: dict[str, str]
    warnings: tuple[PolicyWarning, ...]


def resolve(
    profile: str | None,
    *,
    repository: Path | None,
    trusted: bool = True,
    tier: str | None = None,
    overrides: Mapping[str, object] | None = None,
    foreign: tuple[str, bytes] | None = None,
    protected: Sequence[Path] = (),
) -> Resolved:
    """The policy for a new box, frozen from the files as they are now.

    ``repository`` is the folder that holds ``cloche.toml``; with ``trusted`` false that file came with
    foreign code. ``foreign`` is the name and text of one more such file, for a box whose base is not the
    person's own checkout. ``overrides`` maps keys to values as the command line gives them. ``protected``
    are further host folders that no box may change or see, such as a git directory elsewhere.

    ``policy.tier`` stays ``auto`` when nobody names a tier; see :func:`with_tier`. UsageError for what is
    written wrongly, Refused for what cannot be enforced.
    """
    own, strange = read_files(repository, trusted, foreign)
    return merge_files(
        profile,
        own,
        strange,
        repository=repository,
        trusted=trusted,
        tier=tier,
        overrides=overrides,
        protected=protected,
    )


def merge_files(
    profile: str | None,
    own: Sequence[ProfileFile],
    strange: Sequence[ProfileFile],
    *,
    repository: Path | None = None,
    trusted: bool = True,
    tier: str | None = None,
    overrides: Mapping[str, object] | None = None,
    protected: Sequence[Path] = (),
) -> Resolved:
    """What :func:`resolve` does once the files are read: ``own`` from the weakest, then ``strange``."""
    name, asked = _profile_name(profile, own, trusted)
    known = {one for file in own for one in file.profiles}
    chain = _chain(name, asked, own, known, strange)
    draft = Draft()
    folders: dict[int, Path] = {}
    for parent in chain:
        for file in own:
            if parent in file.profiles:
                draft.lay(file.profiles[parent].stated, explicit=file.kind != "built-in")
                folders[draft.layer] = file.folder
    ignored: list[Ignored] = []
    for file in strange:
        for parent in chain:
            if parent in file.profiles:
                ignored.extend(draft.narrow(file.profiles[parent].stated))
                folders[draft.layer] = file.folder
    draft.lay(_overrides(overrides or {}, tier), explicit=True)
    folders[draft.layer] = Path.cwd()
    own_folders = [*protected, state_dir(), *_git_folder(repository)]
    home = Path.home()
    settled = grants.settle(draft, folders, home, own_folders, [config_dir()])
    policy, sources = _policy(name, draft, settled)
    sources["profile"] = asked
    if policy.tier != "auto":
        _refuse_misfit(policy, sources)
    found = [*warnings(policy, str(home.resolve()), sources), *map(_no_effect, ignored)]
    return Resolved(policy, sources, tuple(found))


def with_tier(resolved: Resolved, tier: str) -> Resolved:
    """``resolved`` for the tier that ``auto`` picked. Refused if that tier cannot enforce a key."""
    policy = resolved.policy._replace(tier=tier)
    sources = {**resolved.sources, "tier": f"auto: cheapest tier that fits ({resolved.sources['tier']})"}
    _refuse_misfit(policy, sources)
    return resolved._replace(policy=policy, sources=sources)


def profiles(repository: Path | None, *, trusted: bool = True) -> dict[str, str]:
    """The profiles that can be asked for here, with the place that states each last."""
    own, _ = read_files(repository, trusted, None)
    return {name: text.where for file in own for name, text in sorted(file.profiles.items())}


def read_files(
    repository: Path | None, trusted: bool, foreign: tuple[str, bytes] | None
) -> tuple[list[ProfileFile], list[ProfileFile]]:
    """The files of the person, weakest first, and those that came with foreign code."""
    own = list(files.built_in().values())
    strange: list[ProfileFile] = []
    user = files.user_file()
    if user is not None:
        own.append(user)
    if repository is not None:
        file = files.repository_file(repository, trusted=trusted)
        if file is not None:
            (own if trusted else strange).append(file)
    if foreign is not None:
        label, data = foreign
        strange.append(files.parse(data, label, "foreign", repository or Path.cwd()))
    return own, strange


def _profile_name(profile: str | None, own: Iterable[ProfileFile], trusted: bool) -> tuple[str, str]:
    """The profile to resolve and who asked for it."""
    if profile is not None:
        return profile, COMMAND_LINE
    if not trusted:
        return FOREIGN_PROFILE, "built-in default for foreign code"
    stated = [one for file in own for one in file.settings if one.path == "profile"]
    if stated:
        return str(stated[-1].value), stated[-1].where
    return DEFAULT_PROFILE, "built-in default"


def _chain(
    name: str, asked: str, own: Sequence[ProfileFile], known: set[str], strange: Sequence[ProfileFile]
) -> list[str]:
    """The profiles that ``name`` rests on, root first. A profile that extends nothing rests on default."""
    chain: list[str] = []
    where = asked
    while True:
        if name in chain:
            way = " extends ".join([*chain, name])
            raise UsageError(
                "the profile extends itself",
                f"{where}: {way}",
                "remove one extends line",
                code="profile-cycle",
            )
        if name not in known:
            raise _no_such_profile(name, where, known, strange)
        chain.append(name)
        stated = [one for file in own if name in file.profiles and (one := file.profiles[name].extends)]
        if stated:
            name, where = str(stated[-1].value), stated[-1].where
        elif name == DEFAULT_PROFILE:
            return chain[::-1]
        else:
            name, where = DEFAULT_PROFILE, "built-in default"


def _no_such_profile(name: str, where: str, known: set[str], strange: Sequence[ProfileFile]) -> ClocheError:
    for file in strange:
        if name in file.profiles:
            return Refused(
                f"profile {name} is not yours",
                f"only {file.profiles[name].where} states it, and that file came with foreign code: it may "
                "narrow a profile of yours, not bring one",
                f"take one of {', '.join(sorted(known))}",
                code="foreign-profile",
            )
    near = files.nearest(name, known)
    return UsageError(
        f"no profile is called {name!r}",
        f"{where}: known profiles are {', '.join(sorted(known))}",
        f"take --profile {near}" if near else "take one of these, or state it in cloche.toml",
        code="no-such-profile",
    )


def _overrides(overrides: Mapping[str, object], tier: str | None) -> list[Stated]:
    given: dict[str, object] = dict(overrides)
    if tier is not None:
        given["tier"] = tier
    stated = []
    for path, raw in given.items():
        key = schema.BY_PATH.get(path)
        if key is None:
            raise files.unknown(path, COMMAND_LINE, path, schema.BY_PATH)
        for name, value in _elements(key, path, raw):
            try:
                stated.append(Stated(path, name, files.check(key, name, value), COMMAND_LINE))
            except (ValueError, BadRule) as error:
                raise files.bad_value(path, COMMAND_LINE, error) from None
    return stated


def _elements(key: schema.Key, path: str, raw: object) -> list[tuple[str, object]]:
    """An override taken apart: one text for a list is one entry, "NAME=text" is one name of a table."""
    if key.is_list:
        return [("", one) for one in (raw if isinstance(raw, (list, tuple)) else [raw])]
    if key.kind != "table":
        return [("", raw)]
    if isinstance(raw, Mapping):
        return [(str(name), value) for name, value in raw.items()]
    pairs: list[tuple[str, object]] = []
    for one in raw if isinstance(raw, (list, tuple)) else [raw]:
        name, equals, value = str(one).partition("=")
        if not equals:
            raise files.bad_value(path, COMMAND_LINE, f"{one!r} is not NAME=text")
        pairs.append((name, value))
    return pairs


def _git_folder(repository: Path | None) -> list[Path]:
    return [repository / ".git"] if repository is not None else []


def _policy(name: str, draft: Draft, settled: grants.Settled) -> tuple[Policy, dict[str, str]]:
    sources = {path: held.where for path, held in draft.scalars.items()} | settled.sources

    def scalar(path: str) -> object:
        return draft.scalars[path].value

    def entries(path: str) -> tuple[str, ...]:
        for one, held in draft.lists[path].items():
            sources[f"{path}[{one}]"] = held.where
        return tuple(sorted(draft.lists[path]))

    def pairs(path: str) -> tuple[tuple[str, str], ...]:
        for one, held in draft.tables[path].items():
            sources[f"{path}.{one}"] = held.where
        return tuple(sorted((one, str(held.value)) for one, held in draft.tables[path].items()))

    policy = Policy(
        version=POLICY_VERSION,
        profile=name,
        tier=str(scalar("tier")),
        tree=str(scalar("tree")),
        history=str(scalar("history")),
        observe=str(scalar("observe")),
        debug=bool(scalar("debug")),
        fs=FsPolicy(
            settled.paths["fs.read"], settled.paths["fs.write"], settled.paths["fs.deny"], settled.hidden
        ),
        net=NetPolicy(
            mode=str(scalar("net.mode")),
            egress=_egress(draft, sources),
            loopback=bool(scalar("net.loopback")),
            unix=bool(scalar("net.unix")),
            repin=_repin(draft),
        ),
        env=EnvPolicy(passed=entries("env.pass"), set=pairs("env.set")),
        resources=Resources(**{key: _number(scalar(f"resources.{key}")) for key in Resources._fields}),  # type: ignore[arg-type]
        image=str(scalar("image")),
        services=pairs("services"),
        secrets=entries("secrets"),
        review=ReviewPolicy(str(scalar("review.file"))),
        runtime=str(scalar("runtime")),
        rootful=bool(scalar("rootful")),
        accelerator=str(scalar("accelerator")),
        vmm=str(scalar("vmm")),
    )
    return policy, dict(sorted(sources.items()))


def _number(value: object) -> int | None:
    return value if isinstance(value, int) else None


def _egress(draft: Draft, sources: dict[str, str]) -> tuple[str, ...]:
    """The destinations, which only ``net.mode = "allow"`` keeps.

    A mode that is stated later than the list sets the list aside; a list that is stated as late as the mode
    contradicts it.
    """
    mode = draft.scalars["net.mode"]
    listed = draft.lists["net.egress"]
    if mode.value == "allow":
        sources.update({f"net.egress[{one}]": held.where for one, held in listed.items()})
        return tuple(sorted(listed))
    for one, held in listed.items():
        if held.layer >= mode.layer:
            raise UsageError(
                "net.egress has no effect",
                f'{held.where}: {one} is listed, but net.mode is "{mode.value}" ({mode.where})',
                'state net.mode = "allow", or remove the destination',
                code="egress-without-allow",
            )
    return ()


SHORTEST_REPIN = 60  # seconds


def _repin(draft: Draft) -> int | None:
    """The interval, which only ``net.mode = "allow"`` keeps, as ``_egress`` does."""
    mode, held = draft.scalars["net.mode"], draft.scalars["net.repin"]
    seconds = _number(held.value)
    if seconds is None:
        return None
    if seconds < SHORTEST_REPIN:
        raise UsageError(
            "net.repin is too short",
            f"{held.where}: every {seconds} s would ask the host's name servers without pause",
            'state net.repin = "1m" or more, or "none"',
            code="bad-value",
        )
    if mode.value == "allow":
        return seconds
    if held.layer >= mode.layer:
        raise UsageError(
            "net.repin has no effect",
            f'{held.where}: it is stated, but net.mode is "{mode.value}" ({mode.where})',
            'state net.mode = "allow", or remove net.repin',
            code="egress-without-allow",
        )
    return None


def _refuse_misfit(policy: Policy, sources: Mapping[str, str]) -> None:
    for misfit in fit.misfits(policy, policy.tier):
        where = sources.get(misfit.key, "") or next(
            (place for key, place in sources.items() if key.startswith(misfit.key)), policy.profile
        )
        raise Refused(
            f"the {policy.tier} tier cannot enforce {misfit.key}",
            f"{where}: {misfit.why}",
            misfit.remedy,
            code="tier-cannot",
        )


def _no_effect(one: Ignored) -> PolicyWarning:
    text = "came with foreign code, which may only narrow the policy: no effect"
    return PolicyWarning(one.path, one.value, text, one.where)
