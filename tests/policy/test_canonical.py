"""The digest names a policy: stable across versions and key order, and nothing else decodes."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backends.errors import Refused
from backends.policy import canonical
from backends.policy.model import TIERS, EnvPolicy, FsPolicy, NetPolicy, Policy, Resources, ReviewPolicy
from tests import support

EXAMPLE = Policy(
    version=1,
    profile="web",
    tier="process",
    tree="checkout",
    history="full",
    observe="writes",
    debug=False,
    fs=FsPolicy(read=("/bin", "/usr"), write=("/srv/ca\u0142he",), deny=()),
    net=NetPolicy(mode="deny", egress=(), loopback=True, unix=True),
    env=EnvPolicy(passed=("LANG",), set=(("CI", "1"),)),
    resources=Resources(
        mem=4 << 30, procs=512, wall=None, cpu=None, file_size=None, files=65536, tmp=1, shm=2, disk=None
    ),
    image="",
    services=(),
    secrets=(),
)
# Written down once: a change of this value orphans the policy of every box that exists.
EXAMPLE_BYTES = (
    b'{"debug":false,"env":{"passed":["LANG"],"set":{"CI":"1"}},"fs":{"deny":[],"read":["/bin","/usr"],'
    b'"write":["/srv/ca\\u0142he"]},"history":"full","image":"","net":{"egress":[],"loopback":true,'
    b'"mode":"deny","unix":true},"observe":"writes","profile":"web","resources":{"cpu":null,"disk":null,'
    b'"file_size":null,"files":65536,"mem":4294967296,"procs":512,"shm":2,"tmp":1,"wall":null},"secrets":[],'
    b'"services":{},"tier":"process","tree":"checkout","version":1}\n'
)
EXAMPLE_DIGEST = "97757a7507b8a7f1fa65c7b5e2064e61accb16533123bcde6648b8bb4696e401"

texts = st.text(max_size=8)
# Paths of the host need not be UTF-8: a lone surrogate stands for a byte (surrogateescape).
paths = st.text(st.characters(exclude_categories=()), max_size=8)
limits = st.none() | st.integers(0, 1 << 63)
wholes = st.integers(0, 1 << 63)
lists = st.lists(paths, max_size=4).map(tuple)
tables = st.dictionaries(texts, texts, max_size=4).map(lambda found: tuple(sorted(found.items())))
policies = st.builds(
    Policy,
    version=st.just(1),
    profile=texts,
    tier=st.sampled_from(TIERS),
    tree=st.sampled_from(canonical.TREES),
    history=st.sampled_from(canonical.HISTORY),
    observe=st.sampled_from(canonical.OBSERVE),
    debug=st.booleans(),
    fs=st.builds(FsPolicy, read=lists, write=lists, deny=lists, hidden=tables),
    net=st.builds(
        NetPolicy,
        mode=st.sampled_from(canonical.NET_MODES),
        egress=lists,
        loopback=st.booleans(),
        unix=st.booleans(),
        repin=limits,
    ),
    env=st.builds(EnvPolicy, passed=lists, set=tables),
    resources=st.builds(
        Resources,
        mem=limits,
        procs=limits,
        wall=limits,
        cpu=limits,
        file_size=limits,
        files=wholes,
        tmp=wholes,
        shm=wholes,
        disk=limits,
    ),
    image=texts,
    services=tables,
    secrets=lists,
    review=st.builds(ReviewPolicy, file=texts),
    runtime=st.sampled_from(canonical.RUNTIMES),
    rootful=st.booleans(),
    accelerator=st.sampled_from(canonical.ACCELERATORS),
    vmm=st.sampled_from(canonical.VMMS),
)


def test_the_bytes_and_the_digest_never_change() -> None:
    assert canonical.encode(EXAMPLE) == EXAMPLE_BYTES
    assert canonical.digest(EXAMPLE_BYTES) == EXAMPLE_DIGEST


@given(policies)
def test_a_policy_survives_its_file(policy: Policy) -> None:
    assert canonical.decode(canonical.encode(policy)) == policy


def _reversed(value: object) -> object:
    if isinstance(value, dict):
        return {key: _reversed(value[key]) for key in reversed(list(value))}
    return value


@given(policies)
def test_the_digest_does_not_depend_on_the_order_of_keys(policy: Policy) -> None:
    """Another writer's order of the same keys is brought back to the one sequence of bytes."""
    data = canonical.encode(policy)
    shuffled = json.dumps(_reversed(json.loads(data)))
    again = json.dumps(json.loads(shuffled), sort_keys=True, separators=(",", ":")).encode() + b"\n"
    assert canonical.digest(again) == canonical.digest(data)


