"""A series of mails, each applied by a real ``git am``: same trees, messages and authors, or a refusal."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from backends.errors import Refused
from backends.gate.commits import intake, mail, series
from backends.gate.commits.series import Patch
from backends.gate.commits.values import Commit, Identity
from backends.trees.git import Git
from tests import support
from tests.gate.world import World

AUTHOR = {"GIT_AUTHOR_NAME": "An Agent", "GIT_AUTHOR_EMAIL": "agent@inside.example"}
FIELDS = "--format=%T%n%an%n%ae%n%ad%n%B%x00"


def git(where: Path, *args: str | bytes, stdin: bytes = b"", env: dict[str, str] | None = None) -> bytes:
    base = {**os.environ, **support.GIT_ENV, **(env or {})}
    return subprocess.run(
        ["git", *args], cwd=where, input=stdin, env=base, check=True, capture_output=True
    ).stdout


class Agent:
    """A clone of the world's repository in which commits are made, as an agent would in a box."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.place = world.repo.parent / "agent"
        git(world.repo.parent, "clone", "-q", str(world.repo), str(self.place))
        self.base = git(self.place, "rev-parse", "HEAD").decode().strip()

    def commit(self, message: bytes, files: dict[bytes, bytes] | None = None, **env: str) -> str:
        for name, content in (files or {}).items():
            path = os.path.join(os.fsencode(self.place), name)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            Path(os.fsdecode(path)).write_bytes(content)
        git(self.place, "-c", "core.autocrlf=false", "add", "-A")
        args = ("commit", "-q", "--allow-empty", "--allow-empty-message", "--cleanup=verbatim", "-F", "-")
        git(self.place, *args, stdin=message, env={**AUTHOR, **env})
        return git(self.place, "rev-parse", "HEAD").decode().strip()

    def commits(self) -> tuple[Commit, ...]:
        head = git(self.place, "rev-parse", "HEAD").decode().strip()
        return intake.read(Git(self.place / ".git"), head, self.base)

    def series(self) -> tuple[Patch, ...]:
        return series.make(Git(self.place / ".git"), self.world.paths.root, self.base, self.commits(), "box")

    def refused(self) -> str:
        with pytest.raises(Refused) as caught:
            self.series()
        assert list(self.world.paths.root.glob("series-*")) == []
        assert caught.value.code == "series"
        return caught.value.why

    def applied(self) -> list[Patch]:
        """Apply the series in a fresh clone and compare what it became with what it was made of."""
        made = list(self.series())
        out = self.world.repo.parent / f"mails-{len(list(self.world.repo.parent.iterdir()))}"
        out.mkdir()
        for one in made:
            (out / one.name).write_bytes(one.text)
        fresh = out / "fresh"
        git(out, "clone", "-q", str(self.world.repo), str(fresh))
        git(fresh, "am", "-q", *sorted(str(path) for path in out.glob("*.patch")))
        span = f"{self.base}..HEAD"
        log = ("log", "--date=raw", FIELDS, span)
        assert git(fresh, *log) == git(self.place, *log)
        raw = [
            git(where, "cat-file", "commit", "HEAD").split(b"\ncommitter")[0].split(b"\nauthor")[1]
            for where in (fresh, self.place)
        ]
        assert raw[0] == raw[1]
        return made


@pytest.fixture
def agent(world: World) -> Agent:
    return Agent(world)


NAMES = (b"-rf", b"a b", b"new\nline", b"tab\there", b'quo"te', b"back\\slash", b"\xff", b"x" * 200, b"d/e/f")
TEXTS = (b"crlf\r\n", b"lone\rcr\n", b"form\x0cfeed\n", "u\u2028v\n".encode(), b"latin \xe9\n", b"no newline",
         b"", b"From me to you\n", b"---\n", b"nul\0\n", b"a" * 5000 + b"\n", b"trail \t \n")  # fmt: skip


def test_odd_bytes_names_modes_renames_and_binaries_come_back(agent: Agent) -> None:
    agent.commit(b"Add names\n", {name: b"name %d\n" % n for n, name in enumerate(NAMES)})
    agent.commit(b"Add texts\n", {b"t%d" % n: text for n, text in enumerate(TEXTS)})
    agent.commit(b"Change texts\n", {b"t%d" % n: text + b"more\r\n" for n, text in enumerate(TEXTS)})
    agent.commit(b"Add binary\n", {b"bin": bytes(range(256)) * 40})
    agent.commit(b"Change binary\n", {b"bin": bytes(range(255, -1, -1)) * 40})
    (agent.place / "README.md").rename(agent.place / "moved.md")
    (agent.place / "moved.md").chmod(0o755)
    (agent.place / "run.sh").unlink()
    (agent.place / "run.sh").symlink_to("moved.md")
    agent.commit(b"Move, link and make executable\n")
    (agent.place / "bin").unlink()
    agent.commit(b"A folder for a file\n", {b"bin/inner": b"x\n"})
    agent.applied()


MESSAGES = (
    "plain\n",
    "subject\n\nbody\n",
    "subject\n\nFrom: somebody <else@x>\n\nnot a header\n",
    "subject\n\nSubject: another\nDate: never\n",
    "subject\n\n>From here\nFrom there\n",
    "subject\n\nSigned-off-by: A <a@x>\nChange-Id: forged\n",
    "ünïcode süßject that is longer than what fits one encoded word of a header, by far éééé\n\nbödy\n",
    "=?UTF-8?q?not_decoded?=\n",
    "subject\n\n  indented\n\ttabbed\n",
    "a" * 300 + "\n",
    "",
)


@pytest.mark.parametrize("message", MESSAGES)
def test_messages_come_back(agent: Agent, message: str) -> None:
    agent.commit(message.encode(), {b"new": b"x\n"})
    agent.applied()


