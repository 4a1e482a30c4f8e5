"""From words to a handler: the parser made from the verb table."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import NoReturn

from app.cli.context import Context
from app.cli.table import GROUPS, JSON, VERBS, Param, Verb
from app.cli.terminated import on_sigterm
from backends.errors import UsageError


class _Parser(argparse.ArgumentParser):
    """Raises instead of exiting, so that usage errors take the one way of all errors."""

    def error(self, message: str) -> NoReturn:
        raise UsageError("the command line cannot be read", message, f"{self.prog} --help", code="usage")


def _add(parser: argparse.ArgumentParser, param: Param) -> None:
    if param.kind == "flag":
        parser.add_argument(*param.names, action="store_true", help=param.help, dest=param.dest)
    elif param.kind in ("rest", "after"):
        parser.add_argument(param.dest, nargs="*", metavar=param.metavar, help=param.help)
    elif param.kind == "positional":
        nargs = param.many or None
        parser.add_argument(param.dest, nargs=nargs, metavar=param.metavar, help=param.help)
    else:
        choices = param.choices or None
        parser.add_argument(
            *param.names,
            dest=param.dest,
            nargs=param.many or None,
            metavar=param.metavar or None,
            choices=choices,
            default=param.default,
            help=param.help,
        )


def parser_for(verb: Verb) -> argparse.ArgumentParser:
    """The parser of one verb; options may stand before or after the names."""
    parser = _Parser(
        prog=f"cloche {verb.name}", description=verb.summary, epilog=verb.notes, allow_abbrev=False
    )
    for param in (*verb.params, JSON):
        _add(parser, param)
    return parser


def overview() -> str:
    """What ``cloche --help`` prints."""
    lines = ["usage: cloche [VERB] ...", "", "Without a verb the workbench opens.", ""]
    width = max(len(verb.name) for verb in VERBS) + 2
    for group in GROUPS:
        lines.append(group)
        lines += [f"  {verb.name:<{width}}{verb.summary}" for verb in VERBS if verb.group == group]
        lines.append("")
    lines.append(
        "cloche VERB --help tells more; every verb takes --json. Exit codes: 0 done, 1 a check failed,"
    )
    lines.append(
        "2 usage, 3 refused, 4 no such box, 5 busy or conflict, 124 wall limit, else the command's own."
    )
    return "\n".join(lines)


def choose(words: Sequence[str]) -> tuple[Verb, list[str]]:
    """The verb that ``words`` begin with, and what is left; ``UsageError`` naming the nearest verb."""
    for verb in VERBS:
        if tuple(words[: len(verb.words)]) == verb.words:
            return verb, list(words[len(verb.words) :])
    import difflib

    known = [verb.name for verb in VERBS]
    said = " ".join(words[:2]) if words[0] in {v.words[0] for v in VERBS} else words[0]
    near = difflib.get_close_matches(said, known, 1)
    why = f"did you mean {near[0]}?" if near else "there is no such verb"
    inside = [verb.name for verb in VERBS if verb.words[0] == words[0]]
    if inside:
        why = "it is one of " + ", ".join(inside)
    raise UsageError(f"cloche {said}: not a verb", why, "cloche --help", code="usage")


def dispatch(words: Sequence[str]) -> int:
    """Run the command line and return its exit code."""
    if not words:
        from app.cli.start import workbench

        return workbench()
    if words[0] in ("-h", "--help", "help"):
        sys.stdout.write(overview() + "\n")
        return 0
    if words[0] in ("-V", "--version"):
        from importlib.metadata import version

        sys.stdout.write(f"cloche {version('cloche')}\n")
        return 0
    verb, left = choose(words)
    command: list[str] = []
    kinds = {param.kind for param in verb.params}
    if "--" in left and kinds & {"rest", "after"}:
        at = left.index("--")
        left, command = left[:at], left[at + 1 :]
    args = parser_for(verb).parse_args(left)
    if "after" in kinds and args.command:
        raise UsageError(
            f"cloche {verb.name} cannot be read",
            f"{args.command[0]!r} is too much",
            f"a command comes after two hyphens: cloche {verb.name} NAME -- CMD...",
            code="usage",
        )
    if command:
        args.command = command
    module, _, function = verb.handler.partition(":")
    handler = getattr(import_module(f"app.cli.{module}"), function)
    # A creation that is told to end takes back what it made, as after an interrupt.
    on_sigterm()
    code = handler(Context(verb, as_json=args.json), args)
    sys.stdout.flush()
    return int(code or 0)
