"""What Podman is told, and what is read of a look inside: pure, and hostile text is only text."""

from __future__ import annotations

import csv

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backends.container import inspection, plan, received
from backends.container.plan import Mount, Plan

PLAN = Plan(
    name="cloche-0",
    image="0" * 64,
    hostname="one",
    folder="/run/x",
    seccomp="/run/x/seccomp.json",
    mounts=(Mount("/a", "/work", True), Mount("/b", "/etc/passwd", False)),
    tmp=1 << 20,
    shm=1 << 16,
    memory=1 << 30,
    procs=100,
    files=1000,
)


def test_a_container_is_started_with_everything_off() -> None:
    words = plan.run(PLAN, "/usr/bin/runc")
    wanted = {
        "--pull=never", "--cap-drop=all", "--security-opt=no-new-privileges", "--read-only",
        "--read-only-tmpfs=false", "--network=none", "--ipc=private", "--pid=private", "--uts=private",
        "--http-proxy=false", "--image-volume=ignore", "--systemd=false", "--no-healthcheck", "--restart=no",
        "--security-opt=seccomp=/run/x/seccomp.json", "--userns=keep-id:uid=1000,gid=1000",
        "--memory=1073741824", "--pids-limit=100", "--user=65534:65534",
    }  # fmt: skip
    assert wanted <= set(words)
    assert words[-1] == PLAN.image
    assert not any(word.startswith(("--privileged", "--device", "--cap-add", "--env-host")) for word in words)
    assert [word for word in words if word.startswith("--mount=") and not word.endswith(",ro")] == [
        "--mount=type=bind,source=/a,destination=/work,bind-propagation=rprivate,nosuid,nodev"
    ]


def test_a_rootful_container_has_a_user_namespace_too() -> None:
    words = plan.run(PLAN._replace(uidmap=((0, 5000, 65536),), gidmap=((0, 5000, 65536),)), "/usr/bin/runc")
    assert "--uidmap=0:5000:65536" in words
    assert not any(word.startswith("--userns") for word in words)


@given(
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0\r\n"), min_size=1, max_size=20)
)
def test_a_path_is_one_option_whatever_is_in_it(path: str) -> None:
    words = plan.run(PLAN._replace(mounts=(Mount("/" + path, "/work", True),)), "/usr/bin/runc")
    mount = next(word for word in words if word.startswith("--mount="))
    fields = next(csv.reader([mount.removeprefix("--mount=")]))
    assert fields[1] == f"source=/{path}"
    assert len(fields) == 6


def test_claims_of_a_look_that_was_cut_are_not_proved() -> None:
    whole = "=mount ok refused\n=work-inside ok /work\n==status\nCapEff:\t0\n==end\n"
    proofs = {claim.id: claim.result for claim in inspection.claims(inspection.parse(whole, 0.1))}
    assert proofs["mount"] == "proved"
    assert proofs["user-namespace"] == "failed"  # its line is missing
    assert proofs["capabilities"] == "failed"
    cut = inspection.parse(whole.removesuffix("==end\n"), 0.1)
    assert {claim.result for claim in inspection.claims(cut)} == {"failed"}


def test_one_failure_of_a_proof_is_not_undone_by_a_success() -> None:
    seen = inspection.parse("=mount no went through\n=mount ok refused\n==end\n", 0.0)
    assert seen.proofs["mount"][0] is False


@given(st.text(max_size=400))
def test_whatever_a_box_prints_is_read_without_a_failure(text: str) -> None:
    seen = inspection.parse(text, 0.0)
    assert len(inspection.claims(seen)) == len(inspection.CLAIMS)
    received.limits_inside(text)
    received.inspection_sizes(text)
    inspection.fields(text)


def test_limits_are_read_by_their_titles() -> None:
    text = (
        "Limit                     Soft Limit           Hard Limit           Units     \n"
        "Max cpu time              unlimited            unlimited            seconds   \n"
        "Max processes             512                  512                  processes \n"
        "Max nice priority         0                    0                    \n"
    )
    assert received.limits_inside(text) == {
        "Max cpu time": "unlimited",
        "Max processes": "512",
        "Max nice priority": "0",
    }


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Filesystem 1K-blocks Used Available Use% Mounted on\ntmpfs 1024 0 1024 0% /tmp\n", {"/tmp": 1024}),
        ("Filesystem\nx y z\n", {}),
        ("", {}),
    ],
)
def test_sizes_are_read_by_their_places(text: str, found: dict[str, int]) -> None:
    assert received.inspection_sizes(text) == found
