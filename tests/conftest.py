"""Every test gets folders of its own, and a test that leaves a box behind has failed."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Callable, Generator, Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple

import pytest

from backends.host import reporting
from backends.keeper import start
from backends.kernel import cgroups
from backends.snapshots_host import HostReport
from backends.verbs import asking
from tests import support
from tests.forking import Forks

NO_SKIP = os.environ.get("CLOCHE_NO_SKIP") == "1"
REAL_ROOMS = {"boundary", "boxes", "cli", "demo", "doctor", "host", "keeper", "kernel", "trees"}
# What depends on no privilege of who runs it: once is enough.
ANYBODYS = {
    "cli/test_terminal",
    "test_acknowledging",
    "test_allow",
    "test_apart",
    "test_bundle",
    "test_bundles",
    "test_collecting",
    "test_commands_doc",
    "test_comparing",
    "test_confirm",
    "test_egress_parts",
    "test_evidence",
    "test_explained",
    "test_flood",
    "test_host_git",
    "test_host_parts",
    "test_ignore",
    "test_json",
    "test_lifecycle",
    "test_listing",
    "test_loop",
    "test_matrix",
    "test_names",
    "test_newcomer",
    "test_next_steps",
    "test_outputfilter",
    "test_parts",
    "test_proxy",
    "test_proxy_bounds",
    "test_proxyhead",
    "test_relay_floods",
    "test_relay_http",
    "test_relay_names",
    "test_relay_net",
    "test_relay_tls",
    "test_relocation",
    "test_resolver",
    "test_resolver_clients",
    "test_resolver_lookup",
    "test_resolver_messages",
    "test_resolver_tcp",
    "test_reviewing",
    "test_sample",
    "test_seccomp",
    "test_store",
    "test_usage",
    "test_uses",
    "test_warnings_of_results",
}
# Of the workbench, what drives it against real boxes from beginning to end.
WORKBENCH = {"test_flows"}
# What is about boxes, not about how a keeper or a command starts; and what of these rooms is about that.
WARM = {"boxes", "cli", "demo", "doctor", "gate", "review", "trees", "workbench"}
WARM |= {
    f"keeper/test_{name}" for name in ("gate", "limits_told", "peers", "run", "terminal", "typing", "unseen")
}
COLD = {"cli/test_first_command", "cli/test_slice"}
# What the caller's shell, or a test runner without a terminal, would decide for the commands under test.
INHERITED = ("NO_COLOR", "COLUMNS", "LINES", "GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE")
# A role that this run does not have is met by the other run of `make test`, which has it.
OTHER_ROLE = (
    ("needs root", "as root")
    if os.geteuid() != 0
    else ("needs an unprivileged user", "as an unprivileged user")
)


class Home(NamedTuple):
    """The folders of one test; short paths, because a socket's holds 107 bytes at most (unix(7))."""

    root: Path
    state: Path
    config: Path
    cache: Path
    runtime: Path
    home: Path


def pytest_configure() -> None:
    """Let interrupts interrupt: whatever a shell starts in the background ignores SIGINT, and so would every
    command under test."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what runs again as an unprivileged user: the rooms that meet the real kernel, and every attack."""
    for item in items:
        room = room_of(item)
        if not room or {item.path.stem, f"{room}/{item.path.stem}"} & ANYBODYS:
            continue
        flows = room == "workbench" and item.path.stem in WORKBENCH
        attack = item.get_closest_marker("boundary") is not None
        if attack or (room in REAL_ROOMS and not is_plain_twin(item)) or flows:
            item.add_marker("again")


def is_cold(request: pytest.FixtureRequest) -> bool:
    """Whether a test has to begin as a user does on a host that runs no box: with nothing loaded."""
    room = room_of(request.node)
    name = f"{room}/{request.node.path.stem}"
    return name in COLD or not {room, name} & WARM


def is_plain_twin(item: pytest.Item) -> bool:
    """Whether a test is, of two for the providers of a tree, the one with a checkout: a folder of plain files
    is the same to anybody, while who mounts an overlay decides how."""
    spec = getattr(item, "callspec", None)
    return spec is not None and spec.params.get("provider", spec.params.get("repo")) == "checkout"


def room_of(item: pytest.Item) -> str:
    """The folder of ``tests`` that a test lies in; empty for a test of elsewhere."""
    tests = support.ROOT / "tests"
    return item.path.relative_to(tests).parts[0] if item.path.is_relative_to(tests) else ""


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """With CLOCHE_NO_SKIP=1 a skipped test fails: a boundary that was not tried is not a boundary."""
    report = yield
    if NO_SKIP and report.skipped and not hasattr(report, "wasxfail"):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        if not any(words in reason for words in OTHER_ROLE):
            report.outcome = "failed"
            report.longrepr = f"no test may be skipped in this run: {item.nodeid}: {reason}"
    return report


