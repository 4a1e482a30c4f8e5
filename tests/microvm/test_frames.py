"""Frames of a guest's channel, and a steward's end of it against a guest that breaks the rules."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket
from collections.abc import Callable, Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backends.microvm import channel as channels
from backends.microvm import client, frames
from backends.microvm.channel import Channel, Usage
from backends.microvm.frames import Broken, Credit, Frame, Reader
from backends.microvm.vmm import Command, Observed

COMMAND = Command(1, ("true",), {}, "/", None)
FRAMES = st.lists(
    st.builds(
        Frame,
        st.integers(0, 255),
        st.integers(0, 255),
        st.integers(0, 2**32 - 1),
        st.binary(max_size=300),
    ),
    max_size=12,
)


@settings(max_examples=60)
@given(FRAMES, st.integers(1, 64))
def test_frames_arrive_whole_however_they_are_cut(sent: list[Frame], step: int) -> None:
    data = b"".join(frames.pack(one.kind, one.channel, one.data, one.stream) for one in sent)
    reader = Reader()
    found: list[Frame] = []
    for at in range(0, len(data), step):
        found += reader.feed(data[at : at + step])
    assert found == sent


@settings(max_examples=100)
@given(st.binary(max_size=400))
def test_no_bytes_make_a_reader_fail_otherwise_than_by_its_own_word(data: bytes) -> None:
    try:
        for frame in Reader().feed(data):
            assert len(frame.data) <= frames.MOST
    except Broken:
        return


def test_a_frame_longer_than_the_most_is_refused() -> None:
    with pytest.raises(Broken):
        list(Reader().feed(frames.HEADER.pack(frames.DATA, 0, 0, 1, frames.MOST + 1)))


def test_a_message_of_any_length_comes_in_parts_with_an_empty_one_at_the_end() -> None:
    found = list(Reader().feed(frames.parts(frames.SPAWN, 5, b"x" * (frames.MOST + 1))))
    assert [len(one.data) for one in found] == [frames.MOST, 1, 0]
    assert {one.channel for one in found} == {5}


def test_credit_goes_back_in_portions_and_never_above_what_was_spent() -> None:
    one = Credit()
    assert one.took(frames.RETURN - 1) == 0
    assert one.took(2) == frames.RETURN + 1
    one.spend(100)
    one.give(frames.COUNT.pack(100))
    assert one.left == frames.WINDOW
    with pytest.raises(Broken):
        one.give(frames.COUNT.pack(1))


class Guest:
    """The guest's end, played by a test."""

    def __init__(self, connect: Callable[[], socket.socket] | None = None) -> None:
        ours, self.sock = socket.socketpair()
        self.sock.settimeout(5)
        self.channel = Channel(ours, connect)
        self.reader = Reader()

    def say(self, kind: int, channel: int = 0, data: bytes = b"", stream: int = 0) -> None:
        self.sock.sendall(frames.pack(kind, channel, data, stream))
        self.turn()

    def turn(self) -> None:
        poll = select.poll()
        for fd, events in self.channel.watched().items():
            poll.register(fd, events)
        for fd, events in poll.poll(200):
            self.channel.ready(fd, events)

    def heard(self) -> list[Frame]:
        return list(self.reader.feed(self.sock.recv(1 << 20)))


@pytest.fixture
def guest() -> Iterator[Guest]:
    made = Guest()
    yield made
    made.channel.close()
    made.sock.close()


@pytest.mark.parametrize(
    ("kind", "channel", "data"),
    [
        (frames.FROZEN, 0, frames.COUNT.pack(1)),  # nobody asked
        (frames.CONFIGURE, 0, b"{}"),
        (frames.QUIT, 0, b""),
        (200, 7, b""),
    ],
)
def test_a_guest_that_breaks_the_rules_is_lost(guest: Guest, kind: int, channel: int, data: bytes) -> None:
    with pytest.raises(Broken):
        guest.say(kind, channel, data)


def test_what_a_guest_says_of_its_kernel_is_bounded_and_printable(guest: Guest) -> None:
    guest.say(frames.READY, 0, json.dumps({"kernel": "6\x1b[31m" + "9" * 500, "machine": 7}).encode())
    assert guest.channel.observed == Observed("6?[31m" + "9" * 114, "", "")


def test_only_a_known_shell_of_a_guest_is_ever_run(guest: Guest) -> None:
    guest.say(frames.READY, 0, json.dumps({"kernel": "6", "shell": "/work/evil", "git": False}).encode())
    assert guest.channel.observed == Observed("6", "", "", False)


def test_frames_for_a_command_that_is_gone_go_nowhere(guest: Guest) -> None:
    for kind in (frames.DATA, frames.END, frames.SPAWNED, frames.CREDIT):
        guest.say(kind, 99, b"")


