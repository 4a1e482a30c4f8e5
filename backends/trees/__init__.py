"""Trees: the pinned base, the checkout, the box's own repository, snapshots and diffs.

The host never runs Git on a box's tree. :mod:`backends.trees.git` is the only module that starts Git, and it
works on objects; a confined process (:mod:`backends.trees.walker`) reads what a box left on disk.
"""
