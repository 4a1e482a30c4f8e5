"""The only module that starts Git: an empty environment, no configuration but the repository's own, no hooks.

Git works on objects here. It is never given a box's tree as work tree or current directory, because a
repository nested in such a tree can name programs that Git would run (filters, fsmonitor, external diffs).
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from backends.errors import ClocheError, Refused
from backends.record import NamedTuple

if TYPE_CHECKING:
    from subprocess import Popen

    Argument = str | bytes | Path

TIMEOUT = 120.0  # seconds; of one command on objects
SYSTEM_PATH = "/usr/local/bin:/usr/bin:/bin"

# git-config(1) values that repository configuration must not decide: each one starts a program, reads a
# file, or changes what a command prints.
OVERRIDES: tuple[str, ...] = (
    "core.hooksPath=/dev/null",
    "core.attributesFile=/dev/null",
    "core.excludesFile=/dev/null",
    "core.fsmonitor=false",
    "core.untrackedCache=false",
    "core.alternateRefsCommand=/bin/false",
    "core.sshCommand=/bin/false",
    "core.askPass=/bin/false",
    "core.editor=/bin/false",
    "core.pager=cat",
    "core.quotePath=true",
    "core.commentChar=#",
    "credential.helper=",
    "color.ui=false",
    "commit.gpgSign=false",
    "tag.gpgSign=false",
    "log.showSignature=false",
    "diff.orderFile=/dev/null",
    "diff.noprefix=false",
    "diff.mnemonicPrefix=false",
    "diff.suppressBlankEmpty=false",
    "merge.renormalize=false",
    "merge.directoryRenames=false",
    "submodule.recurse=false",
    "fetch.recurseSubmodules=false",
    "gc.auto=0",
    "maintenance.auto=false",
    "advice.detachedHead=false",
)

# git(1), "Environment Variables". Everything that is not here is unset.
ENVIRONMENT: Mapping[str, str] = {
    "LC_ALL": "C",
    "HOME": "/nonexistent",
    "XDG_CONFIG_HOME": "/nonexistent",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_SYSTEM": "/dev/null",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_ATTR_NOSYSTEM": "1",
    "GIT_NO_REPLACE_OBJECTS": "1",  # refs/replace would show another object than the pinned one
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_ASKPASS": "/bin/false",
    "SSH_ASKPASS": "/bin/false",
    "GIT_ALLOW_PROTOCOL": "",
    "GIT_PAGER": "cat",
    "GIT_EDITOR": "/bin/false",
    "GIT_LITERAL_PATHSPECS": "1",
}


class Bounds(NamedTuple):
    """What a command that reads a stranger's bytes may use; it is killed or fails beyond (setrlimit(2))."""

    cpu: int = 60  # seconds
    memory: int = 1 << 30  # bytes of its own memory, what it maps of files aside (RLIMIT_DATA)
    file: int = 1 << 30  # bytes of one file that it writes


class Output(NamedTuple):
    """What one command left: exit status (negative: killed by that signal) and its two streams."""

    status: int
    stdout: bytes
    stderr: bytes


def executable() -> str:
    """The path of ``git``, looked up in absolute folders of ``$PATH`` and the system's own.

    Raises ``Refused`` when there is none.
    """
    mine = [part for part in os.environ.get("PATH", "").split(":") if part.startswith("/")]
    for folder in (*mine, *SYSTEM_PATH.split(":")):  # shutil brings all its archive formats along
        path = os.path.join(folder, "git")
        if os.path.isfile(path) and os.access(path, os.X_OK):
            return path
    raise Refused(
        "Git cannot be started", "no program named git is installed", "apt-get install git", code="no-git"
    )


