"""``policy.json``: one sequence of bytes for each policy, and the digest that names it.

Canonical JSON: keys sorted, no blanks, ASCII only (anything else as ``\\u`` escapes), whole numbers only, a
final newline. The digest is the SHA-256 of exactly these bytes, so ``sha256sum policy.json`` prints it too.
The keeper and every command read policies; this module therefore imports json and little else.
"""

from __future__ import annotations

import json

from backends.digest import sha256
from backends.errors import Refused
from backends.policy.model import (
    POLICY_VERSION,
    TIERS,
    EnvPolicy,
    FsPolicy,
    NetPolicy,
    Policy,
    Resources,
    ReviewPolicy,
)

NET_MODES = ("deny", "allow", "host")
OBSERVE = ("none", "writes", "all")
HISTORY = ("full", "none")
TREES = ("checkout", "overlay", "auto")
RUNTIMES = ("auto", "crun", "runc", "gvisor")
ACCELERATORS = ("hardware", "tcg")
VMMS = ("auto", "microsandbox", "qemu")

# Keys that came after the first boxes: left out where they hold this, as the policies before them have none.
_LATER = {"runtime": "auto", "rootful": False, "accelerator": "hardware", "vmm": "auto"}


def encode(policy: Policy) -> bytes:
    """The bytes of ``policy.json``. Equal policies give equal bytes, on every version of Python."""
    value = {
        **policy._asdict(),
        "fs": _files(policy.fs),
        "net": _network(policy.net),
        "env": {"passed": policy.env.passed, "set": dict(policy.env.set)},
        "resources": policy.resources._asdict(),
        "services": dict(policy.services),
        "review": policy.review._asdict(),
    }
    if policy.review == ReviewPolicy():  # left out as below: most policies are older than this key
        del value["review"]
    for key, usual in _LATER.items():
        if value[key] == usual:
            del value[key]
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    return text.encode("ascii") + b"\n"


def _files(fs: FsPolicy) -> dict[str, object]:
    value: dict[str, object] = {"read": fs.read, "write": fs.write, "deny": fs.deny}
    if fs.hidden:  # left out where there is none: the bytes of most policies are older than this key
        value["hidden"] = dict(fs.hidden)
    return value


def _network(net: NetPolicy) -> dict[str, object]:
    value = net._asdict()
    if net.repin is None:  # as with hidden files
        del value["repin"]
    return value


def digest(data: bytes) -> str:
    """The name of the policy that ``data`` holds: 64 hexadecimal digits of SHA-256."""
    return sha256(data).hexdigest()


def decode(data: bytes) -> Policy:
    """The policy that ``encode`` wrote.

    Refused is raised for anything else: an unknown or missing key, a value of another type, another version,
    bytes that are not the canonical form. A policy that was edited by hand is no longer the one that was
    agreed on, so nothing is repaired here.
    """
    try:
        value = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise _broken(f"it is not JSON: {error}") from error
    policy = _policy(_Table(value, ""))
    if encode(policy) != data:
        raise _broken("its bytes are not the canonical form of what they say")
    return policy


def _broken(why: str) -> Refused:
    return Refused(
        "the box's policy cannot be used",
        f"policy.json: {why}",
        "the box does not start; export what it holds and make a new one: cloche new",
        code="policy-broken",
    )


