"""File grants on a real file system: what is missing, what contradicts, what hides, what is never granted."""

from __future__ import annotations

from pathlib import Path

import pytest

from backends.errors import Refused, UsageError
from backends.policy import paths
from backends.policy.resolve import Resolved, resolve
from tests.conftest import Home
from tests.policy.conftest import Write


def given(project: Write, repository: Path, **lists: list[str]) -> Resolved:
    """The default profile of the repository with these ``fs`` lists, one list a line from line 2."""
    body = "".join(f"{key} = {value!r}\n" for key, value in lists.items())
    project(f"[profiles.default.fs]\n{body}")
    return resolve(None, repository=repository)


def test_a_default_that_the_host_lacks_is_left_out() -> None:
    found = resolve("default", repository=None).policy.fs.read
    assert all(Path(path).exists() for path in found)
    assert "/etc/java-*-openjdk" not in found


@pytest.mark.parametrize("key", ["read", "write"])
def test_a_missing_path_that_a_person_named_is_an_error_with_its_line(
    key: str, project: Write, repository: Path, home: Home
) -> None:
    with pytest.raises(UsageError) as caught:
        given(project, repository, **{key: [f"{home.root}/nowhere"]})
    assert caught.value.code == "no-such-path"
    assert caught.value.why.startswith(f"{repository}/cloche.toml:2: {home.root}/nowhere")


def test_a_pattern_is_expanded_when_the_box_is_made(project: Write, repository: Path, home: Home) -> None:
    for name in ("sdk-1", "sdk-2", "other"):
        (home.root / name).mkdir()
    found = given(project, repository, read=[f"{home.root}/sdk-*"])
    assert {path for path in found.policy.fs.read if path.startswith(str(home.root))} == {
        f"{home.root}/sdk-1",
        f"{home.root}/sdk-2",
    }
    with pytest.raises(UsageError, match="does not exist"):
        given(project, repository, read=[f"{home.root}/tool-*"])


def test_the_home_directory_is_spelled_with_a_tilde(project: Write, repository: Path, home: Home) -> None:
    (home.home / ".nvm").mkdir()
    found = given(project, repository, read=["~/.nvm/"])
    assert f"{home.home}/.nvm" in found.policy.fs.read
    with pytest.raises(UsageError, match="only your own home"):
        given(project, repository, read=["~root/.nvm"])


def test_a_grant_through_a_link_is_the_real_path_with_the_link_beside_it(
    project: Write, repository: Path, home: Home
) -> None:
    real = home.root / "disk/sdk/bin"
    real.mkdir(parents=True)
    (home.root / "link").symlink_to("disk/sdk")
    found = given(project, repository, read=[f"{home.root}/link/bin"])
    granted = {path for path in found.policy.fs.read if path.startswith(str(home.root))}
    assert granted == {f"{home.root}/disk/sdk/bin", f"{home.root}/link"}
    assert found.sources[f"fs.read[{home.root}/link]"] == f"{repository}/cloche.toml:2"


def test_a_write_grant_through_a_link_makes_only_its_target_writable(
    project: Write, repository: Path, home: Home
) -> None:
    (home.root / "disk").mkdir()
    (home.root / "cache").symlink_to(home.root / "disk")
    found = given(project, repository, write=[f"{home.root}/cache"])
    assert found.policy.fs.write == (f"{home.root}/disk",)
    assert f"{home.root}/cache" in found.policy.fs.read


def test_what_is_writable_is_not_listed_as_readable_too(project: Write, repository: Path, home: Home) -> None:
    (home.root / "x").mkdir()
    found = given(project, repository, read=[f"{home.root}/x"], write=[f"{home.root}/x"])
    assert found.policy.fs.write == (f"{home.root}/x",)
    assert f"{home.root}/x" not in found.policy.fs.read


def test_credentials_stay_hidden_when_the_home_is_granted(
    project: Write, repository: Path, home: Home
) -> None:
    for name in (".ssh", ".aws", "projects"):
        (home.home / name).mkdir()
    found = given(project, repository, read=["~"])
    assert {f"{home.home}/.ssh", f"{home.home}/.aws"} <= set(found.policy.fs.deny)
    # Below a read grant a name is hidden before the host makes it.
    assert f"{home.home}/.kube" in found.policy.fs.deny
    assert not {"/etc/shadow", "/var/lib/kubelet"} & set(found.policy.fs.deny)
    assert found.sources[f"fs.deny[{home.home}/.ssh]"].startswith("built-in profile default:")


def test_credentials_stay_hidden_when_the_home_is_granted_under_another_name(
    project: Write, repository: Path, home: Home
) -> None:
    (home.home / ".ssh").mkdir()
    (home.root / "me").symlink_to(home.home)
    found = given(project, repository, read=[f"{home.root}/me"])
    assert f"{home.home}/.ssh" in found.policy.fs.deny
    assert f"{home.root}/me/.ssh" not in found.policy.fs.deny
    assert any("home directory" in warning.text for warning in found.warnings)


def test_a_mask_that_is_a_link_hides_where_it_leads(project: Write, repository: Path, home: Home) -> None:
    (home.root / "disk/keys").mkdir(parents=True)
    (home.home / ".ssh").symlink_to(home.root / "disk/keys")
    found = given(project, repository, read=[f"{home.root}/disk"])
    assert found.policy.fs.deny == (f"{home.root}/disk/keys",)


def test_a_mask_without_a_grant_above_it_is_left_out(project: Write, repository: Path, home: Home) -> None:
    (home.home / ".ssh").mkdir()
    found = given(project, repository, deny=["~/.ssh", f"{home.root}/nowhere"])
    assert found.policy.fs.deny == ()


