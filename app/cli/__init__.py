"""The command line: every verb is one call of the engine, printed for people or as JSON.

``cloche run`` stands between a person and each of their commands, so its path imports neither argparse nor
rich: see :mod:`app.cli.run`.
"""

from __future__ import annotations

import os
import sys

from backends.errors import EXIT_BUSY, EXIT_USAGE, ClocheError


def _fill_closed_streams() -> None:
    """Open /dev/null where the caller closed a standard stream, or the next socket would take its number."""
    for fd, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            while (opened := os.open(os.devnull, os.O_RDWR)) < fd:
                continue
            if opened > fd:
                os.dup2(opened, fd)
                os.close(opened)
            setattr(sys, name, open(fd, "w" if fd else "r", closefd=False))  # noqa: SIM115 (for good)


def main(argv: list[str] | None = None) -> int:
    """Entry point of the console script; returns the exit code of the command line."""
    _fill_closed_streams()
    words = sys.argv[1:] if argv is None else argv
    as_json = "--json" in (words[: words.index("--")] if "--" in words else words)
    try:
        if words[:1] == ["run"]:
            from app.cli.run import quick

            return quick(words[1:])
        from app.cli.dispatch import Terminated, dispatch

        try:
            return dispatch(words)
        except Terminated:
            return 128 + 15
    except ClocheError as error:
        from app.cli.render import report

        report(error, as_json)
        return error.exit_code
    except BrokenPipeError:
        # The reader of our output left, as `| head` does: that is no failure of ours to explain.
        sys.stderr.close()
        return 128 + 13
    except KeyboardInterrupt:
        return 128 + 2
    except BlockingIOError as error:
        sys.stderr.write(f"cloche: the output does not accept more: {error}\n")
        return EXIT_BUSY


__all__ = ["EXIT_USAGE", "main"]
