"""What everyday tools need works inside, or nobody would use the tier."""

from __future__ import annotations

import os
import select
import shutil
import time
from collections.abc import Iterator

import pytest

from backends.kernel import procfs, pty
from backends.trees import inert
from tests.boundary import harness
from tests.boundary.harness import Box

needs_node = pytest.mark.skipif(shutil.which("npm") is None, reason="npm is not installed")
needs_gcc = pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc is not installed")
needs_tmux = pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed")


@pytest.fixture(scope="module")
def workshop() -> Iterator[Box]:
    with harness.box(harness.policy(tmp=512 << 20), repo=True) as box:
        yield box


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_multiprocessing_with_locks_managers_and_shared_memory(workshop: Box, method: str) -> None:
    script = f"""
import multiprocessing as mp
from multiprocessing import shared_memory
def work(lock, shared, n):
    with lock:
        shared.append(n)
if __name__ == "__main__":
    mp.set_start_method({method!r})
    with mp.Manager() as manager:
        shared, lock = manager.list(), mp.Lock()
        jobs = [mp.Process(target=work, args=(lock, shared, n)) for n in range(4)]
        [job.start() for job in jobs]; [job.join() for job in jobs]
        block = shared_memory.SharedMemory(create=True, size=1 << 20); block.close(); block.unlink()
        print(sorted(shared))
"""
    (workshop.paths.tree / "mp.py").write_text(script)
    result = workshop.run(harness.PYTHON, "/work/mp.py")
    assert result.out == "[0, 1, 2, 3]\n", result.err


def test_asyncio_with_subprocesses_and_unix_servers(workshop: Box) -> None:
    result = workshop.python(
        """
import asyncio
async def main():
    async def serve(reader, writer):
        writer.write(await reader.readline()); writer.close()
    server = await asyncio.start_unix_server(serve, "/tmp/asyncio.sock")
    reader, writer = await asyncio.open_unix_connection("/tmp/asyncio.sock")
    writer.write(b"line\\n")
    print(await reader.readline())
    child = await asyncio.create_subprocess_exec("echo", "child", stdout=-1)
    print((await child.communicate())[0])
    server.close()
asyncio.run(main())
"""
    )
    assert result.out.split() == ["b'line\\n'", "b'child\\n'"], result.err


def test_sqlite_with_a_write_ahead_log(workshop: Box) -> None:
    result = workshop.python(
        """
import sqlite3
db = sqlite3.connect("/work/data.db")
print(db.execute("pragma journal_mode=wal").fetchone())
db.execute("create table t (x)"); db.execute("insert into t values (1)"); db.commit()
print(sqlite3.connect("/work/data.db").execute("select * from t").fetchall())
"""
    )
    assert result.out == "('wal',)\n[(1,)]\n", result.err


def test_own_terminals_by_openpty_and_by_script(workshop: Box) -> None:
    """P3, the other half: refused injections leave a box's own terminals alone."""
    result = workshop.python(
        """
import os, pty
master, slave = pty.openpty()
os.write(slave, b"through\\n")
print(os.read(master, 20), os.ttyname(slave).startswith("/dev/pts/"))
pid, fd = pty.fork()
if pid == 0:
    os.execv("/usr/bin/tty", ["tty"])
print(os.read(fd, 100).decode())
"""
    )
    assert "b'through\\r\\n' True" in result.out, result.err
    assert "/dev/pts/" in result.out.splitlines()[1]
    result = workshop.sh("script -qec 'stty size; tty' /dev/null </dev/null")
    assert "/dev/pts/" in result.out


@needs_tmux
def test_tmux_serves_a_window(workshop: Box) -> None:
    result = workshop.sh(
        "export TERM=xterm; tmux -S /tmp/t new-session -d -x 80 -y 24 'echo in-the-window > /tmp/w; sleep 5';"
        "for i in $(seq 1200); do [ -s /tmp/w ] && break; sleep 0.05; done; cat /tmp/w;"
        "tmux -S /tmp/t kill-server"
    )
    assert result.out == "in-the-window\n", result.err


def test_a_session_on_a_terminal_has_size_jobs_and_resize(workshop: Box) -> None:
    number, _, fds = workshop.start(
        ["/bin/bash", "--norc"], pty=(30, 100), env={"PS1": "box$ ", "TERM": "xterm"}
    )
    master = fds[1]

    def say(text: str, wanted: str) -> str:
        os.write(master, text.encode() + b"\n")
        out = ""
        deadline = time.monotonic() + 60
        while wanted not in out:
            assert time.monotonic() < deadline, out
            if select.select([master], [], [], 0.2)[0]:
                out += os.read(master, 4096).decode(errors="replace")
        return out

    say("stty size", "30 100")
    pty.set_size(master, 50, 132)
    say("stty size", "50 132")
    # Its controlling terminal is the one that it was given.
    say("[ /dev/$(ps -o tty= -p $$ | tr -d ' ') = $(tty) ] && echo sa''me", "same")
    os.write(master, b"sleep 1000\n")
    deadline = time.monotonic() + 60
    while not any("sleep 1000" in row.command for row in procfs.tree(procfs.scan(), workshop.live.init)):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    os.write(master, b"\x03")
    say("echo code $?", "code 130")
    os.write(master, b"exit 3\n")
    assert os.waitstatus_to_exitcode(workshop.wait(number)["status"]) == 3
    for fd in fds:
        os.close(fd)


