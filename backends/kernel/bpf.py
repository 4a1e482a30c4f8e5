"""A small assembler for seccomp's classic BPF: labels instead of jump distances.

Source: ``include/uapi/linux/filter.h``, ``bpf_common.h`` and seccomp(2). A program sees one
``struct seccomp_data``: the call's number at 0, the architecture at 4, arguments of 64 bits from 16 on.
"""

from __future__ import annotations

import struct

from backends.record import NamedTuple

LD_ABS = 0x20  # BPF_LD | BPF_W | BPF_ABS
ALU_AND = 0x54  # BPF_ALU | BPF_AND | BPF_K
JA = 0x05  # BPF_JMP | BPF_JA
JEQ = 0x15  # BPF_JMP | BPF_JEQ | BPF_K
JGE = 0x35  # BPF_JMP | BPF_JGE | BPF_K
JSET = 0x45  # BPF_JMP | BPF_JSET | BPF_K
RET = 0x06  # BPF_RET | BPF_K

MAXINSNS = 4096  # BPF_MAXINSNS
SECCOMP_DATA_NR = 0
SECCOMP_DATA_ARCH = 4


def low(argument: int) -> int:
    """Offset of the low 32 bits of argument ``argument`` on the little-endian machines Cloche knows."""
    return 16 + 8 * argument


def high(argument: int) -> int:
    return low(argument) + 4


class _Instruction(NamedTuple):
    code: int
    k: int
    then: str  # label, "" for the next instruction
    otherwise: str


class Assembler:
    """Collects instructions and labels, then gives the bytes of a ``struct sock_filter`` array."""

    def __init__(self) -> None:
        self._instructions: list[_Instruction] = []
        self._labels: dict[str, int] = {}
        self._fresh = 0

    def label(self, name: str) -> None:
        if name in self._labels:
            raise ValueError(f"label {name} stands twice")
        self._labels[name] = len(self._instructions)

    def load(self, offset: int) -> None:
        self._add(LD_ABS, offset)

    def mask(self, bits: int) -> None:
        self._add(ALU_AND, bits)

    def ret(self, value: int) -> None:
        self._add(RET, value)

    def jump(self, target: str) -> None:
        self._add(JA, 0, target)

    def equal(self, value: int, target: str) -> None:
        """Goes to ``target`` when the accumulator equals ``value``, else on."""
        self._branch(JEQ, value, target)

    def at_least(self, value: int, target: str) -> None:
        self._branch(JGE, value, target)

    def any_bit(self, bits: int, target: str) -> None:
        self._branch(JSET, bits, target)

    def _branch(self, code: int, value: int, target: str) -> None:
        # A condition reaches 255 instructions, an unconditional jump all: so each goes by way of one.
        self._fresh += 1
        hop, over = f".hop{self._fresh}", f".over{self._fresh}"
        self._add(code, value, hop, over)
        self.label(hop)
        self.jump(target)
        self.label(over)

    def _add(self, code: int, k: int, then: str = "", otherwise: str = "") -> None:
        self._instructions.append(_Instruction(code, k & 0xFFFFFFFF, then, otherwise))

    def assemble(self) -> bytes:
        if len(self._instructions) > MAXINSNS:
            raise ValueError(f"{len(self._instructions)} instructions, the kernel takes {MAXINSNS}")
        out = bytearray()
        for index, instruction in enumerate(self._instructions):
            then = self._distance(index, instruction.then)
            otherwise = self._distance(index, instruction.otherwise)
            if instruction.code == JA:
                out += struct.pack("=HBBI", JA, 0, 0, then)
            else:
                out += struct.pack("=HBBI", instruction.code, then, otherwise, instruction.k)
        return bytes(out)

    def _distance(self, index: int, target: str) -> int:
        if not target:
            return 0
        distance = self._labels[target] - index - 1
        if distance < 0:
            raise ValueError(f"BPF jumps only forward, {target} lies behind")
        return distance
