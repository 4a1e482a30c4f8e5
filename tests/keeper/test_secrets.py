"""What no box asked for of a client's environment never reaches a keeper: its whole memory is searched."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from backends.boxes.layout import BoxPaths
from backends.keeper import environment
from backends.policy.model import EnvPolicy
from backends.verbs import sessions
from tests.keeper import boxes

SECRET = b"hunter2-" + os.urandom(12).hex().encode()
PASSED = b"greeting-" + os.urandom(12).hex().encode()


def memory(pid: int) -> Iterator[bytes]:
    """Every private, readable mapping of a process."""
    with open(f"/proc/{pid}/mem", "rb", buffering=0) as file:
        for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
            span, mode, *rest = line.split()
            if mode.startswith("r") and rest[-1] not in ("[vvar]", "[vsyscall]", "[vvar_vclock]"):
                begin, end = (int(one, 16) for one in span.split("-"))
                file.seek(begin)
                yield file.read(end - begin)


def holds(pid: int, what: bytes) -> bool:
    return any(what in part for part in memory(pid))


@pytest.mark.parametrize("tier", ["process", "workspace"])
def test_a_variable_that_is_not_passed_never_reaches_the_keeper(
    home: object, tier: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DEPLOY_TOKEN", SECRET.decode())
    monkeypatch.setenv("CLOCHE_TEST_PASSED", PASSED.decode())
    net = boxes.POLICY.net._replace(mode="host") if tier == "workspace" else boxes.POLICY.net
    box: BoxPaths = boxes.make(policy=boxes.POLICY._replace(tier=tier, net=net))
    with boxes.started(box) as keeper:
        pid = keeper.call("hello")["keeper"]
        script = 'printf "%s|" "$DEPLOY_TOKEN"; echo "$CLOCHE_TEST_PASSED"; exec sleep 60'
        terminal = sessions.shell(box, ["/bin/sh", "-c", script], 24, 80, None)
        shown = b""
        while b"\n" not in shown:
            shown += terminal.read()
        assert shown.strip() == b"|" + PASSED
        assert holds(pid, PASSED)  # what was printed is kept: the search finds what is there
        assert not holds(pid, SECRET)
        terminal.close()


def test_what_a_client_sends_is_what_the_keeper_would_pass() -> None:
    policy = boxes.POLICY._replace(env=EnvPolicy(passed=("LC_*", "EDITOR"), set=()))
    caller = {
        "LC_ALL": "C", "EDITOR": "vi", "TERM": "xterm", "PATH": "/p", "USER": "me",
        "AWS_SECRET_ACCESS_KEY": "k",
    }  # fmt: skip
    for pty in (False, True):
        for confined in (False, True):
            sent = environment.wanted(policy, caller, pty=pty, confined=confined)
            place = {"box": "b", "home": "/h", "shell": "/bin/sh"}
            whole, part = (
                environment.compose(policy, one, **place, pty=pty, confined=confined)
                for one in (caller, sent)
            )
            assert whole == part
            assert "AWS_SECRET_ACCESS_KEY" not in sent
            assert ("PATH" in sent) is not confined
            assert ("TERM" in sent) is pty
