"""Reading the kernel's audit records: their form, hostile names in them, and where they cannot be had."""

from __future__ import annotations

import os
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backends.kernel import audit, landlock


def message(kind: int, text: bytes) -> bytes:
    return struct.pack("=IHHII", len(text), kind, 0, 0, 0) + text


DENIED = b'audit(1795974253.976:43): domain=1c163a034 blockers=fs.make_dir,fs.refer path="/tmp" dev="vda"'


def test_a_refusal_is_read_with_its_event_and_time() -> None:
    record = audit.parse(message(audit.ACCESS, DENIED))
    assert record is not None
    assert (record.kind, record.serial, record.when) == (audit.ACCESS, 43, 1795974253.976)
    assert record.fields["domain"] == "1c163a034"
    assert record.fields["blockers"] == "fs.make_dir,fs.refer"
    assert record.fields["path"] == "/tmp"


def test_a_name_that_the_kernel_encoded_is_decoded_and_forges_no_field() -> None:
    name = b'/tmp/x" domain=0 blockers=none'
    text = b"audit(1.000:7): domain=ab blockers=fs.make_reg path=" + name.hex().upper().encode() + b" ino=2"
    record = audit.parse(message(audit.ACCESS, text))
    assert record is not None
    assert record.fields["path"] == name.decode()
    assert (record.fields["domain"], record.fields["blockers"]) == ("ab", "fs.make_reg")


def test_the_end_of_an_event_has_no_fields() -> None:
    record = audit.parse(message(audit.END_OF_EVENT, b"audit(1795974253.976:43): "))
    assert record == audit.Record(audit.END_OF_EVENT, 1795974253.976, 43, {})


@pytest.mark.parametrize("data", [b"", b"\0" * 15, message(1112, DENIED), message(audit.ACCESS, b"no stamp")])
def test_what_is_no_record_of_ours_is_passed_over(data: bytes) -> None:
    assert audit.parse(data) is None


@given(st.sampled_from(audit.KINDS), st.binary(max_size=400))
def test_no_bytes_make_it_fail(kind: int, text: bytes) -> None:
    audit.parse(message(kind, text))
    record = audit.parse(message(kind, b"audit(1.000:7): " + text))
    assert record is not None and record.serial == 7


def test_without_root_or_an_old_kernel_the_reason_is_told() -> None:
    assert "ABI 7" in audit.unavailable(6)
    if os.geteuid() != 0 and landlock.abi() >= audit.SINCE_ABI:
        assert audit.unavailable(landlock.abi()) == "only root may read the kernel's audit records"
