"""What a supervised box needs of the host, taken away for real: the tier is refused and names it."""

from __future__ import annotations

import errno
import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from backends.egress import artefact
from backends.egress.artefact import Artefact
from backends.errors import ClocheError, Refused
from backends.host import causes, probes
from backends.kernel import bpf, namespaces, netlink, nftables, seccomp
from backends.tiers import auto, boundary, netns, supervised
from tests.boundary import harness

SUPERVISED = harness.policy(tier="supervised")


def refusal(before: Callable[[], object], *, own: bool = False) -> dict[str, str]:
    """What a launch is refused with in a process of its own, in which ``before`` took something away.

    ``own``: the payload's folders are ours, also as root, because ``before`` leaves no other user.
    """
    artefact.load()  # what is kept must not be what is missing
    reader, writer = os.pipe2(os.O_CLOEXEC)
    folder = tempfile.mkdtemp(prefix="cloche-test-")
    child = os.fork()
    if child == 0:
        told = b"launched"
        try:
            spec = harness.spec(SUPERVISED, Path(folder), "box")
            if own and os.geteuid() == 0:
                subprocess.run(["chown", "-R", "0:0", folder], check=True)
            before()
            supervised.TIER.launch(spec)
        except ClocheError as error:
            told = "\n".join((error.code, error.what, error.why, error.next_step)).encode()
        except BaseException as error:  # told to the test
            told = repr(error).encode()
        finally:
            os.write(writer, told)
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as file:
        lines = file.read().split("\n")
    os.waitpid(child, 0)
    shutil.rmtree(folder)
    assert len(lines) == 4, lines
    return dict(zip(("code", "what", "why", "next"), lines, strict=True))


def no_more_user_namespaces() -> None:
    """A host on which the next user namespace is one too many: a user namespace of our own."""
    uid, gid = os.geteuid(), os.getegid()
    namespaces.unshare(namespaces.CLONE_NEWUSER)
    namespaces.map_ids(None, ((uid, uid, 1),), ((gid, gid, 1),), setgroups=False)
    with open("/proc/sys/user/max_user_namespaces", "w") as file:
        file.write("0")


def no_more_network_namespaces() -> None:
    uid, gid = os.geteuid(), os.getegid()
    namespaces.unshare(namespaces.CLONE_NEWUSER)
    namespaces.map_ids(None, ((uid, uid, 1),), ((gid, gid, 1),), setgroups=False)
    with open("/proc/sys/user/max_net_namespaces", "w") as file:
        file.write("0")


def another_listener() -> None:
    """The kernel gives a process one listener: under a supervisor with its own there is none left."""
    program = bpf.Assembler()
    program.ret(seccomp.RET_ALLOW)
    seccomp.install(program.assemble())


def test_without_user_namespaces() -> None:
    told = refusal(no_more_user_namespaces, own=True)
    assert (told["code"], told["what"]) == ("launch-userns", "the supervised tier cannot start box box")
    assert os.strerror(errno.ENOSPC) in told["why"] and "user.max_user_namespaces" in told["next"]


def test_without_network_namespaces() -> None:
    told = refusal(no_more_network_namespaces, own=True)
    assert told["code"].startswith("launch-")
    assert os.strerror(errno.ENOSPC) in told["why"] and "namespaces" in told["next"]


def test_without_a_listener_for_notifications() -> None:
    told = refusal(another_listener)
    assert told["code"] == "launch-seccomp"
    assert os.strerror(errno.EBUSY) in told["why"] and "has a listener" in told["next"]