PEOPLE = (
    ("A B", "a@x"),
    ('Q "quoted" (c), back\\slash', "a@x"),
    ("Jürgen Ö", "jürgen@x"),
    ("漢字", "a@x"),
    ("A B", "no address"),
    ("=?UTF-8?q?x?=", "a@x"),
)


@pytest.mark.parametrize(("name", "email"), PEOPLE)
@pytest.mark.parametrize("when", ["@1700000000 +0000", "@100000000 -0930", "@4000000000 +1400"])
def test_authors_and_their_times_come_back(agent: Agent, name: str, email: str, when: str) -> None:
    agent.commit(b"x\n", {b"new": b"x\n"}, GIT_AUTHOR_NAME=name, GIT_AUTHOR_EMAIL=email, GIT_AUTHOR_DATE=when)
    agent.applied()


@pytest.mark.parametrize(
    ("name", "email", "when"),
    [("A", "a@x", "@1 -0930"), ("A", "a@x", "@4102444800 +0000"), ("a@b", "c@d", "@1700000000 +0000")],
)
def test_an_author_that_no_mail_carries_is_refused(agent: Agent, name: str, email: str, when: str) -> None:
    """Git reads no date of a mail before 1970 or after 2099, and the first word with an @ as the address."""
    agent.commit(b"x\n", {b"new": b"x\n"}, GIT_AUTHOR_NAME=name, GIT_AUTHOR_EMAIL=email, GIT_AUTHOR_DATE=when)
    assert "its author" in agent.refused()


LOST = {
    b"subject\nsecond line of it\n": "a mail changes its message",
    b"[PATCH] subject\n": "a mail changes its message",
    b"subject\n\n\n\nbody\n": "a mail changes its message",
    b"subject \n": "a mail changes its message",
    b"subject\n\nbody": "a mail changes its message",
    b"subject\n\nabove\n---\nbelow\n": "a mail changes its message",
    b"subject\n\ndiff --git a/x b/x\n": "a mail changes",
}


@pytest.mark.parametrize("message", LOST)
def test_a_message_that_no_mail_carries_is_refused_and_named(agent: Agent, message: bytes) -> None:
    agent.commit(b"good\n", {b"good": b"x\n"})
    bad = agent.commit(message, {b"new": b"x\n"})
    said = agent.refused()
    assert bad[:12] in said and LOST[message] in said


def test_bytes_that_are_not_utf8_are_refused_and_named(agent: Agent) -> None:
    made = agent.commit(b"cafe\n", {b"x": b"x\n"})
    for old, new, what in ((b"cafe", b"caf\xe9", "message"), (b"An Agent", b"\xc1gent", "author")):
        git(agent.place, "reset", "-q", "--hard", made)
        text = git(agent.place, "cat-file", "commit", "HEAD").replace(old, new)
        oid = git(agent.place, "hash-object", "-t", "commit", "-w", "--stdin", stdin=text).decode().strip()
        git(agent.place, "reset", "-q", "--hard", oid)
        said = agent.refused()
        assert oid[:12] in said and f"its {what} is not UTF-8, which git am would change" in said


def test_merges_empty_commits_and_other_encodings_are_refused_and_named(agent: Agent) -> None:
    agent.commit(b"nothing\n")
    assert "it changes no file" in agent.refused()
    git(agent.place, "reset", "-q", "--hard", agent.base)
    agent.commit(b"left\n", {b"left": b"x\n"})
    git(agent.place, "branch", "side")
    git(agent.place, "reset", "-q", "--hard", agent.base)
    agent.commit(b"right\n", {b"right": b"x\n"})
    git(agent.place, "merge", "-q", "--no-edit", "side", env=AUTHOR)
    assert "it is a merge" in agent.refused() or "does not follow" in agent.refused()
    git(agent.place, "reset", "-q", "--hard", agent.base)
    git(agent.place, "config", "i18n.commitEncoding", "ISO-8859-1")
    agent.commit(b"caf\xe9\n", {b"x": b"x\n"})
    assert "says that it is in ISO-8859-1" in agent.refused()


def test_files_are_named_by_harmless_words(agent: Agent) -> None:
    def named(subject: bytes) -> str:
        who = Identity(b"A", b"a@x", 1, b"+0000")
        return mail.file_name(7, Commit("1" * 40, "2" * 40, (), who, who, "", subject))

    assert named(b"Fix: the thing\n\nbody") == "0007-Fix-the-thing.patch"
    assert named(b"../../etc/passwd") == "0007-etc-passwd.patch"
    assert named(b"\xff\x1b[2J") == "0007-2J.patch"
    assert named(b"") == named(b"...") == "0007-commit.patch"
    assert len(named(b"x" * 1000)) < 70


@settings(
    max_examples=30,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    body=st.text(max_size=60).map(lambda text: text.encode("utf-8", "replace").replace(b"\0", b"")),
    content=st.binary(max_size=80),
)
def test_whatever_is_handed_out_comes_back(agent: Agent, body: bytes, content: bytes) -> None:
    git(agent.place, "reset", "-q", "--hard", agent.base)
    git(agent.place, "clean", "-qfdx")
    agent.commit(b"subject\n\n" + body + b"\n", {b"new": content + b"."})
    try:
        agent.series()
    except Refused as error:
        assert error.code == "series"
    else:
        agent.applied()


@given(st.binary(max_size=400))
def test_quoted_printable_comes_back_and_begins_no_mail(data: bytes) -> None:
    import quopri

    text = mail.quoted_printable(data)
    assert quopri.decodestring(text) == data
    assert all(len(line) <= 78 and not line.startswith(b"From ") for line in text.split(b"\n"))
    assert text.isascii() and b"\r" not in text and b"\0" not in text
