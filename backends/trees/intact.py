"""Layers that were compared with their seals a while ago and that nothing has changed since.

Comparing costs one stat(2) for each file, at every launch. Who lives longer than one launch can let the
kernel tell (inotify(7)) whether anything below a layer was written, renamed, made, removed or had its mode
changed; the watch is set before the comparison, so that nothing falls between.

What it does not see, since inotify does not tell it: a file written through another hard link of it, or
through a shared mapping (mmap(2)) that is held, of which the kernel tells only once it is gone; a disk
written below its file system. A box can do none of these to a layer. A process of the same user outside every
box can do the first two; they are found when the layer is next compared: by the next zygote, after something
else changed in the layer, or by a keeper that starts by itself. A layer on a file system that others than
this kernel can change is compared at every launch.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from backends.boxes.layout import BoxPaths
from backends.kernel import inotify
from backends.trees import layers
from backends.trees.layers import Layer
from backends.trees.seal import Check
from backends.trees.watch import TreeWatch

MOST = 8  # layers that are watched at a time; each of their folders takes kernel memory
WATCHED = 4096  # folders of one layer; one with more is compared at every launch


class _Held:
    """One layer under watch; ``check`` while its comparison is still at work."""

    def __init__(self, layer: Layer) -> None:
        self.layer = layer
        self.watch = TreeWatch(layer.files, most=WATCHED)
        self.check: Check | None = None
        try:
            self._identity = _identity(layer)
            if self.watch.complete and inotify.told(os.fsencode(layer.files)):
                self.check = Check([(layer.files, layer.seal)], workers=1)
        except BaseException:
            self.watch.close()
            raise

    @property
    def unchanged(self) -> bool:
        """Whether what the layer's path leads to is what is watched, and nothing happened to it."""
        if self.watch.changed() or not self.watch.complete:
            return False
        try:
            return _identity(self.layer) == self._identity
        except OSError:
            return False  # it is gone, or closed to us

    def close(self) -> None:
        if self.check is not None:
            self.check.abandon()
        self.watch.close()


class Intact:
    """For a process that lives longer than a launch, and for one thread."""

    def __init__(self) -> None:
        self._held: dict[Path, _Held] = {}
        self._wanted: dict[Path, Layer] = {}
        self._unwatchable: set[Path] = set()  # too large, or of a file system that does not tell

    def among(self, paths: BoxPaths) -> frozenset[str]:
        """The folders of those layers of a box that need no comparison now."""
        stack = _stack(paths)
        known = self._held.keys() | self._unwatchable
        self._wanted.update((layer.files, layer) for layer in stack if layer.files not in known)
        found = set()
        for layer in stack:
            held = self._held.get(layer.files)
            if held is None or held.check is not None:
                continue
            if held.unchanged:
                found.add(os.fspath(layer.files))
                self._held[layer.files] = self._held.pop(layer.files)  # the most lately used is the last
            else:
                self._drop(layer.files)
        return frozenset(found)

    @property
    def due(self) -> bool:
        """Whether :meth:`begin` has something to do."""
        return bool(self._wanted)

    def begin(self) -> int | None:
        """Watch the next layer that was asked for and begin to compare it; a descriptor that tells its end.

        ``None`` when it cannot be watched whole, or is not there any more: it stays to be compared each time.
        """
        path, layer = self._wanted.popitem()
        while len(self._held) >= MOST:
            self._drop(next(iter(self._held)))
        try:
            held = _Held(layer)
        except OSError:
            return None
        if held.check is None or not held.check.descriptors:
            if held.check is None and (held.watch.complete or held.watch.folders >= WATCHED):
                self._unwatchable.add(path)
            held.close()
            return None
        self._held[path] = held
        return held.check.descriptors[0]

    def finish(self, descriptor: int) -> None:
        """Take the result of the comparison whose end ``descriptor`` told."""
        for path, held in list(self._held.items()):
            if held.check is not None and descriptor in held.check.descriptors:
                broken, held.check = held.check.result(), None
                if broken is not None or not held.unchanged:
                    self._drop(path)

    def _drop(self, path: Path) -> None:
        self._held.pop(path).close()

    def watched(self) -> Iterable[Path]:
        """The layers that need no comparison, as far as is known without a look."""
        return [path for path, held in self._held.items() if held.check is None]


def _identity(layer: Layer) -> tuple[int, ...]:
    """Which folder a layer's path leads to, and by which seal it was compared."""
    folder = os.stat(layer.files, follow_symlinks=False)
    sealed = os.stat(layer.seal, follow_symlinks=False)
    return folder.st_dev, folder.st_ino, sealed.st_dev, sealed.st_ino, sealed.st_ctime_ns, sealed.st_size


def _stack(paths: BoxPaths) -> tuple[Layer, ...]:
    """The layers that a box names; none where that cannot be told, which its own launch will say."""
    try:
        names = layers.used(paths)
        top = layers.find(names[0]) if names else None
        return layers.stack(top) if top is not None else ()
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return ()