@pytest.mark.parametrize(
    ("expression", "label"),
    [
        (b"reject", "a reset for refused TCP"),
        (b"dynset", "a row for each refused destination"),
        (b"redir", "a redirection to the relay (allowed4)"),
        (b"lookup", "listed destinations (allowed4)"),
        (b"objref", "a counter of all that is refused"),
    ],
)
def test_a_kernel_without_a_part_of_nf_tables(
    expression: bytes, label: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel is asked for an expression that it does not have, and its own answer is told."""
    real = artefact.load()
    name = expression + b"\0"
    assert name in real.batch
    asked = real.batch.replace(name, expression[:-1] + b"?\0")
    monkeypatch.setattr(artefact, "load", lambda: Artefact(asked, real.labels))
    with pytest.raises(Refused) as refused, harness.box(SUPERVISED, tier=supervised.TIER):
        pass
    assert refused.value.code == "launch-nftables"
    told = f"the packet filter (nf_tables) is loaded: {label}: No such file or directory"
    assert refused.value.why == f"{told} ({causes.BY_ID['nftables'].why})"
    assert "modprobe" in refused.value.next_step


def failing(code: int) -> Callable[..., Any]:
    def fail(*_arguments: object, **_named: object) -> Any:
        raise OSError(code, os.strerror(code))

    return fail


@pytest.mark.parametrize(
    ("module", "name", "code", "stage"),
    [
        (netlink, "local_routes", errno.EOPNOTSUPP, "network"),
        (netlink, "connect", errno.EPROTONOSUPPORT, "network"),
        (netlink, "transact", errno.EOPNOTSUPP, "network"),
        (boundary, "unshare", errno.EPERM, "userns"),
        (namespaces, "loopback_up", errno.EPERM, "network"),
        (boundary, "install", errno.EBUSY, "seccomp"),
    ],
)
def test_each_step_that_fails_is_named(
    module: object, name: str, code: int, stage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(netlink, "own_addresses", lambda: ())
    monkeypatch.setattr(module, name, failing(code))
    with pytest.raises(Refused) as refused, harness.box(SUPERVISED, tier=supervised.TIER):
        pass
    assert refused.value.code == f"launch-{stage}"
    assert os.strerror(code) in refused.value.why


def _messages(batch: bytes) -> Iterator[tuple[int, memoryview]]:
    """Where the body of each message begins, and the body."""
    at = 0
    for _, _, body in netlink.messages(batch):
        yield at + netlink.HEADER.size, body
        at += netlink.HEADER.size + (len(body) + 3 & ~3)


def test_a_filter_that_lets_something_pass_is_found_by_the_boxs_own_proof(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The filter without its chains: a datagram to a destination of nobody goes through."""
    real = artefact.load()
    whole = [real.batch[at - 16 : at + len(body)] for at, body in _messages(real.batch)]
    asked = b"".join((*whole[:10], whole[-1]))
    assert real.labels[8:10] == ("the counter others", "the chain refuse")
    monkeypatch.setattr(artefact, "load", lambda: Artefact(asked, real.labels[:9]))
    with pytest.raises(AssertionError) as failure, harness.box(SUPERVISED, tier=supervised.TIER):
        pass
    assert failure.value.args[0]["what"] == "the proof network failed"
    assert "a datagram to 192.0.2.1 port 9 was not refused" in failure.value.args[0]["why"]


def test_a_kernel_without_ipv6(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(netns, "IPV6_OFF", "/proc/sys/net/ipv6.of.a.kernel.without")
    with pytest.raises(Refused) as refused, harness.box(SUPERVISED, tier=supervised.TIER):
        pass
    assert refused.value.code == "launch-ipv6"
    assert "IPv6 is switched on: No such file or directory" in refused.value.why


def test_a_host_that_hands_on_that_ipv6_is_off(monkeypatch: pytest.MonkeyPatch) -> None:
    """net.core.devconf_inherit_init_net, which may be set on a hardened host, by its effect."""
    real = namespaces.loopback_up

    def handed_on() -> None:
        with open("/proc/sys/net/ipv6/conf/lo/disable_ipv6", "w") as file:
            file.write("1")
        real()

    monkeypatch.setattr(namespaces, "loopback_up", handed_on)
    with harness.box(SUPERVISED, tier=supervised.TIER) as box:
        script = "import socket; print(socket.socket(10).connect_ex(('2606:4700::1', 443)))"
        assert box.python(script).out == "111\n"


def test_probe_and_auto_tell_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    real = netlink.transact

    def no_elements(sock: socket.socket, batch: bytes, acks: int) -> None:
        if acks == 1:
            raise netlink.BatchError(errno.EOPNOTSUPP, 0)
        real(sock, batch, acks)

    monkeypatch.setattr(netlink, "transact", no_elements)
    monkeypatch.setattr(nftables, "planned", lambda before, after: (b"elements", 1))
    verdict, *rest = probes.probe("supervised")
    assert (verdict.result, rest) == ("failed", [])
    assert "the listed destinations are let pass: Operation not supported" in verdict.evidence
    assert harness.apart("process")[0].result == "proved"
    with pytest.raises(Refused) as refused:
        listed = harness.policy(net="allow", egress=["a.example"])._replace(tier="auto")
        auto.choose(listed, verdict=harness.runs(probes.probe))
    assert "supervised: " in refused.value.why and "Operation not supported" in refused.value.why


@pytest.mark.parametrize(
    ("change", "key"),
    [
        ({"net": "host"}, "net.mode"),
        ({"loopback": False}, "net.loopback"),
        ({"net": "allow", "egress": ("*.com",)}, "net.egress"),
        ({"net": "allow", "egress": ("https://a.example/",)}, "net.egress"),
        ({"net": "allow", "egress": ("127.0.0.1:80",)}, "net.egress"),
    ],
)
def test_a_network_that_the_tier_cannot_enforce_is_refused(change: dict[str, Any], key: str) -> None:
    policy = harness.policy(tier="supervised", **change)
    assert [found.key for found in supervised.TIER.refusals(policy)] == [key]
    with pytest.raises(Refused) as refused, harness.box(policy, tier=supervised.TIER):
        pass
    assert refused.value.what == f"the supervised tier cannot take {key}"
