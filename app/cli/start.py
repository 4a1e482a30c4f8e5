"""The verbs that open a screen: the workbench, and the demonstration."""

from __future__ import annotations

import argparse

from app.cli.context import Context


def workbench() -> int:
    """``cloche`` alone. The workbench opens outside a repository too, with the boxes of all."""
    from app.workbench import main

    return int(main() or 0)


def demo(context: Context, args: argparse.Namespace) -> int:
    """``cloche demo``: the sample repository and its boxes."""
    from app.demo import main

    return main(remove=args.remove, text=args.text, tiers=args.tiers, as_json=context.json)
