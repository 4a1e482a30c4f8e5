"""``python -I -S .../backends/keeper/__main__.py BOX-FOLDER READY-FD``: the keeper of one box.

``... --zygote SOCKET LISTENING-FD``: the process that keepers are forked from (backends/keeper/zygote.py).

Run as a file and isolated: neither the starter's environment nor its installed packages reach the process
that holds a box, and what the interpreter does not import the box's init does not inherit.
"""

from __future__ import annotations

import gc
import sys


def run() -> None:
    # Collecting while modules load finds nothing, and what is there by then is shared with the box's init.
    gc.disable()
    sys.path.insert(0, __file__.rpartition("/backends/keeper/")[0])
    # Before all else: what a box's init runs then lies together in memory, and not among what it does not.
    from backends.keeper import seed

    if sys.argv[1] == "--zygote":
        seed.main(sys.argv[2], int(sys.argv[3]))
    seed.alone(sys.argv[1], int(sys.argv[2]))


if __name__ == "__main__":
    run()