@pytest.fixture(scope="session")
def ready() -> Iterator[Path]:
    """Where a zygote of this worker listens: loading one anew was a third of what starting a box cost."""
    root = Path(tempfile.mkdtemp(prefix="cl-z-", dir="/tmp"))
    yield root
    shutil.rmtree(root)  # by which it ends


def nobodys() -> bool:
    """Whether the zygote is no child of ours any more."""
    start._collect()
    return not start._started


def share_zygote(ready: Path, runtime: Path) -> None:
    """Let a test find the zygote of ``ready`` in a folder of its own, by links to its socket and lock. A test
    of other surroundings starts another, and one whose zygote has ended a new one, as the product does."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_RUNTIME_DIR", str(ready))
        found = start.warm()
        support.wait_until(nobodys, "what started the zygote has ended")
    if found is not None:
        own = runtime / "cloche"
        own.mkdir(mode=0o700)
        try:
            for path in (found, found.with_suffix(".lock")):
                os.link(path, own / path.name)
        except FileNotFoundError:  # it ends just now, since the program has changed or nobody asked for long
            (own / found.name).unlink(missing_ok=True)


@pytest.fixture(autouse=True)
def home(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Home]:
    """Own XDG folders and HOME; afterwards whatever still lives in them is ended and noted as a leftover."""
    root = Path(tempfile.mkdtemp(prefix="cl-", dir="/tmp"))
    made = Home(root, root / "s", root / "c", root / "k", root / "r", root / "h")
    for path in made[1:]:
        path.mkdir(mode=0o700)
    monkeypatch.setenv("XDG_STATE_HOME", str(made.state))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(made.config))
    monkeypatch.setenv("XDG_CACHE_HOME", str(made.cache))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(made.runtime))
    monkeypatch.setenv("HOME", str(made.home))
    monkeypatch.setenv("CLOCHE_LINGER", "60")  # a test that does not get its turn finds its keeper still
    monkeypatch.setenv("PYTHONPATH", str(support.ROOT))
    monkeypatch.setattr(asking, "LIMIT", 5.0)  # a keeper beside other tests is not slow
    for name in INHERITED:
        monkeypatch.delenv(name, raising=False)
    if not is_cold(request):
        share_zygote(request.getfixturevalue("ready"), made.runtime)
    yield made
    left = end_boxes(made.state)
    support.wait_until(lambda: not probing(made.runtime), "probes of a host that were begun have ended")
    if points := support.mounts_below(root):
        left.append(f"mounts {points}")
    else:
        remove(root)
    if left:
        pytest.fail("left behind: " + "; ".join(left), pytrace=False)


def probing(runtime: Path) -> list[Path]:
    """Folders of probes whose process lives: a workbench that a test left may have begun them."""
    found = []
    for folder in runtime.glob("cloche/probe-*-*-*"):
        _, pid, start, _ = folder.name.split("-", 3)
        if support.is_alive({"pid": int(pid), "start": int(start)}):
            found.append(folder)
    return found


def end_boxes(state: Path) -> list[str]:
    """Ask every keeper below ``state`` to end; what does not go is killed and returned as text."""
    left = []
    for box, idents in support.live_records(state):
        for ident in idents[:1]:
            if support.is_alive(ident):
                with contextlib.suppress(ProcessLookupError):  # it may end by itself just now
                    os.kill(ident["pid"], signal.SIGTERM)
        try:
            support.wait_until(partial(all_gone, idents), "the box has ended", timeout=40)
        except AssertionError:
            left.append(f"processes of box {box.name}: {idents}")
            for ident in filter(support.is_alive, idents):
                os.kill(ident["pid"], signal.SIGKILL)
    return left


def all_gone(idents: tuple[dict[str, int], ...]) -> bool:
    return not any(map(support.is_alive, idents))


def remove(root: Path) -> None:
    """Remove a test's folder although a box, or the kernel for it, left folders without permission in it."""
    os.chmod(root, 0o700)
    _empty_store(root / "s" / "cloche" / ".podman")
    for folder, names, _ in os.walk(root, followlinks=False):
        for name in names:
            path = os.path.join(folder, name)
            with contextlib.suppress(OSError):  # too long a path for a name; it has no mode in the way
                if not os.path.islink(path):
                    os.chmod(path, 0o700)
    shutil.rmtree(root)


def _empty_store(store: Path) -> None:
    """An image's files belong to subordinate ids, whose owner is root only of a namespace with them."""
    if os.geteuid() and store.exists():
        from backends.container import podman

        subprocess.run([*podman.launcher(), "/bin/rm", "-rf", str(store)], check=True)


