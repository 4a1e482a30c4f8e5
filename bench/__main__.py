"""Run every measure in turn, several rounds, and print one table."""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from bench import repository, table
from bench.measure import cloche, painted, spawned, timed

HERE = Path(__file__).resolve().parent
TRUE = "/usr/bin/true"
ROWS = [
    table.Row("new, first box of a base", "git worktree add"),
    table.Row("new", "git worktree add"),
    table.Row("git worktree add", ""),
    table.Row("new to first command (both)", "git worktree add"),
    table.Row("run true, first command", "bwrap true"),
    table.Row("run true, second command", "bwrap true"),
    table.Row("bwrap true", "bare exec of true"),
    table.Row("bare exec of true", ""),
    table.Row("ls", "python -c pass"),
    table.Row("python -c pass", ""),
    table.Row("first paint of the workbench", "import textual.app"),
    table.Row("import textual.app", ""),
    table.Row("rm", "git worktree remove"),
    table.Row("git worktree remove", ""),
]


def main() -> int:
    parser = argparse.ArgumentParser(prog="make bench", description=__doc__)
    parser.add_argument("--rounds", type=int, default=15, help="samples of each measure")
    parser.add_argument("--boxes", type=int, default=8, help="boxes that are listed and drawn")
    options = parser.parse_args()
    cache = HERE / "results" / "source"
    cache.mkdir(parents=True, exist_ok=True)
    work = Path(tempfile.mkdtemp(prefix="cb-", dir="/tmp"))
    env = {**os.environ, "CLOCHE_LINGER": "30"}
    for name in ("STATE", "CACHE", "CONFIG", "DATA"):
        env[f"XDG_{name}_HOME"] = str(work / name.lower())
    (work / "run").mkdir(mode=0o700)
    env["XDG_RUNTIME_DIR"] = str(work / "run")
    env["PYTHONPATH"] = str(HERE.parent)
    try:
        subject = repository.subject(cache, work)
        samples = sample(subject.path, work, env, options.rounds, options.boxes)
    finally:
        end(work, env)
    saved = table.write(HERE / "results", subject.text, samples)
    print(f"{subject.text}; {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}; milliseconds")
    print(f"raw samples: {saved}")
    print("\n".join(table.lines(ROWS, samples)))
    return 0


def sample(repo: Path, work: Path, env: dict[str, str], rounds: int, boxes: int) -> dict[str, list[float]]:
    """Every measure once a round, so that a busy moment of the host falls on all of them."""
    samples: dict[str, list[float]] = {row.name: [] for row in ROWS}
    samples["new, first box of a base"].append(timed(cloche("new", "kept-0"), repo, env))
    for index in range(1, boxes):
        timed(cloche("new", f"kept-{index}"), repo, env)
    bwrap = shutil.which("bwrap")
    for index in range(rounds):
        box, tree = f"box-{index}", work / f"tree-{index}"
        new = timed(cloche("new", box), repo, env)
        first = timed(cloche("run", box, "--", "true"), repo, env)
        samples["new"].append(new)
        samples["run true, first command"].append(first)
        samples["new to first command (both)"].append(new + first)
        samples["run true, second command"].append(timed(cloche("run", box, "--", "true"), repo, env))
        samples["git worktree add"].append(
            timed(["git", "worktree", "add", "-q", "-b", f"tree-{index}", str(tree)], repo, env)
        )
        if bwrap:
            samples["bwrap true"].append(
                timed(
                    [bwrap, "--unshare-all", "--ro-bind", "/", "/", "--proc", "/proc", "--dev", "/dev", TRUE],
                    repo,
                    env,
                )
            )
        samples["bare exec of true"].append(spawned(TRUE))
        samples["ls"].append(timed(cloche("ls"), repo, env))
        samples["python -c pass"].append(timed([sys.executable, "-c", "pass"], repo, env))
        samples["first paint of the workbench"].append(painted(cloche(), repo, env, b"kept-0"))
        samples["import textual.app"].append(timed([sys.executable, "-c", "import textual.app"], repo, env))
        samples["rm"].append(timed(cloche("rm", "--force", box), repo, env))
        samples["git worktree remove"].append(
            timed(["git", "worktree", "remove", "--force", str(tree)], repo, env)
        )
    return samples


def end(work: Path, env: dict[str, str]) -> None:
    """Remove every box of this run, then its folders."""
    names = sorted(path.parent.name for path in work.glob("state/cloche/*/*/manifest.json"))
    if names:
        subprocess.run(
            cloche("rm", "--force", *names), cwd=work / "subject", env=env, capture_output=True, check=False
        )
    left = list(work.glob("state/cloche/*/*/manifest.json"))
    if left:
        print(f"boxes left in {work}: {[str(path.parent) for path in left]}")
        return
    shutil.rmtree(work)


if __name__ == "__main__":
    raise SystemExit(main())
