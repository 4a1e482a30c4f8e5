"""From files to one policy: which statement counts, and where each value says it came from."""

from __future__ import annotations

from pathlib import Path

import pytest

from backends.errors import Refused, UsageError
from backends.policy import canonical
from backends.policy.resolve import Resolved, profiles, resolve, with_tier
from tests.conftest import Home
from tests.policy.conftest import Write

GIB = 1 << 30


def test_default_is_build_and_test_without_a_network() -> None:
    policy = resolve(None, repository=None).policy
    assert policy.profile == "default"
    assert policy.tier == "auto"
    assert policy.net == ("deny", (), True, True, None)
    assert policy.fs.write == ()
    assert {"/usr", "/etc/ssl/certs", "/etc/alternatives"} <= set(policy.fs.read)
    assert policy.env.passed == (
        "COLORTERM",
        "FORCE_COLOR",
        "LANG",
        "LANGUAGE",
        "LC_*",
        "NO_COLOR",
        "TERM",
        "TZ",
    )
    assert policy.env.set == ()
    assert policy.resources == (4 * GIB, 512, None, None, 4 * GIB, 65536, GIB, 256 << 20, 20 * GIB)
    assert (policy.observe, policy.history, policy.debug, policy.tree) == ("writes", "full", False, "auto")


def test_default_grants_nothing_secret_and_nothing_of_a_home() -> None:
    policy = resolve("default", repository=None).policy
    allowed = ("/usr", "/bin", "/sbin", "/lib", "/etc/")
    assert all(path.startswith(allowed) for path in policy.fs.read)
    secret = {"/etc", "/etc/shadow", "/etc/gshadow", "/etc/ssl", "/etc/ssl/private", "/etc/ssh", "/etc/npmrc"}
    assert not secret & set(policy.fs.read)
    assert resolve("default", repository=None).warnings == ()


def test_review_is_default_with_less() -> None:
    default, review = (resolve(name, repository=None).policy for name in ("default", "review"))
    assert review.fs == default.fs
    assert review.net == default.net
    assert set(review.env.passed) < set(default.env.passed)
    assert (review.history, review.observe) == ("none", "all")
    assert review.resources.wall == 1800
    assert review.resources.mem == 2 * GIB


def test_agent_reaches_its_model_and_writes_nothing_of_the_user(home: Home) -> None:
    (home.home / ".local/bin").mkdir(parents=True)
    policy = resolve("agent", repository=None).policy
    assert policy.net.mode == "allow"
    assert "api.anthropic.com" in policy.net.egress
    assert policy.fs.write == ()
    assert f"{home.home}/.local/bin" in policy.fs.read


def test_each_layer_counts_over_the_one_before(user: Write, project: Write, repository: Path) -> None:
    def mem() -> tuple[int | None, str]:
        found = resolve("web", repository=repository, overrides=overrides)
        return found.policy.resources.mem, found.sources["resources.mem"]

    overrides: dict[str, object] = {}
    cloche = project("[profiles.web]\nextends = 'review'\n")
    assert mem() == (2 * GIB, "built-in profile review:12")
    config = user("[profiles.review.resources]\nmem = '3G'\n")
    assert mem() == (3 * GIB, f"{config}:2")
    project("[profiles.review.resources]\nmem = '5G'\n[profiles.web]\nextends = 'review'\n")
    assert mem() == (5 * GIB, f"{cloche}:2")
    user("[profiles.review.resources]\nmem = '3G'\n[profiles.web.resources]\nmem = '6G'\n")
    assert mem() == (6 * GIB, f"{config}:4")
    project("[profiles.web]\nextends = 'review'\nresources.mem = '7G'\n")
    assert mem() == (7 * GIB, f"{cloche}:3")
    overrides["resources.mem"] = "8G"
    assert mem() == (8 * GIB, "command line")


def test_lists_add_and_take_away(project: Write, repository: Path, home: Home) -> None:
    (home.root / "sdk").mkdir()
    cloche = project(
        f"[profiles.web.fs]\nread = ['{home.root}/sdk', '!/etc/python3*']\n"
        "[profiles.web.env]\npass = ['!TZ', 'CI']\n"
        "[profiles.bare.env]\npass = ['!*', 'CI']\n"
    )
    found = resolve("web", repository=repository)
    default = resolve("default", repository=None).policy
    gone = {path for path in default.fs.read if path.startswith("/etc/python3")}
    assert set(found.policy.fs.read) == (set(default.fs.read) - gone) | {f"{home.root}/sdk"}
    assert found.sources[f"fs.read[{home.root}/sdk]"] == f"{cloche}:2"
    assert found.sources["fs.read[/usr]"].startswith("built-in profile default:")
    assert "TZ" not in found.policy.env.passed
    assert "CI" in found.policy.env.passed
    assert resolve("bare", repository=repository).policy.env.passed == ("CI",)