@pytest.fixture(scope="session")
def answer() -> Iterator[tuple[HostReport, Path]]:
    """What one real probe of this host reports, and the file that it was kept in."""
    root = Path(tempfile.mkdtemp(prefix="cl-", dir="/tmp"))
    with pytest.MonkeyPatch.context() as patch:
        for name in ("STATE", "CACHE", "CONFIG", "RUNTIME"):
            folder = root / ("r" if name == "RUNTIME" else name.lower())  # Podman takes no long path there
            folder.mkdir(mode=0o700)
            patch.setenv("XDG_RUNTIME_DIR" if name == "RUNTIME" else f"XDG_{name}_HOME", str(folder))
        patch.delenv("CLOCHE_INJECT", raising=False)
        report = reporting.report(fresh=True)
        left = [one for one in os.listdir(root / "r" / "cloche") if not one.startswith("podman-")]
    yield report, root / "state" / "cloche" / "host.json"
    _empty_store(root / "state" / "cloche" / ".podman")
    shutil.rmtree(root)
    assert left == [], "a probe leaves nothing in the folder of sockets"


@pytest.fixture
def kept(answer: tuple[HostReport, Path]) -> Path:
    """The kept answer, where this test's Cloche finds it: it need not be found again for every workbench."""
    own = Path(os.environ["XDG_STATE_HOME"]) / "cloche" / "host.json"
    own.parent.mkdir(mode=0o700, exist_ok=True)
    shutil.copyfile(answer[1], own)
    return own


@pytest.fixture
def tmp_path(home: Home) -> Path:
    """pytest's folder of that name, but short enough for the path of a socket."""
    path = home.root / "t"
    path.mkdir()
    return path


@pytest.fixture
def repo(home: Home) -> Path:
    """A small real repository on branch ``main``."""
    return support.make_repo(home.root / "repo")


@pytest.fixture
def big_repo(home: Home) -> Path:
    """A repository of 2,000 files."""
    return support.make_big_repo(home.root / "big", 2000)


@pytest.fixture(scope="session")
def forks() -> Iterator[Forks]:
    """What commands of this worker are forked from."""
    with Forks() as made:
        yield made


@pytest.fixture
def cli(request: pytest.FixtureRequest, repo: Path) -> Callable[..., support.Done]:
    """Runs ``cloche ARGS`` in ``repo`` (or in ``cwd=``) and returns exit code, output and notes."""
    shared: Forks | None = None if is_cold(request) else request.getfixturevalue("forks")

    def call(*args: str, cwd: Path | None = None, stdin: bytes = b"", timeout: float = 60.0) -> support.Done:
        if shared is not None and shared.alike():
            return shared.run(args, cwd=cwd or repo, stdin=stdin, timeout=timeout)
        return support.run(support.cloche_argv(*args), cwd=cwd or repo, stdin=stdin, timeout=timeout)

    return call


def project_refs() -> list[str]:
    """Refs that a test made in the project's own repository instead of one of its own."""
    done = subprocess.run(
        ["git", "-c", f"safe.directory={support.ROOT}", "for-each-ref", "--format=%(refname)", "refs/cloche"],
        cwd=support.ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout.split() if done.returncode == 0 else []


def end_killed_probes() -> None:
    """Take away the groups of probes whose workbench a test killed: a later box would, after ten minutes.

    Those of a process that lives are another run's, and may be about to be entered.
    """
    for path in box_groups() - _groups_before:
        name = Path(path).name
        if name.startswith("cloche-probe-"):
            pid, start = map(int, name.split("-")[2:4])
            if not support.is_alive({"pid": pid, "start": start}):
                cgroups.remove((path,))


def box_groups() -> set[str]:
    """Control groups of boxes that hold no process; a live box's is not empty."""
    found = set()
    for folder, names, _ in os.walk("/sys/fs/cgroup"):
        for name in [name for name in names if name.startswith("cloche-")]:
            path = os.path.join(folder, name)
            try:
                if not Path(path, "cgroup.procs").read_text():
                    found.add(path)
            except OSError:
                continue  # removed while we looked
    return found


def lasting_groups() -> set[str]:
    """Control groups since the beginning that stay without a process.

    Beside another run's boxes there is always one that is about to be entered, or that was just left; but
    never the same one for long.
    """
    left = box_groups() - _groups_before

    def none() -> bool:
        left.intersection_update(box_groups())
        return not left

    with contextlib.suppress(AssertionError):
        support.wait_until(none, "no control group is left", timeout=40)
    return left


_groups_before: set[str] = set()


def is_controller(config: pytest.Config) -> bool:
    """Whether this process is the whole run, not one of its workers."""
    return not hasattr(config, "workerinput")


def pytest_sessionstart(session: pytest.Session) -> None:
    if is_controller(session.config):
        _groups_before.update(box_groups())


def pytest_sessionfinish(session: pytest.Session) -> None:
    """A run that leaves a control group, or wrote to the project's own repository, has failed."""
    if not is_controller(session.config):
        return
    left = [f"ref {name} in the project's own repository" for name in project_refs()]
    end_killed_probes()
    left += [f"control group {path}" for path in sorted(lasting_groups())]
    if left:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
        print("\nleft behind: " + ", ".join(left))