@needs_gcc
def test_a_c_program_is_compiled_and_run(workshop: Box) -> None:
    result = workshop.sh(
        "printf '#include <stdio.h>\\n#include <pthread.h>\\nvoid *f(void *x) { return x; }\\n"
        'int main(void) { pthread_t t; pthread_create(&t, 0, f, 0); pthread_join(t, 0); puts("built"); }\''
        " > /work/a.c && gcc -pthread -o /work/a /work/a.c && /work/a"
    )
    assert result.out == "built\n", result.err


def test_git_commits_branches_and_reports_inside(workshop: Box) -> None:
    result = workshop.sh(
        "cd /work && git init -q -b main . && git config user.email a@b && git config user.name n &&"
        "echo 1 > f && git add f && git commit -qm one && git switch -qc other && echo 2 >> f &&"
        "git commit -qam two &&"
        "git rebase -q main && git log --oneline | wc -l && git status --short f && git gc -q && git fsck"
    )
    assert result.out.split()[0] == "2", result.err
    assert result.exit == 0
    assert (workshop.paths.repo / "refs").is_dir()
    assert (workshop.paths.tree / ".git" / "HEAD").read_bytes() == inert.FILES["HEAD"]


def test_a_virtual_environment_is_made_and_pip_runs_offline(workshop: Box) -> None:
    result = workshop.sh(
        f"{harness.PYTHON} -m venv /work/env && /work/env/bin/pip --version && mkdir -p /work/pkg &&"
        'printf \'from setuptools import setup\\nsetup(name="pkg", version="1", py_modules=["pkg"])\\n\''
        " > /work/pkg/setup.py && echo 'print(\"installed\")' > /work/pkg/pkg.py &&"
        "/work/env/bin/pip install -q --no-index --no-build-isolation --disable-pip-version-check /work/pkg;"
        "/work/env/bin/python -m pkg",
        timeout=120,
    )
    assert "pip " in result.out, result.err
    assert "installed" in result.out or "setuptools" in result.err or "wheel" in result.err


@needs_node
def test_node_lists_interfaces_spawns_children_and_serves(workshop: Box) -> None:
    (workshop.paths.tree / "n.js").write_text(
        """
const os = require('os'), cp = require('child_process'), http = require('http');
const { Worker } = require('worker_threads');
console.log(Object.keys(os.networkInterfaces()).join());
console.log(cp.execSync('echo spawned').toString().trim());
const worker = new Worker('require("worker_threads").parentPort.postMessage("worker")', { eval: true });
worker.on('message', (text) => {
  console.log(text);
  const server = http.createServer((_, answer) => answer.end('served')).listen(0, '127.0.0.1', () => {
    http.get({ port: server.address().port }, (answer) => {
      answer.on('data', (data) => console.log(data.toString()));
      answer.on('end', () => server.close());
    });
  });
});
"""
    )
    result = workshop.run("node", "/work/n.js")
    assert result.out.split() == ["lo", "spawned", "worker", "served"], result.err


@needs_node
def test_npm_installs_a_local_package_and_runs_its_scripts(workshop: Box) -> None:
    result = workshop.sh(
        "mkdir -p /work/dep /work/app && cd /work/dep &&"
        """ echo '{"name":"dep","version":"1.0.0","scripts":{"postinstall":"echo ran > ../../ran"}}'"""
        " > package.json && npm pack --silent >/dev/null && cd /work/app && npm init -y >/dev/null &&"
        " npm install --offline --no-audit --no-fund --foreground-scripts /work/dep/dep-1.0.0.tgz >/dev/null;"
        " cat ran; ls node_modules",
        timeout=120,
    )
    assert result.out.split() == ["ran", "dep"], result.err
    assert any("postinstall" in " ".join(argv) or "echo ran" in " ".join(argv) for argv in workshop.execs)


def test_a_hundred_parallel_pipelines_complete(workshop: Box) -> None:
    result = workshop.sh(
        "for i in $(seq 100); do (echo abc | gzip | gunzip | cat) & done | sort | uniq -c | tr -s ' '; wait"
    )
    assert result.out == " 100 abc\n", result.err


def test_temporary_folders_and_home_are_there_and_the_home_stays(workshop: Box) -> None:
    result = workshop.sh(
        "mktemp; mktemp -p /var/tmp; touch ~/.profile /run/x; echo $HOME; cd; pwd; python3 -c '"
        "import tempfile; print(tempfile.gettempdir())'"
    )
    assert result.out.splitlines()[2:] == ["/home/box", "/home/box", "/tmp"], result.err
    assert (workshop.paths.home / ".profile").exists()
