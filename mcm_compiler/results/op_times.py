"""Times of the kernels of a program."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mcm_compiler.contracts.program import LoweredProgram


@dataclass(frozen=True)
class OpTime:
    """The time of an op, or of a group of ops that runs as one kernel.

    Attributes:
        name: of the kernel.
        chip: where it runs.
        ops: ONNX nodes in it.
        seconds: per inference.
        label: its dominant op and layer in words; empty where only its name is known.
    """

    name: str
    chip: int
    ops: int
    seconds: float
    label: str = ""


def program_op_times(program: LoweredProgram) -> tuple[OpTime, ...]:
    """The time of every kernel of a program, in program order."""
    return tuple(
        OpTime(kernel.name, chip.chip, len(kernel.nodes), kernel.duration_s)
        for chip in program.chips
        for kernel in chip.kernels
    )