class Git:
    """Git on one repository's objects and references.

    ``git_dir`` is a git directory that the host's user owns: the source repository's, a quarantine, or a
    private repository that no box has run in yet. ``index`` names another index file. ``variables`` adds to
    the environment.
    """

    def __init__(
        self, git_dir: Path, *, index: Path | None = None, variables: Mapping[str, str] | None = None
    ) -> None:
        self.git_dir = git_dir
        self._index = index
        self._variables = dict(variables or {})

    def with_variables(self, variables: Mapping[str, str]) -> Git:
        """The same with more variables in the environment of its commands."""
        return Git(self.git_dir, index=self._index, variables={**self._variables, **variables})

    @property
    def objects(self) -> Path:
        """The object folder; of a linked worktree, the main repository's."""
        return common_dir(self.git_dir) / "objects"

    def environment(self) -> dict[str, str]:
        """The whole environment of a command."""
        program = executable()
        env = dict(ENVIRONMENT)
        env["PATH"] = f"{Path(program).parent}:{SYSTEM_PATH}"
        env["GIT_DIR"] = os.fspath(self.git_dir)
        if self._index is not None:
            env["GIT_INDEX_FILE"] = os.fspath(self._index)
        env.update(self._variables)
        return env

    def command(self, args: Iterable[Argument]) -> list[Argument]:
        """The argument list that runs ``git`` with ``args``."""
        line: list[Argument] = [executable(), "--no-pager"]
        for override in OVERRIDES:
            line += ("-c", override)
        line += args
        return line

    def start(
        self,
        *args: Argument,
        stdin: int | None = None,
        stdout: int | None = None,
        pass_fds: Sequence[int] = (),
    ) -> Popen[bytes]:
        """Start a command and return its process; ``None`` streams are pipes, stderr always is one."""
        import subprocess

        return subprocess.Popen(
            self.command(args),
            stdin=subprocess.PIPE if stdin is None else stdin,
            stdout=subprocess.PIPE if stdout is None else stdout,
            stderr=subprocess.PIPE,
            env=self.environment(),
            cwd="/",
            pass_fds=pass_fds,
        )

    def call(
        self,
        *args: Argument,
        input: bytes = b"",
        stdin: int | None = None,
        stdout: int | None = None,
        timeout: float = TIMEOUT,
        bounds: Bounds | None = None,
    ) -> Output:
        """Run a command to its end, whatever its exit status. ``ClocheError`` when it takes too long.

        ``bounds`` hold from before the command can have read any of ``input``.
        """
        import subprocess

        if stdin is None and not input:
            stdin = subprocess.DEVNULL
        with self.start(*args, stdin=stdin, stdout=stdout) as process:
            try:
                if bounds is not None:
                    _bind(process.pid, bounds)
                out, err = process.communicate(input or None, timeout=timeout)
            except subprocess.TimeoutExpired as error:
                process.kill()
                process.communicate()
                raise ClocheError(
                    f"git {printable(args)} did not end",
                    f"it was stopped after {timeout:.0f} seconds",
                    "look at the load and the disk of this host, then try again",
                    code="git-timeout",
                ) from error
            except BaseException:
                process.kill()
                raise
        return Output(process.returncode, out or b"", err or b"")

    def run(
        self,
        *args: Argument,
        input: bytes = b"",
        stdin: int | None = None,
        stdout: int | None = None,
        timeout: float = TIMEOUT,
        check: bool = True,
    ) -> bytes:
        """Run a command and return what it printed; with ``check``, a failure raises ``ClocheError``."""
        output = self.call(*args, input=input, stdin=stdin, stdout=stdout, timeout=timeout)
        if check and output.status != 0:
            raise failure(args, output)
        return output.stdout

    def line(self, *args: Argument) -> str:
        """The first line that a command printed, as text; failures raise ``ClocheError``."""
        return os.fsdecode(self.run(*args).split(b"\n", 1)[0])


def _bind(pid: int, bounds: Bounds) -> None:
    import resource

    for what, most in (
        (resource.RLIMIT_CPU, bounds.cpu),
        (resource.RLIMIT_DATA, bounds.memory),
        (resource.RLIMIT_FSIZE, bounds.file),
        (resource.RLIMIT_CORE, 0),
    ):
        resource.prlimit(pid, what, (most, most))


def printable(args: Iterable[Argument]) -> str:
    """Arguments as text for a message."""
    return " ".join(os.fsdecode(arg) for arg in args)


def failure(args: Sequence[Argument], output: Output) -> ClocheError:
    """The error for a command that failed, with the last line that Git said."""
    said = os.fsdecode(output.stderr).strip().splitlines()
    how = f"killed by signal {-output.status}" if output.status < 0 else f"exit status {output.status}"
    return ClocheError(
        f"git {printable(args[:2])} failed",
        said[-1] if said else how,
        "run git fsck in the source repository; if it is clean, report this with the words above",
        code="git-failed",
    )


def common_dir(git_dir: Path) -> Path:
    """The directory that linked worktrees share (``commondir`` of gitrepository-layout(5))."""
    try:
        shared = (git_dir / "commondir").read_bytes().rstrip(b"\n")
    except FileNotFoundError:
        return git_dir
    return Path(os.path.normpath(git_dir / os.fsdecode(shared)))
