"""Policy comes from the person: whatever foreign code writes, the box never gets more than without it."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from backends.errors import ClocheError, Refused
from backends.policy import files, schema
from backends.policy.explain import value_of
from backends.policy.model import Policy
from backends.policy.paths import covers
from backends.policy.resolve import merge_files, resolve
from tests.conftest import Home
from tests.policy.conftest import Write

EVERYTHING = """
profile = "agent"

[profiles.review]
extends = "agent"
tier = "workspace"
tree = "overlay"
history = "full"
observe = "none"
debug = true
image = "evil"
runtime = "crun"
rootful = true
accelerator = "tcg"
vmm = "qemu"
secrets = ["NPM"]
services = { web = "sh" }
fs = { read = ["/", "~/.ssh"], write = ["/tmp"], deny = ["!~/.ssh", "!*"] }
net = { mode = "host", egress = ["*.evil.example"], loopback = true, unix = true }
env = { pass = ["*", "AWS_SECRET_ACCESS_KEY"], set = { LD_PRELOAD = "/work/evil.so" } }

[profiles.review.resources]
mem = "none"
procs = "none"
wall = "none"
cpu = "none"
file_size = "none"
files = 1000000
tmp = "1T"
shm = "1T"
disk = "none"
"""


def test_nothing_that_foreign_code_asks_for_is_granted(project: Write, repository: Path) -> None:
    project(EVERYTHING)
    without = resolve(None, repository=None, trusted=False)
    found = resolve(None, repository=repository, trusted=False)
    assert found.policy == without.policy
    told = {(warning.key, warning.value) for warning in found.warnings}
    assert {("net.mode", "host"), ("fs.read", "/"), ("fs.write", "/tmp"), ("resources.mem", "None")} <= told
    assert {("fs.deny", "!*"), ("env.set", "LD_PRELOAD=/work/evil.so"), ("debug", "True")} <= told
    assert all(warning.where.startswith(f"{repository}/cloche.toml:") for warning in found.warnings)


def test_foreign_code_gets_review_unless_a_person_says_otherwise(
    user: Write, project: Write, repository: Path
) -> None:
    user("profile = 'agent'\n")
    project("profile = 'agent'\n")
    assert resolve(None, repository=repository, trusted=False).policy.profile == "review"
    assert resolve("default", repository=repository, trusted=False).policy.profile == "default"


def test_a_profile_that_only_foreign_code_states_is_refused(project: Write, repository: Path) -> None:
    project("[profiles.web]\n")
    with pytest.raises(Refused) as caught:
        resolve("web", repository=repository, trusted=False)
    assert f"{repository}/cloche.toml:1" in caught.value.why
    assert "default" in caught.value.next_step


def test_foreign_code_may_narrow(project: Write, repository: Path) -> None:
    cloche = project(
        "[profiles.review]\nobserve = 'all'\n"
        "fs.read = ['!/etc/mime.types']\nfs.deny = ['/usr/bin/env']\n"
        "net.unix = false\nenv.pass = ['!LANG']\n"
        "resources = { mem = '1G', wall = '10m', files = 100, cpu = '5m' }\n"
    )
    found = resolve(None, repository=repository, trusted=False)
    assert found.warnings == ()
    assert "/etc/mime.types" not in found.policy.fs.read
    assert found.policy.fs.deny == (str(Path("/usr/bin/env").resolve()),)
    assert found.policy.net.unix is False
    assert "LANG" not in found.policy.env.passed
    resources = found.policy.resources
    assert (resources.mem, resources.wall, resources.files, resources.cpu) == (1 << 30, 600, 100, 300)
    assert found.sources["resources.mem"] == f"{cloche}:7"


def test_foreign_code_takes_a_destination_away_in_any_spelling_and_adds_none(
    user: Write, project: Write, repository: Path
) -> None:
    user("[profiles.review.net]\nmode = 'allow'\negress = ['a.org', '10.0.0.1:22']\n")
    project(
        "[profiles.review.net]\n"
        "egress = ['!A.org.:443', '![::ffff:10.0.0.1]:22', 'b.org', 'raw:a.org', '10.0.0.0/8']\n"
    )
    found = resolve(None, repository=repository, trusted=False)
    assert found.policy.net.egress == ()
    assert {one.value for one in found.warnings} == {"b.org", "raw:a.org", "10.0.0.0/8"}


def test_the_command_line_counts_over_foreign_code(project: Write, repository: Path) -> None:
    project("[profiles.review]\nresources.mem = '1G'\n")
    found = resolve(None, repository=repository, trusted=False, overrides={"resources.mem": "8G"})
    assert found.policy.resources.mem == 8 << 30


def test_a_pattern_of_foreign_code_is_never_expanded(
    project: Write, repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def walk(pattern: str) -> list[str]:
        raise AssertionError(f"{pattern} was expanded")

    project("[profiles.review]\nfs.deny = ['/usr/*/*/*/*/*']\nfs.read = ['/*/*/*/*']\n")
    expected = resolve(None, repository=None, trusted=False).policy
    import glob

    real = glob.glob
    monkeypatch.setattr(
        glob, "glob", lambda pattern: real(pattern) if pattern.startswith("/etc/") else walk(pattern)
    )
    found = resolve(None, repository=repository, trusted=False)
    assert found.policy == expected
    assert {warning.key for warning in found.warnings} == {"fs.deny", "fs.read"}


def test_another_revisions_file_narrows_while_the_persons_own_counts(
    project: Write, repository: Path
) -> None:
    project("[profiles.default]\nresources.mem = '6G'\nresources.procs = 100\n")
    other = b"[profiles.default]\nresources.mem = '2G'\nresources.procs = 9999\nnet.mode = 'host'\n"
    found = resolve(None, repository=repository, foreign=("feature:cloche.toml", other))
    assert found.policy.resources.mem == 2 << 30
    assert found.policy.resources.procs == 100
    assert found.policy.net.mode == "deny"
    assert found.sources["resources.mem"] == "feature:cloche.toml:2"
    assert {warning.where for warning in found.warnings} == {"feature:cloche.toml:3", "feature:cloche.toml:4"}


scalars: dict[str, st.SearchStrategy[object]] = {
    "flag": st.booleans(),
    "size": st.integers(1, 1 << 40),
    "count": st.integers(1, 1 << 20),
    "duration": st.integers(1, 1 << 20),
    "filename": st.sampled_from(["REVIEW.md", "other"]),
    "text": st.sampled_from(["", "x"]),
    "paths": st.lists(
        st.sampled_from(["/usr", "/opt", "!/usr", "!*", "/", "~", "/etc/mime.types"]), max_size=3
    ),
    "names": st.lists(st.sampled_from(["LANG", "!LANG", "!*", "TZ", "TOKEN"]), max_size=3),
    "hosts": st.lists(
        st.sampled_from(["a.org", "*.evil.example", "!*", "api.openai.com", "!API.openai.com.:443"]),
        max_size=3,
    ),
    "table": st.dictionaries(st.sampled_from(["A", "LD_PRELOAD"]), st.sampled_from(["1", "2"]), max_size=2),
}


# A person's profile with something of everything to take away.
WIDE = b"""[profiles.wide]
extends = "agent"
debug = true
fs = { read = ["~"], write = ["k"] }
env = { set = { A = "1" } }
services = { A = "1" }
secrets = ["LANG", "TOKEN"]
resources = { mem = "none", procs = "none", disk = "none" }
"""


def literal(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key} = {literal(one)}" for key, one in value.items()) + "}"
    return repr(value)


@st.composite
def profile_texts(draw: st.DrawFn, name: str) -> bytes:
    lines = [f"[profiles.{name}]"]
    for key in draw(st.lists(st.sampled_from(schema.KEYS), unique=True)):
        values = st.sampled_from(key.choices) if key.kind == "choice" else scalars[key.kind]
        if key.unlimited:
            values = st.just("none") | values
        lines.append(f"{key.path} = {literal(draw(values))}")
    return "\n".join(lines).encode()


def permits_no_more(new: Policy, old: Policy) -> bool:
    """An own judgement, key by key, beside the one that the resolver makes."""
    limits = all(
        before is None or (now is not None and now <= before)
        for now, before in zip(new.resources, old.resources, strict=True)
    )
    sets = all(
        set(value_of(new, path)) <= set(value_of(old, path))  # type: ignore[call-overload]
        for path in ("net.egress", "env.pass", "env.set", "services", "secrets")
    )
    granted = (*old.fs.read, *old.fs.write)
    inside = all(any(covers(grant, path) for grant in granted) for path in (*new.fs.read, *new.fs.write))
    masks = {mask for mask in old.fs.deny if any(mask.startswith(grant) for grant in new.fs.read)}
    mode = ("deny", "allow", "host")
    seen = ("none", "writes", "all")
    return (
        limits
        and sets
        and inside
        and masks <= set(new.fs.deny)
        and mode.index(new.net.mode) <= mode.index(old.net.mode)
        and seen.index(new.observe) >= seen.index(old.observe)
        and new.net.loopback <= old.net.loopback
        and new.net.unix <= old.net.unix
        and new.debug <= old.debug
        and (new.history == "none" or old.history == "full")
        and (new.tier, new.image, new.profile, new.review) == (old.tier, old.image, old.profile, old.review)
        and (new.runtime, new.vmm) == (old.runtime, old.vmm)
        and new.rootful <= old.rootful
        and (new.accelerator == "hardware" or old.accelerator == "tcg")
    )


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow], deadline=None)
@given(name=st.sampled_from(["default", "agent", "review", "wide"]), data=st.data())
def test_no_foreign_file_ever_widens_a_policy(home: Home, name: str, data: st.DataObject) -> None:
    (home.home / ".ssh").mkdir(exist_ok=True)
    own = [*files.built_in().values(), files.parse(WIDE, "config.toml", "user", home.root)]
    strange = files.parse(data.draw(profile_texts(name)), "foreign", "foreign", home.root)
    before = merge_files(name, own, [])
    try:
        after = merge_files(name, own, [strange])
    except ClocheError:
        return  # fails closed
    assert permits_no_more(after.policy, before.policy)
