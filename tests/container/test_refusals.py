"""What this tier cannot hold, or this host cannot do for it, is refused by name and with a remedy."""

from __future__ import annotations

import os
import tarfile
from pathlib import Path

import pytest

from backends.container import podman, userns
from backends.policy.model import NetPolicy, Policy
from backends.tiers.container import TIER
from tests.boundary import harness
from tests.container import world as worlds
from tests.container.world import PROFILE, World

OWN = os.geteuid() == 0


def policy(**changes: object) -> Policy:
    made = harness.policy(tier="container")._replace(image="box@sha256:" + "0" * 64, rootful=OWN)
    return made._replace(**changes)  # type: ignore[arg-type]


def keys(made: Policy) -> list[str]:
    found = TIER.refusals(made)
    assert all(one.why and one.remedy for one in found)
    return [one.key for one in found]


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"image": ""}, "image"),
        ({"net": NetPolicy("host", (), True, True)}, "net.mode"),
        ({"net": NetPolicy("deny", (), False, True)}, "net.loopback"),
        ({"net": NetPolicy("allow", ("no host at all",), True, True)}, "net.egress"),
        ({"vmm": "qemu"}, "vmm"),
        ({"accelerator": "tcg"}, "accelerator"),
        ({"services": (("web", "sh"),)}, "services"),
        ({"secrets": ("KEY",)}, "secrets"),
    ],
)
def test_a_key_that_cannot_be_enforced_is_named(changes: dict[str, object], named: str) -> None:
    assert named in keys(policy(**changes))


def test_root_must_say_that_its_containers_are_rootful() -> None:
    found = [one for one in TIER.refusals(policy(rootful=not OWN)) if one.key == "rootful"]
    assert len(found) == 1
    assert ("rootful = true" in found[0].remedy) is OWN


def test_docker_is_refused_with_the_reason(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    docker = tmp_path / "docker"
    docker.write_text("#!/bin/sh\n")
    docker.chmod(0o755)
    monkeypatch.setattr(podman, "SEARCH", str(tmp_path))
    found = next(one for one in TIER.refusals(policy()) if one.key == "tier")
    assert "there is no Podman" in found.why
    assert f"{docker} is not used instead: its daemon is root" in found.why
    assert "apt-get install podman" in found.remedy


@pytest.mark.skipif(OWN, reason="needs an unprivileged user")
def test_a_user_without_subordinate_ids_is_told_how_to_get_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(userns, "subordinate", lambda: False)
    found = [one for one in TIER.refusals(policy()) if one.key == "tier"]
    assert "usermod --add-subuids" in found[0].remedy


def test_a_runtime_that_is_not_here_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    from backends.container import runtimes

    monkeypatch.setattr(runtimes, "program", lambda _name: None)
    assert "runtime" in keys(policy(runtime="crun"))


def test_a_box_of_an_image_that_nobody_has_is_not_made(world: World) -> None:
    done = world.cloche("new", "x", "--tier", "container", "--image", "nobody", "--profile", PROFILE)
    assert done.code == 3
    assert "there is no image 'nobody'" in done.err
    assert "cloche image build" in done.err
    assert not list((world.root / "s" / "cloche").glob("*/x"))


def test_the_image_is_pinned_when_the_box_is_made(world: World) -> None:
    archive = str(worlds.archive(python=False))
    assert world.cloche("image", "import", archive, "--name", "own").code == 0
    box = world.new("pinned", image="own")
    before = world.cloche("policy", "show", "pinned").out
    assert "own@sha256:" in before
    digest = (box / "policy.json").read_text().partition("@sha256:")[2][:64]
    # Another image takes the name: the box keeps its own.
    tar = world.root / "other.tar"
    (world.root / "other" / "bin").mkdir(parents=True)
    (world.root / "other" / "bin" / "only").write_text("x")
    os.system(f"tar -C {world.root}/other -cf {tar} .")
    assert world.cloche("image", "import", str(tar), "--name", "own").code == 0
    assert world.cloche("run", "pinned", "--", "echo", "mine").out == "mine\n"
    assert world.live(box)["facts"]["image_digest"] == f"sha256:{digest}"


def test_a_box_whose_image_is_gone_says_so(world: World) -> None:
    (world.root / "lone").mkdir()
    (world.root / "lone" / "only").write_text("of this image alone")
    tar = world.root / "lone.tar"
    with tarfile.open(tar, "w") as out:
        out.add(world.root / "lone" / "only", "bin/only")
    assert world.cloche("image", "import", str(tar), "--name", "lone").code == 0
    world.new("orphan", image="lone")
    digest = world.cloche("policy", "show", "orphan").out.partition("@")[2].partition('"')[0].split()[0]
    assert world.cloche("image", "rm", digest).code != 0  # a box needs it
    _drop(world, digest)
    done = world.cloche("run", "orphan", "--", "true")
    assert done.code == 3
    assert "gone" in done.err
    assert "cloche image ls" in done.err


def _drop(world: World, digest: str) -> None:
    import subprocess
    import sys

    code = (
        "import subprocess, sys; from backends.container import podman; p = podman.prepare();"
        "sys.exit(subprocess.call(p.outside('rmi', '--force', sys.argv[1].removeprefix('sha256:')),"
        " env=p.environment(), cwd='/'))"
    )
    subprocess.run([sys.executable, "-c", code, digest], env={**os.environ, **world.env}, check=True)