def test_taking_away_what_is_not_there_is_an_error_with_its_line(project: Write, repository: Path) -> None:
    cloche = project("[profiles.web.env]\npass = [\n 'CI',\n '!LANGG']\n")
    with pytest.raises(UsageError, match="LANGG") as caught:
        resolve("web", repository=repository)
    assert caught.value.why.startswith(f"{cloche}:4:")


def test_tables_replace_name_by_name(user: Write, project: Write, repository: Path) -> None:
    user("[profiles.default.env.set]\nA = 'user'\nB = 'user'\n")
    cloche = project("[profiles.default.env.set]\nB = 'project'\n")
    found = resolve(None, repository=repository, overrides={"env.set": ["C=line=2"]})
    assert found.policy.env.set == (("A", "user"), ("B", "project"), ("C", "line=2"))
    assert found.sources["env.set.B"] == f"{cloche}:2"
    assert found.sources["env.set.C"] == "command line"


def test_the_profile_of_a_box_without_one_is_the_strongest_stated(
    user: Write, project: Write, repository: Path
) -> None:
    assert resolve(None, repository=repository).policy.profile == "default"
    user("profile = 'agent'\n")
    assert resolve(None, repository=repository).policy.profile == "agent"
    project("profile = 'review'\n")
    found = resolve(None, repository=repository)
    assert found.policy.profile == "review"
    assert found.sources["profile"] == f"{repository}/cloche.toml:1"
    assert resolve("default", repository=repository).policy.profile == "default"


def test_an_unknown_profile_is_named_with_the_nearest(project: Write, repository: Path) -> None:
    with pytest.raises(UsageError) as caught:
        resolve("reveiw", repository=None)
    assert caught.value.code == "no-such-profile"
    assert caught.value.next_step == "take --profile review"
    cloche = project("[profiles.web]\nextends = 'agnet'\n")
    with pytest.raises(UsageError, match=f"{cloche}:2"):
        resolve("web", repository=repository)


@pytest.mark.parametrize(
    "text",
    [
        "[profiles.web]\nextends = 'web'\n",
        "[profiles.web]\nextends = 'api'\n[profiles.api]\nextends = 'web'\n",
        "[profiles.web]\n[profiles.default]\nextends = 'web'\n",
    ],
)
def test_a_profile_that_extends_itself_is_an_error(text: str, project: Write, repository: Path) -> None:
    project(text)
    with pytest.raises(UsageError, match="extends") as caught:
        resolve("web", repository=repository)
    assert caught.value.code == "profile-cycle"


@pytest.mark.parametrize(
    ("overrides", "code"),
    [
        ({"resources.memory": "2G"}, "unknown-key"),
        ({"fs.raed": "/usr"}, "unknown-key"),
        ({"resources.mem": "lots"}, "bad-value"),
        ({"net.mode": "on"}, "bad-value"),
        ({"env.set": "CI"}, "bad-value"),
        ({"env.set": {"HOME": "/"}}, "bad-value"),
        ({"env.pass": ["A B"]}, "bad-value"),
        ({"tier": "vm"}, "bad-value"),
    ],
)
def test_the_command_line_is_as_strict_as_a_file(overrides: dict[str, object], code: str) -> None:
    with pytest.raises(UsageError) as caught:
        resolve(None, repository=None, overrides=overrides)
    assert caught.value.code == code
    assert "command line" in caught.value.why


def test_the_command_line_gives_texts_for_every_kind(home: Home) -> None:
    overrides = {"resources.procs": "7", "debug": "true", "resources.cpu": "2m", "fs.write": str(home.cache)}
    policy = resolve(None, repository=None, overrides=overrides, tier="process").policy
    assert (policy.resources.procs, policy.debug, policy.resources.cpu) == (7, True, 120)
    assert policy.fs.write == (str(home.cache),)
    assert policy.tier == "process"


