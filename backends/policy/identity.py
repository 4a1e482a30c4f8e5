"""What a path is, beside its name: so that another thing under the same name is not taken for it later."""

from __future__ import annotations

import os


def describe(found: os.stat_result, grant: os.stat_result) -> str:
    """The inode of ``found``, and whether it lies on the file system of the folder ``grant``.

    Device numbers are not kept: many change with every boot. Within one file system no two things that exist
    share an inode, and what a box makes below its grant lies on the grant's own, or on a subvolume, which has
    another device number.
    """
    return f"inode {found.st_ino}" + ("" if found.st_dev == grant.st_dev else ", mounted below the grant")


def identify(grant: str, path: str) -> str:
    """What ``path`` below the folder ``grant`` is now; of a link, the link itself. ``OSError`` when gone."""
    return describe(os.lstat(path), os.stat(grant))  # noqa: PTH116
