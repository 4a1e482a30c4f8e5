"""Whether the host's clock can be right, judged by what was written before."""

from __future__ import annotations

import time

from backends.doctor.rows import HOST, Box, Voice
from backends.evidence import journal
from backends.snapshots import Finding

WHY = "times in the journal, in commits and in expiries would be wrong, and certificates be refused"
REMEDY = "sudo timedatectl set-ntp true"
EPOCH = 1_735_689_600.0  # 2025-01-01: no host on which this version was installed is older
SLACK = 120.0  # seconds that clocks of one host may differ when it was stepped


def check(box: Box) -> list[Finding]:
    """One row: nothing of the box is dated in the future."""
    voice, now = Voice(box.paths.key, "clock"), time.time()
    last = box.manifest.created
    for record in journal.read(box.paths.journal):
        last = max(last, record.time)
    if last > now + SLACK:
        ahead = f"the box has a record of {_moment(last)}, the clock says {_moment(now)}"
        return [voice.fail("the clock is behind what was written", ahead, WHY, REMEDY)]
    return [voice.ok("nothing of it is dated in the future")]


def host() -> list[Finding]:
    """One row: the clock is later than this version."""
    voice, now = Voice(HOST, "clock"), time.time()
    if now < EPOCH:
        return [voice.fail("the clock is wrong", f"it says {_moment(now)}", WHY, REMEDY)]
    return [voice.ok("the clock can be right", _moment(now))]


def _moment(epoch: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(epoch))
