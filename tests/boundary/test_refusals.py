"""What cannot be had is refused by name with its remedy, and leaves nothing behind (H1)."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from typing import Any

import pytest

from backends.errors import ClocheError, Refused
from backends.host import probes
from backends.keeper import init_proofs
from backends.kernel import landlock, mounts, namespaces, procfs, syscalls
from backends.policy.model import Policy
from backends.tiers import auto, boundary, planning, process, workspace
from tests.boundary import harness


def failing(code: int) -> Callable[..., Any]:
    def fail(*_args: object, **_named: object) -> Any:
        raise OSError(code, os.strerror(code))

    return fail


FAULTS = [
    (boundary, "unshare", errno.EPERM, "userns", "kernel.apparmor_restrict_unprivileged_userns"),
    (boundary, "unshare", errno.ENOSPC, "userns", "user.max_user_namespaces"),
    (namespaces, "map_ids", errno.EPERM, "uid-map", "unprivileged user"),
    (mounts, "tmpfs", errno.EPERM, "mounts", "apparmor_restrict"),
    (mounts, "proc", errno.EPERM, "proc", "systempaths=unconfined"),
    (mounts, "devpts", errno.EINVAL, "devpts", "CONFIG_DEVPTS"),
    (mounts, "overlay", errno.ENODEV, "overlay", "modprobe overlay"),
    (mounts, "enter_root", errno.EINVAL, "mounts", "container"),
    (namespaces, "loopback_up", errno.EPERM, "network", "max_net_namespaces"),
    (boundary, "drop_all", errno.EPERM, "capabilities", "capabilities"),
    (landlock, "ruleset", errno.EOPNOTSUPP, "landlock", "lsm=landlock"),
    (boundary, "enter_rules", errno.EOPNOTSUPP, "landlock", "lsm=landlock"),
    (boundary, "install", errno.EBUSY, "seccomp", "listener"),
]


@pytest.mark.parametrize(("module", "name", "code", "stage", "remedy"), FAULTS)
def test_each_stage_that_fails_is_named_with_cause_and_remedy(
    module: object, name: str, code: int, stage: str, remedy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, name, failing(code))
    before = {found.pid for found in procfs.scan().stats.values() if found.parent == os.getpid()}
    with pytest.raises(Refused) as refused, harness.box(harness.policy(procs=20)):
        pass
    assert refused.value.code == f"launch-{stage}"
    assert os.strerror(code) in refused.value.why
    assert remedy in refused.value.next_step
    assert {found.pid for found in procfs.scan().stats.values() if found.parent == os.getpid()} <= before


def test_a_probe_tells_the_same_and_never_raises(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mounts, "proc", failing(errno.EPERM))
    verdict, *rest = probes.probe("process")
    assert (verdict.id, verdict.result, rest) == ("process", "failed", [])
    assert "a fresh /proc: Operation not permitted" in verdict.evidence
    assert "systempaths=unconfined" in verdict.evidence


def test_a_kernel_without_landlock_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(landlock, "syscall", failing(errno.ENOSYS))
    refusals = process.TIER.refusals(harness.policy())
    assert refusals[0].key == "tier"
    assert "this kernel offers none" in refusals[0].why
    assert "lsm=landlock" in refusals[0].remedy


def test_an_architecture_without_a_table_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(syscalls, "architecture", lambda: "riscv64")
    assert "riscv64" in process.TIER.refusals(harness.policy())[0].why


def test_a_promise_that_does_not_hold_ends_the_launch_before_anything_runs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    real = planning.prepare

    def lying(*arguments: Any) -> Any:
        prepared = real(*arguments)
        settings = prepared.build.settings
        assert settings.promises is not None
        promises = settings.promises._replace(absent=("/usr",))
        build = prepared.build._replace(settings=settings._replace(promises=promises))
        return prepared._replace(build=build)

    monkeypatch.setattr(planning, "prepare", lying)
    with pytest.raises(AssertionError) as failure, harness.box():
        pass
    message = failure.value.args[0]
    assert message["what"] == "the proof absent failed"
    assert "/usr is there" in message["why"]


def test_every_proof_can_fail() -> None:
    """Outside a box each action goes through or finds another state: no proof says yes by itself."""
    promises = init_proofs.Promises(
        ("/tmp",),
        ("/usr",),
        ("/nonexistent",),
        network="host",
        loopback=True,
        sizes=(("/", 1),),
        host_network=1,
    )
    results = {}
    for ident, _, proof in init_proofs.PROOFS:
        if ident == "mount":  # would go through as root
            continue
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                proof(promises)
            except (init_proofs.Failed, OSError):
                code = 0
            finally:
                os._exit(code)
        results[ident] = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    unprivileged = os.geteuid() != 0
    # An unprivileged process outside has no capabilities and no right to raw sockets either.
    expected = dict.fromkeys(results, True)
    if unprivileged:
        expected["sockets"] = False
    assert results == expected


@pytest.mark.parametrize(
    ("change", "key"),
    [
        ({"net": harness.policy().net._replace(mode="allow", egress=("example.com",))}, "net.mode"),
        ({"image": "debian"}, "image"),
        ({"services": (("db", "postgres"),)}, "services"),
        ({"secrets": ("TOKEN",)}, "secrets"),
        ({"net": harness.policy(net="host").net._replace(loopback=False)}, "net.loopback"),
        ({"fs": harness.policy().fs._replace(read=("/",))}, "fs.read"),
        ({"fs": harness.policy().fs._replace(read=("/work/other",))}, "fs.read"),
        ({"fs": harness.policy().fs._replace(read=("/proc",))}, "fs.read"),
        ({"fs": harness.policy().fs._replace(read=("/dev/kvm",))}, "fs.read"),
        ({"fs": harness.policy().fs._replace(write=("/home",))}, "fs.write"),
    ],
)
def test_a_key_that_the_tier_cannot_enforce_is_refused_at_creation(change: dict[str, Any], key: str) -> None:
    policy = harness.policy()._replace(**change)
    found = process.TIER.refusals(policy)
    assert [refusal.key for refusal in found] == [key]
    assert found[0].why
    assert found[0].remedy
    with pytest.raises(Refused), harness.box(policy):
        pass


def test_a_write_grant_that_reaches_cloches_own_records_is_refused(home: Any) -> None:
    for folder in (home.state, home.state / "cloche" / "key"):
        policy = harness.policy(write=[str(folder)])
        assert [refusal.key for refusal in process.TIER.refusals(policy)] == ["fs.write"]


def test_auto_takes_the_cheapest_proved_tier_and_never_workspace(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = harness.policy()._replace(tier="auto")
    assert auto.choose(plain, verdict=harness.runs(harness.apart)).tier == "process"
    monkeypatch.setattr(mounts, "overlay", failing(errno.ENODEV))
    with pytest.raises(Refused) as refused:
        auto.choose(plain, verdict=harness.runs(probes.probe))
    assert "overlay" in refused.value.why
    monkeypatch.undo()
    listed = plain._replace(net=plain.net._replace(mode="allow", egress=("a.example",)))
    assert auto.choose(listed, verdict=harness.runs(harness.apart)).tier == "supervised"


def test_workspace_promises_no_boundary() -> None:
    assert workspace.TIER.confined is False
    assert "nothing confines" in workspace.TIER.stays_false
    policy: Policy = harness.policy(tier="workspace")
    assert workspace.TIER.refusals(policy) == ()
    with pytest.raises(ClocheError):
        workspace.TIER.launch(
            harness.spec(policy._replace(net=policy.net._replace(mode="allow", egress=("a.example",))))
        )
