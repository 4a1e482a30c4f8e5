"""What notifications point at: strings and addresses of a caller, read with bounds."""

from __future__ import annotations

import ctypes
import os
import socket
import struct

from backends.kernel import notify


def test_strings_are_read_up_to_their_end_or_the_limit() -> None:
    text = ctypes.create_string_buffer(b"a" * 5000)
    address = ctypes.addressof(text)
    with notify.Memory(os.getpid()) as memory:
        assert memory.string(address) == b"a" * 4096
        assert memory.string(address, 10) == b"a" * 10
        assert memory.string(address + 4990) == b"a" * 10
        assert memory.string(0) == b""
        assert memory.string(1 << 63) == b""
        assert memory.string(16) == b""


def test_an_argv_is_cut_in_count_and_in_bytes() -> None:
    words = [ctypes.create_string_buffer(b"word%d" % n) for n in range(100)]
    array = (ctypes.c_void_p * 101)(*(ctypes.addressof(word) for word in words), None)
    with notify.Memory(os.getpid()) as memory:
        address = ctypes.addressof(array)
        assert memory.strings(address) == tuple(b"word%d" % n for n in range(64))
        assert memory.strings(address, limit=2) == (b"word0", b"word1")
        assert sum(map(len, memory.strings(address, limit=100, total=50))) <= 50
        assert memory.strings(0) == ()


def test_addresses_of_every_family_that_a_box_can_name() -> None:
    v4 = struct.pack("=H", 2) + struct.pack("!H", 443) + bytes([192, 0, 2, 7]) + bytes(8)
    assert notify.parse_address(v4) == (socket.AF_INET, "192.0.2.7", 443)
    v6 = (
        struct.pack("=H", 10)
        + struct.pack("!H", 53)
        + bytes(4)
        + socket.inet_pton(10, "2001:db8::1")
        + bytes(4)
    )
    assert notify.parse_address(v6) == (socket.AF_INET6, "2001:db8::1", 53)
    assert notify.parse_address(struct.pack("=H", 1) + b"/run/x.sock\0rest") == (1, "/run/x.sock", 0)
    assert notify.parse_address(struct.pack("=H", 1) + b"\0abstract") == (1, "@abstract", 0)
    assert notify.parse_address(struct.pack("=H", 2) + b"\0") == (2, "", 0)
    assert notify.parse_address(b"\1") is None
