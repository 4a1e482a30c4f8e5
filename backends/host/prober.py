"""One tier, or the host's programs, tried in a process of its own: ``python -I -S prober.py WHAT PARENT``.

Its caller may be a workbench of many threads, in which nobody should fork, and it can end what hangs. Prints
one JSON document: of a tier ``claims`` and ``error`` (as :meth:`ClocheError.as_dict`, or null), of the word
``tools`` the list ``facts``, and where this program itself failed ``fault``.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path


def main(what: str, patience: float) -> int:
    """Answers on standard output."""
    if what == "tools":
        from backends.host import tools

        print(json.dumps({"facts": [list(fact) for fact in tools.gather(patience or tools.PATIENCE)]}))
        return 0
    from backends.host import probes

    tried = probes.attempt(what, patience)
    error = tried.error.as_dict() if tried.error else None
    print(json.dumps({"claims": [list(claim) for claim in tried.claims], "error": error}))
    return 0


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
    from backends.kernel.syscalls import PR_SET_PDEATHSIG, prctl

    # Asked to end, it still ends the box that it tries, and removes what that leaves. So it does when nobody
    # waits for its answer any more (PR_SET_PDEATHSIG(2const): the thread that started it ended).
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != int(sys.argv[2]):
        sys.exit(1)
    try:
        sys.exit(main(sys.argv[1], float(sys.argv[3]) if len(sys.argv) > 3 else 0.0))
    except Exception as error:  # noqa: BLE001 - whatever it was, the caller must hear of it
        at = error.__traceback__
        while at and at.tb_next:
            at = at.tb_next
        place = f"{Path(at.tb_frame.f_code.co_filename).name}:{at.tb_lineno}" if at else "?"
        print(json.dumps({"fault": f"{type(error).__name__} in {place}: {error}"}))
        sys.exit(1)
