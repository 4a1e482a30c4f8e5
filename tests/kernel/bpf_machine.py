"""Runs a seccomp filter as the kernel would, so that its verdict on any call can be asserted anywhere."""

from __future__ import annotations

import struct
from collections.abc import Sequence

from backends.kernel import bpf


def run(program: bytes, nr: int, arch: int, args: Sequence[int]) -> int:
    """The filter's return value for one call."""
    padded = [*args, 0, 0, 0, 0, 0, 0][:6]
    data = struct.pack("=iIQ6Q", nr if nr < 1 << 31 else nr - (1 << 32), arch, 0, *padded)
    instructions = [struct.unpack_from("=HBBI", program, at) for at in range(0, len(program), 8)]
    accumulator = at = steps = 0
    while True:
        steps += 1
        assert steps < 10_000
        code, then, otherwise, k = instructions[at]
        at += 1
        if code == bpf.LD_ABS:
            (accumulator,) = struct.unpack_from("=I", data, k)
        elif code == bpf.ALU_AND:
            accumulator &= k
        elif code == bpf.JA:
            at += k
        elif code == bpf.RET:
            return int(k)
        else:
            hit = {
                bpf.JEQ: accumulator == k,
                bpf.JGE: accumulator >= k,
                bpf.JSET: bool(accumulator & k),
            }[code]
            at += then if hit else otherwise
