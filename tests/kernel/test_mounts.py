"""Reading mountinfo."""

from __future__ import annotations

from backends.kernel import mounts

LINES = rb"""22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw
30 22 0:5 / /mnt/a\040b\134c ro,nosuid shared:2 master:1 - tmpfs tmp\011fs rw,size=4k
31 22 0:6 / /mnt/locked rw - overlay overlay ro,lowerdir=/x
"""


def test_targets_kinds_and_read_only_are_read_whatever_the_optional_fields() -> None:
    points = mounts.parse_mountinfo(LINES)
    assert [point.target for point in points] == [b"/", rb"/mnt/a b\c", b"/mnt/locked"]
    assert [point.kind for point in points] == ["ext4", "tmpfs", "overlay"]
    assert [point.read_only for point in points] == [False, True, True]


def test_our_own_mounts_can_be_read() -> None:
    assert any(point.target == b"/proc" and point.kind == "proc" for point in mounts.mount_points())