class _Table:
    """A JSON object whose keys must all be taken, each with its type."""

    def __init__(self, value: object, path: str) -> None:
        if not isinstance(value, dict):
            raise _broken(f"{path or 'the whole'} is not an object")
        self._left: dict[str, object] = dict(value)
        self._path = path

    def _take(self, key: str) -> tuple[object, str]:
        path = f"{self._path}.{key}" if self._path else key
        if key not in self._left:
            raise _broken(f"{path} is missing")
        return self._left.pop(key), path

    def text(self, key: str, allowed: tuple[str, ...] = ()) -> str:
        value, path = self._take(key)
        if not isinstance(value, str) or (allowed and value not in allowed):
            raise _broken(f"{path} is not " + (f"one of {', '.join(allowed)}" if allowed else "a text"))
        return value

    def texts(self, key: str) -> tuple[str, ...]:
        value, path = self._take(key)
        if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
            raise _broken(f"{path} is not a list of texts")
        return tuple(value)

    def pairs(self, key: str) -> tuple[tuple[str, str], ...]:
        value, path = self._take(key)
        if not isinstance(value, dict) or not all(isinstance(one, str) for one in value.values()):
            raise _broken(f"{path} is not an object of texts")
        return tuple(sorted(value.items()))

    def pairs_if_any(self, key: str) -> tuple[tuple[str, str], ...]:
        return self.pairs(key) if key in self._left else ()

    def flag(self, key: str) -> bool:
        value, path = self._take(key)
        if not isinstance(value, bool):
            raise _broken(f"{path} is neither true nor false")
        return value

    def whole(self, key: str) -> int:
        value = self.limit(key)
        if value is None:
            raise _broken(f"{self._path}.{key} is null")
        return value

    def limit(self, key: str) -> int | None:
        value, path = self._take(key)
        if value is None:
            return None
        if not isinstance(value, int) or isinstance(value, bool) or value < 0:
            raise _broken(f"{path} is not a whole number from 0 up")
        return value

    def limit_if_any(self, key: str) -> int | None:
        return self.whole(key) if key in self._left else None

    def table(self, key: str) -> _Table:
        return _Table(*self._take(key))

    def text_if_any(self, key: str, allowed: tuple[str, ...]) -> str:
        return self.text(key, allowed) if key in self._left else str(_LATER[key])

    def flag_if_any(self, key: str) -> bool:
        return self.flag(key) if key in self._left else bool(_LATER[key])

    def review(self) -> ReviewPolicy:
        if "review" not in self._left:
            return ReviewPolicy()
        table = self.table("review")
        found = ReviewPolicy(file=table.text("file"))
        table.end()
        return found

    def end(self) -> None:
        if self._left:
            prefix = f"{self._path}." if self._path else ""
            raise _broken(f"unknown key {prefix}{min(self._left)}")


def _policy(table: _Table) -> Policy:
    version = table.whole("version")
    if version != POLICY_VERSION:
        raise _broken(f"version {version} was written by another version of cloche, this one reads 1")
    fs, net, env, resources = (table.table(key) for key in ("fs", "net", "env", "resources"))
    policy = Policy(
        version=version,
        profile=table.text("profile"),
        tier=table.text("tier", (*TIERS, "auto")),
        tree=table.text("tree", TREES),
        history=table.text("history", HISTORY),
        observe=table.text("observe", OBSERVE),
        debug=table.flag("debug"),
        fs=FsPolicy(
            read=fs.texts("read"),
            write=fs.texts("write"),
            deny=fs.texts("deny"),
            hidden=fs.pairs_if_any("hidden"),
        ),
        net=NetPolicy(
            mode=net.text("mode", NET_MODES),
            egress=net.texts("egress"),
            loopback=net.flag("loopback"),
            unix=net.flag("unix"),
            repin=net.limit_if_any("repin"),
        ),
        env=EnvPolicy(passed=env.texts("passed"), set=env.pairs("set")),
        resources=Resources(
            mem=resources.limit("mem"),
            procs=resources.limit("procs"),
            wall=resources.limit("wall"),
            cpu=resources.limit("cpu"),
            file_size=resources.limit("file_size"),
            files=resources.whole("files"),
            tmp=resources.whole("tmp"),
            shm=resources.whole("shm"),
            disk=resources.limit("disk"),
        ),
        image=table.text("image"),
        services=table.pairs("services"),
        secrets=table.texts("secrets"),
        review=table.review(),
        runtime=table.text_if_any("runtime", RUNTIMES),
        rootful=table.flag_if_any("rootful"),
        accelerator=table.text_if_any("accelerator", ACCELERATORS),
        vmm=table.text_if_any("vmm", VMMS),
    )
    for part in (fs, net, env, resources, table):
        part.end()
    return policy
