"""``python -I -S .../backends/keeper/lookup_child.py SECONDS``: asks the host's resolver for the keeper.

getaddrinfo(3) waits as long as it likes and cannot be stopped, so each lookup is a process of its own, ended
by its alarm. Descriptor 0 is a SOCK_SEQPACKET socket to the keeper: ``ID NAME`` comes in, a JSON object for
each lookup goes out. When the keeper is gone the socket ends, and so does everything here. Nothing of a box
gets here but names that a rule of its policy admits.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys

MOST_ADDRESSES = 64  # of one answer
LONGEST = 512  # bytes of a request


def main(seconds: int) -> None:
    """Serve until the keeper closes its end."""
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # ended lookups need no wait(2)
    keeper = socket.socket(fileno=0)
    while True:
        request = keeper.recv(LONGEST)
        if not request:
            if os.getpgrp() == os.getpid():
                os.killpg(0, signal.SIGKILL)  # the lookups that run too
            return
        ident, _, name = request.partition(b" ")
        try:
            child = os.fork()
        except OSError:
            _send(keeper, ident, [], "again")
            continue
        if child == 0:
            signal.alarm(seconds)
            _send(keeper, ident, *look_up(name))
            os._exit(0)


def look_up(name: bytes) -> tuple[list[str], str]:
    """The addresses of ``name``; else ``again`` or ``none`` for a name that has none."""
    try:
        found = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
    except socket.gaierror as error:
        return [], "none" if error.errno in (socket.EAI_NONAME, socket.EAI_NODATA) else "again"
    except OSError:
        return [], "again"
    return list(dict.fromkeys(str(one[4][0]) for one in found))[:MOST_ADDRESSES], ""


def _send(keeper: socket.socket, ident: bytes, found: list[str], error: str) -> None:
    answer = {"id": int(ident), "addresses": found, "error": error}
    keeper.send(json.dumps(answer).encode())


if __name__ == "__main__":
    main(int(sys.argv[1]))
