"""H1 and H2 at the tiers of an image: ``cloche new`` refuses a host that fails, and names the cause."""

from __future__ import annotations

import os

import pytest

from tests.container.world import PROFILE, World


@pytest.mark.parametrize(
    ("how", "profile", "why", "remedy"),
    [
        ("absent", PROFILE, "there is no Podman here", "apt-get install podman"),
        ("hung", PROFILE, "podman did not end within", "cloche doctor"),
        ("rootful", "default", "root's Podman runs as root", "as an ordinary user, or state rootful = true"),
    ],
)
def test_a_podman_that_is_not_as_it_must_be_makes_no_box(
    world: World, how: str, profile: str, why: str, remedy: str
) -> None:
    world.env["CLOCHE_INJECT"] = f"podman={how}"
    try:
        done = world.cloche("new", how, "--tier", "container", "--image", "box", "--profile", profile)
    finally:
        del world.env["CLOCHE_INJECT"]
    assert done.code != 0
    for text in (why, "(injected)", remedy):
        assert text in done.err, done.err
    assert not list((world.root / "s" / "cloche").glob(f"*/{how}"))
    assert world.left() == []


@pytest.mark.parametrize(
    ("asked", "accelerator", "why"),
    [
        ("kvm=absent", "hardware", "there is no /dev/kvm"),
        ("kvm=EACCES", "hardware", "/dev/kvm is closed to this user"),
        ("vmm=absent", "tcg", "it is not installed"),
        ("vmm=absent", "hardware", "it is not installed"),
    ],
)
def test_a_host_without_a_hypervisor_makes_no_guest(
    world: World, asked: str, accelerator: str, why: str
) -> None:
    name = f"{asked.replace('=', '-').lower()}-{accelerator}"
    with (world.root / "c" / "cloche" / "config.toml").open("a") as file:
        file.write(f'[profiles.{name}]\nextends = "default"\naccelerator = "{accelerator}"\nvmm = "qemu"\n')
    world.env["CLOCHE_INJECT"] = asked
    try:
        done = world.cloche("new", name, "--tier", "microvm", "--image", "box", "--profile", name)
    finally:
        del world.env["CLOCHE_INJECT"]
    assert done.code != 0
    assert f"{why} (injected)" in done.err, done.err
    assert not list((world.root / "s" / "cloche").glob(f"*/{name}"))


def test_nothing_is_taken_instead_of_what_fails(world: World) -> None:
    """The refusal names the tier that was asked for; no other tier and no root's Podman stands in."""
    world.env["CLOCHE_INJECT"] = "podman=absent,vmm=absent"
    try:
        for tier in ("container", "microvm"):
            done = world.cloche("new", tier, "--tier", tier, "--image", "box", "--profile", "default")
            assert done.code != 0 and done.out == "", done.out
            assert "failures are injected" in done.err
    finally:
        del world.env["CLOCHE_INJECT"]
    assert os.listdir(world.root / "r") in ([], ["cloche"])
    assert world.left() == []
