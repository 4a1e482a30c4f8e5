"""The narrowest profile that grants what a box was seen to use. Pure: uses in, text of a profile out.

What nobody looked at is kept as it was granted: a profile that leaves out what is needed is of no use, and
one that was narrowed by a guess looks safer than it is.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from backends.egress import addresses, rules
from backends.evidence.visible import hidden
from backends.policy import schema, values
from backends.policy.explain import value_of
from backends.policy.model import Policy, ReviewPolicy
from backends.policy.paths import covers
from backends.policy.remedy import destination

WHOLE = "*"
FEW = 12  # places below one grant that are listed one by one; with more the grant itself is clearer


class Use(NamedTuple):
    """One entry of a list; ``used`` is None where nobody looked, ``places`` what a profile should state."""

    key: str
    entry: str
    used: bool | None
    places: tuple[str, ...]


class Host(NamedTuple):
    """What is asked of this host's files: whether a path exists, and what it really is."""

    exists: Callable[[str], bool]
    real: Callable[[str], str]


def uses(
    policy: Policy,
    seen: Mapping[tuple[str, str], set[str]],
    executed: set[str],
    destinations: Mapping[str, set[str]] | None,
    host: Host,
) -> tuple[Use, ...]:
    """Each entry of the lists of ``policy`` beside its use.

    ``seen`` maps key and grant to the names right below it that were opened ("" for itself, "*" for many),
    ``executed`` are paths of programs and their interpreters, ``destinations`` the rules that let
    connections out, with the rules that would have been enough; None where nobody counted them.
    """
    reads = policy.observe == "all"
    places = {grant: set(_places(grant, below, host)) for (_, grant), below in seen.items()}
    granted = {*policy.fs.read, *policy.fs.write}
    for path in executed:
        for grant in granted:
            if covers(grant, path):
                places.setdefault(grant, set()).add(_place(grant, path))
    _behind_links(places, granted, host)
    rows = [
        _file(key, grant, places.get(grant), reads or key == "fs.write", reads)
        for key, grant in _files(policy)
    ]
    for name in policy.net.egress:
        if destinations is None:
            rows.append(Use("net.egress", name, None, (name,)))
            continue
        enough = tuple(sorted(destinations.get(name, ())))
        rows.append(Use("net.egress", name, bool(enough), enough if len(enough) <= FEW else (name,)))
    rows += [Use("env.pass", name, None, (name,)) for name in policy.env.passed]
    return tuple(rows)


def destinations(
    listed: Iterable[str], traffic: Iterable[tuple[str, int, str]], pins: Mapping[str, set[str]]
) -> dict[str, set[str]]:
    """The rules of ``listed`` that let ``traffic`` out, each with the narrowest rules that would have.

    ``traffic`` is address, port and the name that the connection said ("" where it said none), ``pins`` the
    names of each address. Nothing narrower than an address or a name without a wildcard can be said.
    """
    found: dict[str, set[str]] = {}
    known = rules.parse_all(listed)
    for address, port, said in traffic:
        raw = addresses.packed(address)
        for rule in known:
            enough = ""
            if rule.port == port and rule.network is not None:
                if not said and raw is not None and rule.network.covers(addresses.plain(raw)):
                    enough = destination(address, port)
            elif rule.port == port and rule.raw:
                enough = rule.text if not said and rule.host in pins.get(address, ()) else ""
            elif rule.port == port and said and rule.admits(said):
                enough = destination(said, port)
            if enough:
                found.setdefault(rule.text, set()).add(enough)
    return found


def _files(policy: Policy) -> list[tuple[str, str]]:
    return [("fs.read", path) for path in policy.fs.read] + [("fs.write", path) for path in policy.fs.write]


def _places(grant: str, below: set[str], host: Host) -> list[str]:
    if WHOLE in below or "" in below:
        return [grant]
    return [path for name in below if host.exists(path := f"{grant.rstrip('/')}/{name}")]


def _place(grant: str, path: str) -> str:
    if path == grant:
        return grant
    return f"{grant.rstrip('/')}/{path[len(grant) :].lstrip('/').partition('/')[0]}"


