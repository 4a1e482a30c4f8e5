"""What the adapter asks of ``msb`` and reads from it: by the real program, and by its recorded answers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backends.errors import Refused
from backends.microvm import msb, msb_answers, msb_guest, msb_store, msb_words
from backends.microvm.msb_words import Bind, Held, Machine
from backends.microvm.vmm import Observed
from tests.microvm.msb_recorder import FOLDER

MACHINE = Machine(
    name="cloche-launch-recorded",
    reference="localhost/none:1",
    memory=256 << 20,
    cpus=1,
    folders=(
        Bind("/RECORDED/launch/orders", msb_words.ORDERS, False),
        Bind("/RECORDED/launch/told", msb_words.TOLD, True, ("quota=1M",)),
    ),
    files=(Bind("/RECORDED/launch/file-0", "/etc/hosts", False),),
    tmpfs=(("/tmp", 8 << 20), ("/dev/shm", 8 << 20)),
    egress=("198.51.100.7", "10.0.0.0/8:8080", "[2001:db8::1]:443"),
    longest=None,
)


def recorded(name: str) -> dict[str, Any]:
    value: dict[str, Any] = json.loads((FOLDER / f"{name}.json").read_text())
    return value


def real(words: list[str]) -> msb_store.Answer:
    assert msb_store.find(), "the environment for tests has the wheel microsandbox"
    return msb_store.call(words)


# ---- words, parsed by the real program


def test_the_real_program_takes_the_words_of_a_boot_and_misses_only_the_image(tmp_path: Path) -> None:
    for one in ("orders", "told"):
        (tmp_path / one).mkdir()
    (tmp_path / "file").write_text("")
    asked = MACHINE._replace(
        folders=tuple(one._replace(source=str(tmp_path / Path(one.source).name)) for one in MACHINE.folders),
        files=(Bind(str(tmp_path / "file"), "/etc/hosts", False),),
        longest=60,
    )
    answer = real(msb_words.run(asked))
    assert answer.code == 1
    assert msb_answers.complaint(answer.said) == "image error: image not cached: localhost/none:1"


@pytest.mark.parametrize(
    "words",
    [
        msb_words.execute("none", 1, (1000, 1000), Held(64, 1024, 1 << 20, 60), terminal=False),
        msb_words.execute("none", 1, (1000, 1000), Held(None, None, None, None), terminal=True),
        msb_words.kill("none", 17),
        msb_words.pause("none"),
        msb_words.resume("none"),
        msb_words.inspect("none"),
        msb_words.logs("none"),
    ],
    ids=lambda words: words[0],
)
def test_the_real_program_takes_the_words_and_misses_only_the_guest(words: list[str]) -> None:
    answer = real(words)
    assert answer.code == 1
    assert msb_answers.complaint(answer.said) == "sandbox not found: none"


def test_the_real_program_forgets_what_is_not_there_in_silence() -> None:
    answer = real(msb_words.remove("none"))
    assert (answer.code, answer.out, answer.said) == (1, "", "")
    assert recorded("remove")["code"] == 0


def test_a_word_that_it_does_not_know_is_told_from_all_others() -> None:
    answer = real([*msb_words.inspect("none"), "--no-such-word"])
    assert answer.code == 2 == recorded("unknown-word")["code"]
    assert "unexpected argument '--no-such-word'" in answer.said


def test_the_recorded_boot_was_asked_with_the_words_of_today() -> None:
    now = msb_words.run(MACHINE)
    then = recorded("boot")["words"]
    place = now.index("localhost/none:1")
    assert now[:place] == list(then[:place])
    assert now[place + 1 :] == list(then[place + 1 :])


def test_a_destination_by_name_is_refused_with_the_way_out_that_it_would_open() -> None:
    with pytest.raises(Refused) as caught:
        msb_words.network(("example.org",))
    assert "looks up every name" in caught.value.why
    assert msb_words.network(()) == ["--net-default", "deny"]


@pytest.mark.parametrize("path", ["/a,b", "/a:b", "/a=b"])
def test_a_folder_whose_name_would_be_an_option_is_refused(path: str) -> None:
    with pytest.raises(Refused):
        msb_words.run(MACHINE._replace(folders=(Bind(path, "/work", True),)))


def test_no_word_of_a_command_or_its_environment_is_on_a_command_line() -> None:
    words = msb_words.execute("box", 3, (1000, 1000), Held(None, None, None, None), terminal=False)
    assert words[-2:] == ["/bin/sh", "/.cloche-orders/3"]
    assert "token" in msb_words.order(3, ("env",), [("TOKEN", "token")], "/work")


@given(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=40))
def test_what_is_quoted_is_one_word_of_a_shell(text: str) -> None:
    import shlex

    assert shlex.split(msb_words.quoted(text)) == [text]


# ---- answers, as the real program gave them


def test_a_sandbox_is_read_as_it_was_asked_for() -> None:
    state = msb_answers.state(recorded("inspect")["out"])
    assert state is not None
    assert (state.status, state.paused, state.memory, state.cpus) == ("Stopped", False, 256 << 20, 1)
    assert state.digest.startswith("sha256:")
    assert msb_answers.differences(MACHINE, state) == ()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"denied": False}, "network"),
        ({"rules": 4}, "network"),
        ({"memory": 1 << 40}, "memory"),
        ({"security": "default"}, "security"),
        ({"folders": ()}, "not shared"),
    ],
)
def test_a_sandbox_that_is_held_to_less_is_told_from_what_was_asked(
    change: dict[str, Any], said: str
) -> None:
    state = msb_answers.state(recorded("inspect")["out"])
    assert state is not None
    found = msb_answers.differences(MACHINE, state._replace(**change))
    assert said in "; ".join(found)


@pytest.mark.parametrize("kind", ["relaxed", "off"])
def test_a_folder_where_a_guest_could_make_links_is_told(kind: str) -> None:
    text = recorded("inspect")["out"].replace(
        '"stat_virtualization": "strict"', f'"stat_virtualization": "{kind}"'
    )
    state = msb_answers.state(text)
    assert state is not None
    assert any(kind in one for one in msb_answers.differences(MACHINE, state))


def test_why_a_boot_failed_is_read_from_the_log() -> None:
    said = msb_answers.reasons(recorded("logs")["out"])
    assert said == "Received KVM_EXIT_INTERNAL_ERROR signal"


def test_a_panic_is_read_without_the_place_in_a_source_file() -> None:
    lines = [
        {"d": "thread 'main' (302) panicked at /x/vstate.rs:488:30:\n"},
        {"d": "Error creating the Kvm object: Error(13)\n"},
        {"d": "note: run with `RUST_BACKTRACE=1` environment variable to display a backtrace\n"},
    ]
    log = "\n".join(json.dumps(one) for one in lines)
    assert msb_answers.reasons(log) == "Error creating the Kvm object: Error(13)"


def test_a_failed_boot_says_what_failed_and_not_which_command_to_run() -> None:
    said = msb_answers.complaint(recorded("boot")["said"])
    assert "before agent relay became available" in said
    assert "run `msb" not in said


def test_its_doctor_is_read() -> None:
    health = msb_answers.health(recorded("doctor")["said"])
    assert health.failed == ("CPU virt not found",)
    assert any("nested virtualization" in one for one in health.advice)


def test_an_image_is_known_by_the_digest_of_its_files() -> None:
    (digest,) = msb_answers.diffs(recorded("image")["out"])
    assert digest.startswith("sha256:") and len(digest) == 71
    assert msb_answers.diffs("error: image not found") == ()


@given(st.text(max_size=200))
def test_no_answer_breaks_the_readers(text: str) -> None:
    assert msb_answers.state(text) is None
    assert msb_answers.diffs(text) == ()
    assert len(msb_answers.reasons(text)) <= 400
    assert msb_answers.complaint(text).isprintable()


# ---- what the guest says


def test_only_this_launchs_word_counts_as_ready(tmp_path: Path) -> None:
    path = tmp_path / "ready"
    assert msb.said(path, "n") is None
    for text in ("n 6.1 x86_64", "other 6.1 x86_64\n", "n 6.1\n", "n a b c\n"):
        path.write_text(text)
        assert msb.said(path, "n") is None
    path.write_text("n 6.1 x86_64\n")
    assert msb.said(path, "n") == Observed("6.1", "x86_64")
    path.unlink()
    path.symlink_to("/proc/self/environ")
    assert msb.said(path, "n") is None


@pytest.mark.parametrize(("text", "number"), [("17\n", 17), ("-1\n", 0), ("1" * 30, 0), ("", 0), ("a", 0)])
def test_a_guests_number_is_a_small_number_or_none(tmp_path: Path, text: str, number: int) -> None:
    (tmp_path / "1").write_text(text)
    assert msb_guest.told(tmp_path / "1") == number
    assert msb_guest.told(tmp_path / "none") == 0
