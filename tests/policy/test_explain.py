"""What a person is shown of a policy, and what is checked before a box is made from it."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backends.errors import Refused, UsageError
from backends.policy import canonical, fit, reference, schema
from backends.policy.check import check_file
from backends.policy.explain import decode_sources, encode_sources, explain
from backends.policy.model import TIERS, NetPolicy
from backends.policy.resolve import resolve
from tests import support
from tests.policy.conftest import Write
from tests.policy.test_canonical import EXAMPLE


def test_each_value_is_shown_with_the_line_that_stated_it(project: Write, repository: Path) -> None:
    cloche = project("[profiles.web]\nfs.read = [\n  '/srv',\n]\nresources.mem = '6G'\nenv.set.CI = '1'\n")
    found = resolve("web", repository=repository, tier="process")
    rows = {(row.key, row.value): row.source for row in explain(found.policy, found.sources)}
    assert rows[("profile", "web")] == "command line"
    assert rows[("tier", "process")] == "command line"
    assert rows[("fs.read", "/srv")] == f"{cloche}:3"
    assert rows[("resources.mem", "6G")] == f"{cloche}:5"
    assert rows[("env.set.CI", "1")] == f"{cloche}:6"
    assert rows[("resources.wall", "none")] == "built-in default"
    assert rows[("net.mode", "deny")] == "built-in default"
    assert rows[("fs.write", "(nothing)")] == "nobody stated one"
    assert rows[("env.pass", "LANG")].startswith("built-in profile default:")


def test_no_key_of_the_schema_is_left_out() -> None:
    found = resolve("default", repository=None)
    shown = {row.key for row in explain(found.policy, found.sources)}
    assert shown == {"profile", *schema.BY_PATH}


def test_a_value_without_a_recorded_source_says_so() -> None:
    assert {row.source for row in explain(EXAMPLE, {}) if row.value != "(nothing)"} == {"not recorded"}


@given(st.dictionaries(st.text(st.characters(exclude_categories=())), st.text()))
def test_sources_survive_their_file(sources: dict[str, str]) -> None:
    assert decode_sources(encode_sources(sources)) == sources


@pytest.mark.parametrize("data", [b"", b"[]", b'{"a":1}', b"\xff"])
def test_a_damaged_file_of_sources_is_refused(data: bytes) -> None:
    with pytest.raises(Refused, match=r"sources\.json"):
        decode_sources(data)


def test_a_check_gives_each_profile_its_digest_or_its_problem(project: Write, repository: Path) -> None:
    path = project(
        "[profiles.good]\nfs.read = ['/srv']\n[profiles.loose]\nnet.mode = 'host'\n"
        "[profiles.bad]\nfs.read = ['/nowhere']\n[profiles.odd]\ntier = 'process'\nnet.mode = 'allow'\n"
    )
    good, loose, bad, odd = check_file(path)
    policy = resolve("good", repository=repository).policy
    assert (good.name, good.digest, good.problem) == (
        "good",
        canonical.digest(canonical.encode(policy)),
        None,
    )
    assert [warning.key for warning in loose.warnings] == ["net.mode"]
    assert isinstance(bad.problem, UsageError)
    assert isinstance(odd.problem, Refused)
    assert (bad.digest, odd.digest) == ("", "")


def test_the_users_own_file_is_checked_by_its_own_keys(user: Write, project: Write, repository: Path) -> None:
    text = "theme = 'dusk'\n[profiles.mine]\n"
    assert [one.name for one in check_file(user(text))] == ["mine"]
    with pytest.raises(UsageError, match="theme"):
        check_file(project(text))
    with pytest.raises(UsageError, match="no such file"):
        check_file(repository / "other.toml")


@pytest.mark.parametrize(
    ("tier", "mode", "keys"),
    [
        ("workspace", "deny", []),
        ("process", "deny", []),
        ("process", "host", []),
        ("process", "allow", ["net.mode"]),
        ("workspace", "allow", ["net.mode"]),
        ("supervised", "allow", []),
        ("supervised", "deny", []),
        ("supervised", "host", ["net.mode"]),
        ("container", "allow", ["image"]),
        ("microvm", "deny", ["image"]),
    ],
)
def test_what_a_tier_cannot_enforce(tier: str, mode: str, keys: list[str]) -> None:
    policy = EXAMPLE._replace(net=NetPolicy(mode, (), True, True))
    assert [misfit.key for misfit in fit.misfits(policy, tier)] == keys


def test_auto_takes_the_cheapest_tier_that_fits_and_never_workspace() -> None:
    assert fit.candidates(EXAMPLE) == ("process", "supervised")
    assert fit.candidates(EXAMPLE._replace(net=NetPolicy("allow", ("a.org",), True, True))) == ("supervised",)
    assert fit.candidates(EXAMPLE._replace(net=NetPolicy("host", (), True, True))) == ("process",)
    assert fit.candidates(EXAMPLE._replace(net=NetPolicy("deny", (), False, True))) == ("process",)
    assert fit.candidates(EXAMPLE._replace(image="debian")) == ("container", "microvm")
    image = EXAMPLE._replace(image="debian")
    assert fit.candidates(image._replace(runtime="gvisor")) == ("container",)
    assert fit.candidates(image._replace(rootful=True)) == ("container",)
    assert fit.candidates(image._replace(vmm="qemu")) == ("microvm",)
    assert fit.candidates(image._replace(accelerator="tcg")) == ("microvm",)
    assert fit.candidates(EXAMPLE._replace(runtime="runc")) == ()
    assert set(fit.AUTO_ORDER) == set(TIERS) - {"workspace"}


def test_the_documentation_is_up_to_date() -> None:
    written = (support.ROOT / "docs" / "policy.md").read_text(encoding="utf-8")
    assert written == reference.render(), "run: python -m backends.policy.reference > docs/policy.md"


def test_the_documentation_names_every_key_and_every_built_in_profile() -> None:
    text = reference.render()
    assert all(f"| `{key.path}` |" in text for key in schema.KEYS)
    assert all(f"### {name}\n" in text for name in ("agent", "default", "review"))


def test_the_example_of_the_documentation_is_valid(tmp_path: Path, repository: Path, project: Write) -> None:
    example = reference.HEAD.partition("```toml\n")[2].partition("```")[0]
    path = project(example.replace("/opt/node", str(tmp_path)))
    assert [(one.name, one.problem) for one in check_file(path)] == [("web", None)]
