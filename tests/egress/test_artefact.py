"""The encoded packet filter: made once by another process, kept, made anew when it is damaged."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from backends.boxes.layout import cache_dir
from backends.egress import artefact, ruleset
from backends.errors import Refused
from backends.kernel import netlink, nftables
from tests import support


@pytest.fixture
def cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return cache_dir() / artefact.FOLDER


def kept(cache: Path) -> Path:
    (one,) = cache.iterdir()
    return one


def never() -> bytes:
    raise AssertionError("it was encoded again")


def test_each_message_asks_for_an_answer_and_has_a_label() -> None:
    found = ruleset.encode()
    messages = list(netlink.messages(found.batch))
    assert [kind for kind, _, _ in (messages[0], messages[-1])] == [nftables.BATCH_BEGIN, nftables.BATCH_END]
    assert [sequence for _, sequence, _ in messages[1:-1]] == list(range(len(found.labels)))
    assert ruleset.encode() == found
    assert found.encoder.startswith("pyroute2 ")


def test_it_is_encoded_once_and_then_read(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = artefact.load()
    assert made.batch == ruleset.encode().batch
    assert made.labels == ruleset.encode().labels
    assert cache.stat().st_mode & 0o777 == 0o700
    monkeypatch.setattr(artefact, "_encode", never)
    assert artefact.load() == made


@pytest.mark.parametrize("damage", ["", "cut", "changed", "other"])
def test_a_damaged_one_is_made_again(cache: Path, damage: str) -> None:
    made = artefact.load()
    file = kept(cache)
    data = file.read_bytes()
    file.write_bytes(
        {"": b"", "cut": data[:-1], "changed": data[:-9] + b"X" + data[-8:], "other": b"a\nb\nc"}[damage]
    )
    assert artefact.load() == made
    assert file.read_bytes() == data


def test_another_version_of_the_code_makes_its_own(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    artefact.load()
    other = cache / "other.py"
    other.write_text("another version")
    monkeypatch.setattr(artefact, "_SOURCES", (artefact._SOURCES[0], other))
    artefact.load()
    assert len(list(cache.glob("*.nft"))) == 2


def test_several_at_once_leave_one_whole_file(cache: Path) -> None:
    made: list[artefact.Artefact] = []
    threads = [threading.Thread(target=lambda: made.append(artefact.load())) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(made) == 3 and len(set(made)) == 1
    assert kept(cache).suffix == ".nft"


@pytest.mark.parametrize(
    ("source", "why"),
    [
        ("raise SystemExit('no pyroute2 here')", "ended with status 1: no pyroute2 here"),
        ("print('nothing of use')", "answered with something else"),
    ],
)
def test_what_cannot_be_encoded_is_refused(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str, why: str
) -> None:
    encoder = tmp_path / "encoder.py"
    encoder.write_text(source)
    monkeypatch.setattr(artefact, "_SOURCES", (encoder,))
    with pytest.raises(Refused) as refused:
        artefact.load()
    assert refused.value.code == "egress-encoder"
    assert why in refused.value.why
    assert not cache.exists()


def test_a_keeper_reads_it_without_the_encoder_and_without_packages(cache: Path) -> None:
    script = (
        f"import sys; sys.path.insert(0, {str(support.ROOT)!r})\n"
        "from backends.egress import artefact\n"
        "print(len(artefact.load().batch), 'pyroute2' in sys.modules, 'subprocess' in sys.modules)"
    )
    answers = []
    for _ in range(2):
        env = {"XDG_CACHE_HOME": os.environ["XDG_CACHE_HOME"], "HOME": os.environ.get("HOME", "/")}
        done = subprocess.run(
            [sys.executable, "-I", "-S", "-c", script], capture_output=True, text=True, env=env, check=True
        )
        answers.append(done.stdout.split())
    size = str(len(ruleset.encode().batch))
    assert answers == [[size, "False", "True"], [size, "False", "False"]]


def test_a_launch_without_a_list_loads_nothing_of_it() -> None:
    script = (
        f"import sys; sys.path.insert(0, {str(support.ROOT)!r})\n"
        "import backends.tiers.process\n"
        "print(*(name for name in sys.modules if name.startswith(('backends.egress', 'pyroute2'))))"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == []
