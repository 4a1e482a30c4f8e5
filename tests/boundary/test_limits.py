"""Bombs, and what is said where a limit cannot be had (H2)."""

from __future__ import annotations

import json
import os
import resource
import sys
import time

import pytest

from backends.kernel import cgroups
from backends.snapshots import Enforcement
from tests import support
from tests.boundary import harness
from tests.boundary.harness import Box

MIB = 1 << 20


def row(box: Box, key: str) -> Enforcement:
    return next(row for row in box.live.enforcement if row.key == f"resources.{key}")


def test_a_fork_bomb_ends_at_the_limit_and_a_person_still_gets_in() -> None:
    with harness.box(harness.policy(procs=50)) as box:
        result = box.python(
            """
import os, time
count = 0
try:
    for _ in range(500):
        if os.fork() == 0:
            time.sleep(20)
            os._exit(0)
        count += 1
except OSError as error:
    print(error.errno, count, flush=True)
    time.sleep(0.2)
os.killpg(0, 9)
"""
        )
        code, count = map(int, result.out.split())
        assert code == 11  # EAGAIN
        assert 40 <= count <= 50
        assert row(box, "procs").enforced == "50 in the box"
        assert "RLIMIT_NPROC" in row(box, "procs").mechanism
        assert box.sh("echo in").out == "in\n"


def test_one_boxs_processes_do_not_count_against_another() -> None:
    with harness.box(harness.policy(procs=20)) as one, harness.box(harness.policy(procs=20)) as two:
        hold = "for i in $(seq 15); do sleep 100 & done; jobs -p | wc -l; kill $(jobs -p)"
        assert one.sh(hold).out == "15\n"
        started = [one.start(["sleep", "100"], fds=_null()) for _ in range(15)]
        assert two.sh(hold).out == "15\n"
        for _, _, fds in started:
            for fd in fds:
                os.close(fd)


def _null() -> list[int]:
    return [os.open("/dev/null", os.O_RDWR | os.O_CLOEXEC) for _ in range(3)]


# Init is forked from whoever launches the box, and what the kernel tells of its children is never below its
# own size; a test run grows larger than the bomb. So another process launches this box.
BOMB = """
import json
from tests.boundary import harness
with harness.box(harness.policy(mem=128 << 20)) as box:
    result = box.python("b = []\\nwhile True: b.append(bytearray(8 << 20))")
    after = box.sh("echo alive").out
    (memory,) = [row for row in box.live.enforcement if row.key == "resources.mem"]
    print(json.dumps([result.exit, result.peak, after, memory.enforced, memory.missing]))
"""

# Together they are too much for the group, each is not. As above: the group kills who is largest.
EATERS = """
import json
from tests.boundary import harness
with harness.box(harness.policy(mem=128 << 20)) as box:
    eater = "import time; b = bytearray(40 << 20); time.sleep(50)"
    result = box.sh(
        f"for i in 1 2 3 4 5 6; do {harness.PYTHON} -c '{eater}' & done; "
        "wait -n; kill $(jobs -p); wait; echo over"
    )
    print(json.dumps([result.out, result.err]))
"""


def test_a_memory_bomb_ends_and_the_box_goes_on() -> None:
    done = support.run([sys.executable, "-c", BOMB], cwd=support.ROOT)
    assert done.code == 0, done.err
    code, peak, after, enforced, missing = json.loads(done.out)
    assert 64 * MIB < peak < 160 * MIB
    assert after == "alive\n"
    if isinstance(cgroups.find("memory"), cgroups.Hierarchy):
        assert code == -9  # killed by the group
        assert enforced == "128 MiB in the box"
        assert missing == ""
    else:
        assert code == 1  # MemoryError
        assert enforced == "soft: 128 MiB in each process"
        assert "not enforced" in missing
        assert "no delegation" in missing


@pytest.mark.skipif(
    not isinstance(cgroups.find("memory"), cgroups.Hierarchy),
    reason="needs root or a delegated control group",
)
def test_memory_is_limited_over_all_processes_together() -> None:
    done = support.run([sys.executable, "-c", EATERS], cwd=support.ROOT)
    assert done.code == 0, done.err
    out, err = json.loads(done.out)
    assert out == "over\n"
    assert "Killed" in err


def test_a_limit_without_a_control_group_is_called_soft_and_not_enforced(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """H2: no delegation with a 64 MB limit, whoever runs the test."""
    monkeypatch.setattr(cgroups, "find", lambda controller: f"no {controller} (no delegation)")
    with harness.box(harness.policy(mem=64 * MIB, procs=30)) as box:
        assert row(box, "mem").missing == "the sum over the box is not enforced: no memory (no delegation)"
        assert row(box, "mem").mechanism == "RLIMIT_DATA"
        assert row(box, "procs").mechanism == "RLIMIT_NPROC in the box's user namespace"
        assert box.live.cgroups == ()
        result = box.python("b = bytearray(100 << 20)")
        assert "MemoryError" in result.err


def test_disk_bombs_end_at_the_bounds_of_the_private_folders() -> None:
    with harness.box(harness.policy(tmp=16 * MIB, shm=8 * MIB, file_size=4 * MIB)) as box:
        for path, bound in (("/tmp", 16), ("/var/tmp", 16), ("/dev/shm", 8)):
            result = box.sh(
                f"for i in $(seq 40); do head -c 1M /dev/zero > {path}/f$i || break; done; "
                f"du -sm {path} | cut -f1; rm -f {path}/f*"
            )
            assert int(result.out) <= bound
            assert "No space left" in result.err
        result = box.sh("head -c 16M /dev/zero > /work/big; ls -l /work/big | cut -d' ' -f5")
        assert int(result.out) == 4 * MIB
        result = box.python(
            """
import os
try:
    for n in range(200000):
        os.close(os.open("/dev/shm/%d" % n, os.O_CREAT | os.O_WRONLY))
except OSError as error:
    print(error.errno)
"""
        )
        assert result.out == "28\n"  # empty files are bounded as well
        assert row(box, "tmp").enforced == "16 MiB"


def test_a_disk_limit_is_not_claimed_by_the_tier() -> None:
    with harness.box(harness.policy(disk=64 * MIB)) as box:
        assert row(box, "disk").enforced == "not enforced"
        assert row(box, "disk").missing


def test_cpu_time_and_open_files_are_limited_in_each_process() -> None:
    with harness.box(harness.policy(cpu=1, files=100)) as box:
        began = time.monotonic()
        assert box.sh("while :; do :; done").exit in (-24, -9)  # SIGXCPU
        assert time.monotonic() - began < 55  # its time of the processor, which it may have to wait for
        assert box.sh("ulimit -n; ulimit -c; ulimit -t").out.split() == ["100", "0", "1"]
        assert box.alive()


def test_the_default_leaves_room_for_a_build_tools_many_files() -> None:
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    with harness.box(harness.policy()) as box:
        wanted = min(hard // 2, 65536)
        assert box.sh(f"ulimit -n {min(8192, wanted)} && ulimit -n").out.strip() == str(min(8192, wanted))
        assert row(box, "files").enforced == f"{wanted} in each process"


def test_no_control_group_is_left_behind() -> None:
    with harness.box(harness.policy(mem=64 * MIB, procs=10)) as box:
        folders = box.live.cgroups
        assert all(os.path.isdir(folder) for folder in folders)
    assert not any(os.path.exists(folder) for folder in folders)


def test_sessions_go_first_when_memory_runs_out_and_init_last(confined: Box) -> None:
    with open("/proc/self/oom_score_adj", encoding="ascii") as file:
        own = int(file.read())
    assert confined.sh("cat /proc/self/oom_score_adj").out.strip() == str(max(900, own))
    with open(f"/proc/{confined.live.init.pid}/oom_score_adj", encoding="ascii") as file:
        assert int(file.read()) == own