def test_a_mask_of_what_cannot_be_hidden_is_an_error_with_its_line(
    project: Write, repository: Path, home: Home
) -> None:
    for key, mask in (("read", "~/no*"), ("write", "~/nowhere"), ("write", "~/no*")):
        with pytest.raises(UsageError, match="must exist to be hidden") as caught:
            given(project, repository, **{key: ["~"]}, deny=[mask])
        assert caught.value.why.startswith(f"{repository}/cloche.toml:3:")
    found = given(project, repository, read=["~"], deny=["~/nowhere"])
    assert f"{home.home}/nowhere" in found.policy.fs.deny


def test_a_mask_below_another_is_not_listed_twice(project: Write, repository: Path, home: Home) -> None:
    found = given(project, repository, read=["~"], deny=["~/.config"])
    assert f"{home.home}/.config" in found.policy.fs.deny
    assert f"{home.home}/.config/gcloud" not in found.policy.fs.deny


def test_granting_and_denying_the_same_path_is_an_error_that_names_both_lines(
    project: Write, repository: Path, home: Home
) -> None:
    (home.home / "data/inner").mkdir(parents=True)
    with pytest.raises(UsageError) as caught:
        given(project, repository, read=["~/data/inner"], deny=["~/data"])
    assert f"{repository}/cloche.toml:2" in caught.value.why
    assert f"{repository}/cloche.toml:3" in caught.value.why


def test_a_person_may_grant_what_only_a_default_hides_and_is_warned(
    project: Write, repository: Path, home: Home
) -> None:
    (home.home / ".aws").mkdir()
    found = given(project, repository, read=["~/.aws"])
    assert f"{home.home}/.aws" in found.policy.fs.read
    assert found.policy.fs.deny == ()
    assert [(warning.key, warning.where) for warning in found.warnings] == [
        ("fs.read", f"{repository}/cloche.toml:2")
    ]


def test_a_default_mask_between_two_grants_is_not_guessed_at(
    project: Write, repository: Path, home: Home
) -> None:
    (home.home / ".ssh").mkdir()
    (home.home / ".ssh/known_hosts").touch()
    with pytest.raises(UsageError, match="granted and denied"):
        given(project, repository, read=["~", "~/.ssh/known_hosts"])
    found = given(project, repository, read=["~", "~/.ssh/known_hosts"], deny=["!~/.ssh"])
    assert f"{home.home}/.ssh/known_hosts" in found.policy.fs.read


@pytest.mark.parametrize(
    "grant",
    [
        "{state}",
        "{state}/cloche",
        "{state}/cloche/x/box",
        "{root}",
        "/",
        "{repository}",
        "{repository}/.git/hooks",
    ],
)
def test_nothing_that_decides_about_a_box_is_ever_writable(
    grant: str, project: Write, repository: Path, home: Home
) -> None:
    (home.state / "cloche/x/box").mkdir(parents=True)
    (repository / ".git/hooks").mkdir()
    path = grant.format(state=home.state, root=home.root, repository=repository)
    with pytest.raises(Refused) as caught:
        given(project, repository, write=[path])
    assert caught.value.code == "own-folder"
    assert f"{repository}/cloche.toml:2" in caught.value.why


def test_clochess_configuration_is_never_writable(project: Write, repository: Path, home: Home) -> None:
    with pytest.raises(Refused):
        given(project, repository, write=[str(home.config)])


def test_nor_through_a_link(project: Write, repository: Path, home: Home) -> None:
    (home.state / "cloche").mkdir()
    (home.home / "shortcut").symlink_to(home.state)
    with pytest.raises(Refused):
        given(project, repository, write=["~/shortcut/cloche"])


def test_the_boxes_and_the_git_directory_are_hidden_from_a_grant_above_them(
    project: Write, repository: Path, home: Home
) -> None:
    (home.state / "cloche").mkdir()
    found = given(project, repository, read=[str(home.root)])
    assert {f"{home.state}/cloche", f"{repository}/.git"} <= set(found.policy.fs.deny)
    with pytest.raises(Refused):
        given(project, repository, read=[f"{repository}/.git"])


def test_a_git_directory_elsewhere_is_protected_as_well(home: Home) -> None:
    (home.root / "store/main.git").mkdir(parents=True)
    protected = [home.root / "store/main.git"]
    overrides = {"fs.read": f"{home.root}/store"}
    found = resolve(None, repository=None, overrides=overrides, protected=protected)
    assert found.policy.fs.deny == (f"{home.root}/store/main.git",)
    with pytest.raises(Refused):
        resolve(None, repository=None, overrides={"fs.write": f"{home.root}/store"}, protected=protected)


def test_a_trail_ends_where_the_kernel_ends(home: Home) -> None:
    deep = home.root / "a/b"
    deep.mkdir(parents=True)
    (home.root / "a/up").symlink_to("../a/b")
    (home.root / "l1").symlink_to("a/up")
    (home.root / "abs").symlink_to(home.root / "l1/../b")
    for name in ("l1", "abs", "a/up", "a/b"):
        path = str(home.root / name)
        assert paths.trail(path).real == str(Path(path).resolve())
    assert paths.trail("/").real == "/"
    (home.root / "loop").symlink_to("loop")
    with pytest.raises(ValueError, match="40"):
        paths.trail(str(home.root / "loop"))


def test_a_mask_whose_links_never_end_is_an_error(project: Write, repository: Path, home: Home) -> None:
    (home.home / ".ssh").symlink_to(".ssh")
    with pytest.raises(UsageError, match="symbolic links"):
        given(project, repository, read=["~"])