def test_a_relative_path_starts_at_the_file_that_states_it(
    user: Write, project: Write, repository: Path, home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    for folder in (
        repository / "sdk",
        home.root / "beside",
        home.config / "cloche/tools",
        home.root / "here/now",
    ):
        folder.mkdir(parents=True)
    monkeypatch.chdir(home.root / "here")
    project("[profiles.default.fs]\nread = ['sdk', '../beside']\n")
    user("[profiles.default.fs]\nread = ['tools']\n")
    policy = resolve(None, repository=repository, overrides={"fs.read": "now"}).policy
    wanted = {repository / "sdk", home.root / "beside", home.config / "cloche/tools", home.root / "here/now"}
    assert {str(path) for path in wanted} <= set(policy.fs.read)


def test_a_list_of_destinations_needs_the_mode_that_keeps_it(project: Write, repository: Path) -> None:
    cloche = project("[profiles.web.net]\negress = ['Example.com']\n")
    with pytest.raises(UsageError, match=f"{cloche}:2") as caught:
        resolve("web", repository=repository)
    assert caught.value.code == "egress-without-allow"
    project("[profiles.web.net]\nmode = 'allow'\negress = ['Example.com:443', 'b.org:22']\n")
    policy = resolve("web", repository=repository).policy
    assert policy.net.egress == ("b.org:22", "example.com")


def test_names_are_looked_up_again_only_where_a_list_is_kept(project: Write, repository: Path) -> None:
    cloche = project(
        "[profiles.web.net]\nmode = 'allow'\negress = ['a.example']\nrepin = '1h30m'\n"
        "[profiles.closed]\nextends = 'web'\nnet.mode = 'deny'\n"
        "[profiles.vain.net]\nrepin = '1h'\n"
        "[profiles.hasty.net]\nmode = 'allow'\nrepin = '59s'\n"
    )
    assert resolve("web", repository=repository).policy.net.repin == 5400
    assert resolve("closed", repository=repository).policy.net.repin is None
    for profile, why in (("vain", f"{cloche}:9"), ("hasty", f"{cloche}:12: every 59 s")):
        with pytest.raises(UsageError, match=why):
            resolve(profile, repository=repository)


def test_destinations_from_the_command_line_are_held_to_the_same_rules() -> None:
    given: dict[str, object] = {"net.mode": "allow", "net.egress": ["*.org"]}
    with pytest.raises(UsageError, match="whoever registers") as caught:
        resolve("default", repository=None, overrides=given)
    assert caught.value.code == "bad-rule"
    given["net.egress"] = ["[::ffff:10.0.0.1]:5432"]
    assert resolve("default", repository=None, overrides=given).policy.net.egress == ("10.0.0.1:5432",)


def test_a_later_mode_sets_an_inherited_list_aside() -> None:
    policy = resolve("agent", repository=None, overrides={"net.mode": "host"}, tier="process").policy
    assert policy.net == ("host", (), True, True, None)


@pytest.mark.parametrize("tier", ["workspace", "process"])
def test_a_tier_that_cannot_hold_a_box_to_a_list_refuses_it(tier: str) -> None:
    with pytest.raises(Refused) as caught:
        resolve("agent", repository=None, tier=tier)
    assert caught.value.exit_code == 3
    assert "built-in profile agent:" in caught.value.why
    assert "net.mode" in caught.value.what


def test_the_tier_that_auto_picked_is_checked_and_recorded() -> None:
    found = with_tier(resolve("default", repository=None), "process")
    assert found.policy.tier == "process"
    assert found.sources["tier"].startswith("auto")
    with pytest.raises(Refused):
        with_tier(resolve("agent", repository=None), "process")


@pytest.mark.parametrize(
    ("line", "key"),
    [
        ("image = 'debian'", "image"),
        ("secrets = ['NPM']", "secrets"),
        ("services = { web = 'vite' }", "services"),
    ],
)
def test_a_key_that_the_tier_would_ignore_is_refused_with_its_line(
    line: str, key: str, project: Write, repository: Path
) -> None:
    cloche = project(f"[profiles.web]\n{line}\n")
    with pytest.raises(Refused, match=f"{cloche}:2") as caught:
        resolve("web", repository=repository, tier="process")
    assert key in caught.value.what


def test_every_value_has_a_source(project: Write, repository: Path) -> None:
    from backends.policy.explain import NOT_RECORDED, explain

    project("[profiles.web]\nextends = 'agent'\nenv.set.CI = '1'\nservices.dev = 'vite'\nsecrets = ['A']\n")
    for name in ("default", "review", "agent", "web"):
        found = resolve(name, repository=repository)
        assert NOT_RECORDED not in {row.source for row in explain(found.policy, found.sources)}


def test_a_resolved_policy_survives_its_file() -> None:
    for name in ("default", "review", "agent"):
        policy = resolve(name, repository=None).policy
        assert canonical.decode(canonical.encode(policy)) == policy


def test_the_order_in_which_things_are_written_does_not_change_the_digest(
    project: Write, repository: Path
) -> None:
    def digest(found: Resolved) -> str:
        return canonical.digest(canonical.encode(found.policy))

    project("[profiles.web]\ndebug = true\nfs.read = ['/srv', '/opt']\nenv.set = { A = '1', B = '2' }\n")
    one = digest(resolve("web", repository=repository))
    project(
        "[profiles.web]\nenv.set = { B = '2', A = '1' }\nfs.read = ['/opt', '/srv', '/opt']\ndebug = true\n"
    )
    assert digest(resolve("web", repository=repository)) == one


def test_the_profiles_that_can_be_asked_for(project: Write, repository: Path) -> None:
    cloche = project("\n[profiles.web]\n")
    assert profiles(repository)["web"] == f"{cloche}:2"
    assert {"agent", "default", "review", "web"} == set(profiles(repository))
    assert "web" not in profiles(repository, trusted=False)
