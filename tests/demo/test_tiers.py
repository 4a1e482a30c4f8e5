"""One box of every tier, or this host's refusal of it, told as text: what is said is what ran."""

from __future__ import annotations

import os
import re

import pytest

from tests.conftest import Home
from tests.container import world as containers
from tests.microvm import world as guests
from tests.support import cloche_argv, live_records, run

pytestmark = [pytest.mark.flow, pytest.mark.timeout(400)]

OWN = os.uname().release


def test_each_tier_runs_or_is_refused_with_its_reason(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    if why := containers.missing() or guests.missing():
        pytest.skip(why)
    monkeypatch.setenv("XDG_DATA_HOME", str(home.root / "d"))
    done = run(cloche_argv("demo", "--tiers"), cwd=home.root, timeout=360)
    assert done.code == 0, done.out + done.err
    parts = re.split(r"^--- \d\. (.+)$", done.out, flags=re.M)[1:]
    told = dict(zip((head.partition(":")[0] for head in parts[::2]), parts[1::2], strict=False))
    heads = parts[::2]
    assert [head.partition(":")[0] for head in heads] == [
        "workspace", "process", "supervised", "container", "microvm", "microvm",
    ]  # fmt: skip
    for tier in ("workspace", "process", "supervised"):
        assert f"\n{OWN}\n" in told[tier]
    assert "nothing was written to /etc" in told["process"]
    emulated = parts[-1]
    assert "\n$ cloche new emulated" in emulated
    assert f"\n{OWN}\n" not in emulated and "nothing was written to /etc" in emulated
    assert f"\n{OWN}\n" not in parts[9], "a kernel of its own, or the refusal"
    if os.geteuid() == 0:
        assert "rootful" in done.err  # root's containers are rootful, and nobody asked for that by name
    else:
        assert f"\n{OWN}\n" in told["container"]
    assert "no isolation promised" in done.err
    assert run(cloche_argv("demo", "--remove"), cwd=home.root).code == 0
    assert list(live_records(home.state)) == []