def test_a_commands_frames_reach_the_process_that_stands_for_it_and_no_other(guest: Guest) -> None:
    with guest.channel.spawn(COMMAND) as first, guest.channel.spawn(COMMAND._replace(id=2)) as second:
        guest.heard()
        second.setblocking(False)
        guest.say(frames.DATA, 1, b"for the first", 1)
        assert list(Reader().feed(first.recv(4096))) == [Frame(frames.DATA, 1, 0, b"for the first")]
        with pytest.raises(BlockingIOError):
            second.recv(1)
        # What a stand-in may not say never reaches the guest.
        second.sendall(frames.pack(frames.QUIT) + frames.pack(frames.SIGNAL, 1, b"\x0f"))
        guest.turn()
        assert guest.heard() == [Frame(frames.SIGNAL, 0, 2, b"\x0f")]


def test_more_output_than_was_asked_for_ends_the_guest(guest: Guest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(channels, "QUEUE", 1 << 20)
    with guest.channel.spawn(COMMAND), pytest.raises(Broken):
        for _ in range(200):
            guest.say(frames.DATA, 1, bytes(frames.MOST), 1)


def test_a_stand_in_that_ended_takes_its_command_along(guest: Guest) -> None:
    guest.channel.spawn(COMMAND).close()
    guest.heard()
    guest.turn()
    assert guest.heard() == [Frame(frames.KILL, 0, 1, b"")]


def test_figures_of_a_command_are_taken_only_where_they_can_be(guest: Guest) -> None:
    with contextlib.ExitStack() as stack:
        for number in (4, 5, 6):
            stack.enter_context(guest.channel.spawn(COMMAND._replace(id=number)))
        guest.say(frames.EXIT, 4, frames.EXITED.pack(0, 1.5, 0.5, 4096))
        guest.say(frames.EXIT, 5, frames.EXITED.pack(0, float("nan"), 0.5, 4096))
        guest.say(frames.EXIT, 6, frames.EXITED.pack(0, -1.0, 0.5, 4096))
        guest.say(frames.EXIT, 7, frames.EXITED.pack(0, 1.5, 0.5, 4096))  # of nobody
        assert guest.channel.usage == {4: Usage(1.5, 0.5, 4096)}
        with pytest.raises(Broken):
            guest.say(frames.EXIT, 4, b"short")


def test_a_guest_that_asks_and_does_not_listen_is_lost(guest: Guest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(channels, "QUEUE", 4096)
    guest.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    opened = frames.pack(frames.OPEN, frames.CONNECTIONS + 5)
    with pytest.raises(Broken):
        for _ in range(200):
            guest.sock.sendall(opened * 300)
            guest.turn()


def test_a_connection_goes_to_the_proxy_both_ways_and_ends() -> None:
    proxy, inner = socket.socketpair()
    proxy.settimeout(5)
    guest = Guest(lambda: inner)
    number = frames.CONNECTIONS + 1
    guest.say(frames.OPEN, number)
    assert [one.kind for one in guest.heard()] == [frames.CREDIT]
    guest.say(frames.DATA, number, b"ask")
    assert proxy.recv(10) == b"ask"
    proxy.sendall(b"answer")
    guest.turn()
    assert [(one.kind, one.data) for one in guest.heard()] == [(frames.DATA, b"answer")]
    guest.say(frames.END, number)
    assert proxy.recv(10) == b""
    proxy.close()
    guest.turn()
    assert [one.kind for one in guest.heard()] == [frames.END]
    assert not guest.channel._connections
    guest.channel.close()
    guest.sock.close()


def test_without_a_proxy_every_connection_is_refused(guest: Guest) -> None:
    guest.say(frames.OPEN, frames.CONNECTIONS + 1)
    assert [one.kind for one in guest.heard()] == [frames.KILL]


def test_data_without_a_byte_which_no_credit_counts_loses_the_guest() -> None:
    proxy, inner = socket.socketpair()
    guest = Guest(lambda: inner)
    guest.say(frames.OPEN, frames.CONNECTIONS + 2)
    with pytest.raises(Broken):
        guest.say(frames.DATA, frames.CONNECTIONS + 2)
    guest.channel.close()
    guest.sock.close()
    proxy.close()


def test_data_without_a_byte_ends_the_process_that_stands_for_a_command() -> None:
    ours, theirs = socket.socketpair()
    pid = os.fork()
    if pid == 0:
        client.run(theirs, os.open(os.devnull, os.O_WRONLY), terminal=False)
    ours.sendall(frames.pack(frames.SPAWNED) + frames.pack(frames.DATA, stream=1))
    _, status = os.waitpid(pid, 0)
    assert os.WTERMSIG(status) == signal.SIGKILL
    ours.close()
    theirs.close()


def test_a_connection_cannot_be_opened_twice_nor_flooded() -> None:
    proxy, inner = socket.socketpair()
    guest = Guest(lambda: inner)
    number = frames.CONNECTIONS + 9
    guest.say(frames.OPEN, number)
    with pytest.raises(Broken):
        guest.say(frames.OPEN, number)
    inner.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    with pytest.raises(Broken):
        for _ in range(40):
            guest.say(frames.DATA, number, bytes(frames.MOST))
    guest.channel.close()
    guest.sock.close()
    proxy.close()