def _behind_links(places: dict[str, set[str]], granted: set[str], host: Host) -> None:
    """What was used through a link is used where the link leads to: the link alone would lead nowhere.

    One that leads out of all grants gave nothing to the box; as a grant it would give what is there.
    """
    waiting = [path for found in places.values() for path in found]
    looked: set[str] = set()
    while waiting:
        path = waiting.pop()
        if path in looked:
            continue
        looked.add(path)
        real = host.real(path)
        if real == path:
            continue
        for grant in granted:
            if covers(grant, real) and _place(grant, real) not in places.setdefault(grant, set()):
                places[grant].add(_place(grant, real))
                waiting.append(_place(grant, real))
        if path not in granted and not any(covers(grant, real) for grant in granted):
            for found in places.values():
                found.discard(path)


def _file(key: str, grant: str, found: set[str] | None, observed: bool, reads: bool) -> Use:
    if not found:
        return Use(key, grant, False if observed else None, () if observed else (grant,))
    if not reads or key == "fs.write" or grant in found or len(found) > FEW:
        # Where a box writes, it may make any name a link, and a grant of that leads wherever the link does.
        return Use(key, grant, True, (grant,))
    if not all(map(_is_text, found)):
        return Use(key, grant, True, (grant,))
    return Use(key, grant, True, tuple(sorted(found)))


def profile(name: str, policy: Policy, rows: Sequence[Use], about: str) -> str:
    """The draft as TOML: a profile that stands on ``default`` and takes back all that it does not list."""
    lines = [f"# {line}" for line in about.split("\n")]
    lines += ["", f"[profiles.{name}]", 'extends = "default"', f"tier = {json.dumps(policy.tier)}"]
    for path in ("history", "observe", "debug"):
        lines.append(f"{path} = {_bare(path, policy)}")
    for path in ("image", "runtime", "rootful", "accelerator", "vmm"):
        if value_of(policy, path) != schema.BY_PATH[path].default:
            lines.append(f"{path} = {_bare(path, policy)}")
    lines += ["", f"[profiles.{name}.fs]"]
    read = _listed(rows, "fs.read")
    write = _listed(rows, "fs.write")
    lines += _list("read", read)
    lines += _list("write", write)
    masks = [mask for mask in policy.fs.deny if any(covers(grant, mask) for grant in (*read, *write))]
    if masks:
        lines += _list("deny", masks, anew=False)
    lines += ["", f"[profiles.{name}.net]", f"mode = {json.dumps(policy.net.mode)}"]
    if policy.net.mode == "allow":
        lines += _list("egress", _listed(rows, "net.egress"))
        if policy.net.repin is not None:
            lines.append(f"repin = {_bare('net.repin', policy)}")
    lines += [f"{key} = {_bare(f'net.{key}', policy)}" for key in ("loopback", "unix")]
    lines += ["", f"[profiles.{name}.env]", *_list("pass", _listed(rows, "env.pass"))]
    if policy.env.set:
        lines += ["", f"[profiles.{name}.env.set]"]
        lines += [f"{key} = {_quoted(text)}" for key, text in policy.env.set]
    lines += ["", f"[profiles.{name}.resources]"]
    lines += [f"{key} = {_bare(f'resources.{key}', policy)}" for key in policy.resources._fields]
    if policy.review != ReviewPolicy():
        lines += ["", f"[profiles.{name}.review]", f"file = {_bare('review.file', policy)}"]
    return "\n".join(lines) + "\n"


def _listed(rows: Sequence[Use], key: str) -> list[str]:
    return sorted({place for row in rows if row.key == key for place in row.places})


def _list(name: str, entries: Sequence[str], *, anew: bool = True) -> list[str]:
    shown = [_quoted(one) for one in (["!*"] if anew else []) + list(entries)]
    if len(shown) < 2:
        return [f"{name} = [{', '.join(shown)}]"]
    return [f"{name} = [", *(f"  {one}," for one in shown), "]"]


def _is_text(path: str) -> bool:
    """Whether TOML can say ``path``: it has no bytes that are no UTF-8."""
    return not any("\ud800" <= char <= "\udfff" for char in path)


def _quoted(text: str) -> str:
    """``text`` as a basic string of TOML in which nothing is hidden from whoever reads the draft."""
    out = []
    for char in text:
        if char in '"\\':
            out.append("\\" + char)
        elif hidden(char):
            out.append(f"\\u{ord(char):04x}" if ord(char) < 0x10000 else f"\\U{ord(char):08x}")
        else:
            out.append(char)
    return '"' + "".join(out) + '"'


def _bare(path: str, policy: Policy) -> str:
    key, value = schema.BY_PATH[path], value_of(policy, path)
    if key.kind in ("flag", "count") and value is not None:
        return values.show(key, value)
    return json.dumps(values.show(key, value))
