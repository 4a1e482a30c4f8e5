"""The command line: every verb is one call of the engine, printed for people or as JSON.

``cloche run`` stands between a person and each of their commands, so its path imports neither argparse nor
rich: see :mod:`app.cli.run`.
"""

from __future__ import annotations

import gc
import os
import sys
from typing import NoReturn

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
    """The exit code of the command line ``argv``; with the process's own (None) the process ends with it."""
    _fill_closed_streams()
    if argv is None:
        # Loading modules leaves no garbage, and looking for some is a tenth of a short command. What lasts
        # longer than a moment collects again: see there.
        gc.disable()
        _leave(_run(sys.argv[1:]))
    return _run(argv)


def _leave(code: int) -> NoReturn:
    """End without taking the interpreter apart, which costs 6 ms of every command."""
    for stream in (sys.stdout, sys.stderr):
        try:
            if not stream.closed:
                stream.flush()
        except BrokenPipeError:
            code = code or 128 + 13
        except OSError as error:
            code = code or 1
            os.write(2, f"cloche: the output could not be written: {error.strerror}\n".encode())
    os._exit(code)


def _run(words: list[str]) -> int:
    as_json = "--json" in (words[: words.index("--")] if "--" in words else words)
    try:
        if os.environ.get("CLOCHE_INJECT"):
            _say_injected()
        if words[:1] == ["run"]:
            from app.cli.run import quick

            return quick(words[1:])
        from app.cli.terminated import Terminated

        try:
            if words[:1] == ["new"]:
                from app.cli import first

                if first.fits(words[1:]):
                    return first.quick(words[1:])
            from app.cli.dispatch import dispatch

            gc.enable()
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


def _say_injected() -> None:
    """Failures that were asked for are told of by every command: its answers are not this host's own."""
    from backends.evidence.visible import visible
    from backends.host import injections

    sys.stderr.write(visible(f"failures are injected: {', '.join(injections.asked())}") + "\n")


__all__ = ["EXIT_USAGE", "main"]
