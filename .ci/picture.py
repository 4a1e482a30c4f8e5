"""Writes docs/workbench.svg: the workbench on the demonstration, drawn without a terminal (make picture)."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SIZE = (120, 40)
ENTRY = "import sys; from app.cli import main; sys.exit(main())"


def plain_font(svg: str) -> str:
    """The picture without fonts from elsewhere: whoever looks at it fetches nothing."""
    svg = re.sub(r"@font-face \{.*?\}", "", svg, flags=re.S)
    return svg.replace("Fira Code", "DejaVu Sans Mono")


async def draw(seconds: float) -> str:
    """What the workbench shows after the agents had ``seconds``."""
    from app.workbench import Workbench

    app = Workbench()
    async with app.run_test(size=SIZE) as pilot:
        await asyncio.sleep(seconds)
        for presses in (2, 2):  # past the panes' diffs, which are read when they are first shown, and back
            await pilot.press(*"c" * presses)
            await asyncio.sleep(2.0)
        return app.export_screenshot(title="cloche")


def main() -> int:
    out = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "docs" / "workbench.svg"
    cloche = [sys.executable, "-P", "-c", ENTRY]
    with tempfile.TemporaryDirectory(prefix="cp-", dir="/tmp") as scratch:
        for name in ("STATE", "CACHE", "CONFIG", "DATA"):
            os.environ[f"XDG_{name}_HOME"] = f"{scratch}/{name.lower()}"
        os.environ["XDG_RUNTIME_DIR"] = f"{scratch}/run"
        Path(scratch, "run").mkdir(mode=0o700)
        subprocess.run([*cloche, "demo", "--json"], check=True, cwd=scratch)
        try:
            from app.demo import sample

            os.chdir(sample.folder())
            out.write_text(plain_font(asyncio.run(draw(8.0))))
        finally:
            os.chdir(scratch)
            subprocess.run([*cloche, "demo", "--remove"], check=True, cwd=scratch)
    print(out)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