@given(policies, policies)
def test_different_policies_have_different_bytes(one: Policy, other: Policy) -> None:
    assert (canonical.encode(one) == canonical.encode(other)) == (one == other)


@given(policies)
def test_the_file_is_one_line_of_ascii(policy: Policy) -> None:
    data = canonical.encode(policy)
    assert data.isascii()
    assert data.count(b"\n") == 1


def _changed(**changes: object) -> bytes:
    value = json.loads(EXAMPLE_BYTES)
    for path, new in changes.items():
        table, _, key = path.rpartition("__")
        (value[table] if table else value)[key] = new
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode() + b"\n"


@pytest.mark.parametrize(
    ("data", "named"),
    [
        (b"", "not JSON"),
        (b"\xff\xfe", "not JSON"),
        (b"[" * 100_000, "not JSON"),
        (b"[]\n", "not an object"),
        (_changed(version=2), "another version"),
        (_changed(version=True), "version"),
        (_changed(color="red"), "unknown key color"),
        (_changed(runtime="docker"), "runtime is not one of"),
        (_changed(rootful="yes"), "rootful is neither"),
        (_changed(vmm="auto"), "canonical form"),
        (_changed(net__speed=1), "unknown key net.speed"),
        (_changed(fs=[]), "fs is not an object"),
        (_changed(fs__read="/usr"), "fs.read is not a list"),
        (_changed(fs__read=["/usr", 1]), "fs.read is not a list"),
        (_changed(net__unix=1), "net.unix is neither"),
        (_changed(net__mode="open"), "net.mode is not one of"),
        (_changed(resources__mem=-1), "resources.mem"),
        (_changed(resources__mem=1.5), "resources.mem"),
        (_changed(resources__mem=True), "resources.mem"),
        (_changed(resources__files=None), "resources.files is null"),
        (_changed(env__set={"A": 1}), "env.set"),
        (EXAMPLE_BYTES.replace(b'"debug":false,', b""), "debug is missing"),
        (EXAMPLE_BYTES.replace(b"{", b"{ ", 1), "canonical form"),
        (EXAMPLE_BYTES.rstrip(), "canonical form"),
        (EXAMPLE_BYTES.replace(b'"debug":false', b'"debug":true,"debug":false'), "canonical form"),
        (EXAMPLE_BYTES.replace(b"\\u0142", "\u0142".encode()), "canonical form"),
    ],
)
def test_whatever_was_not_written_by_cloche_is_refused_by_name(data: bytes, named: str) -> None:
    with pytest.raises(Refused) as caught:
        canonical.decode(data)
    assert named in caught.value.why


def test_reading_a_policy_imports_little_but_json() -> None:
    code = (
        "import sys; before = set(sys.modules); import backends.policy.canonical;"
        "print(*sorted({name.partition('.')[0] for name in set(sys.modules) - before}))"
    )
    run = subprocess.run(
        [sys.executable, "-S", "-c", code], cwd=support.ROOT, capture_output=True, text=True, check=True
    )
    heavy = {
        "tomllib",
        "pathlib",
        "dataclasses",
        "argparse",
        "asyncio",
        "subprocess",
        "socket",
        "glob",
        "difflib",
        "hashlib",
    }
    assert not heavy & set(run.stdout.split())
    assert "json" in run.stdout.split()
