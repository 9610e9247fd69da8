"""The pass `lower` refuses what does not fit, with the demand and what would help."""

from __future__ import annotations

from dataclasses import replace

import onnx_ir as ir
import pytest

from mcm_compiler.contracts.chips import CHIP_MODELS, WIRES
from mcm_compiler.contracts.program import PROGRAM, Lever, LoweredProgram, MemoryOverflow
from mcm_compiler.diagnostics import CompileError
from mcm_compiler.options import CompileOptions
from mcm_compiler.pipeline.passes import PassContext
from mcm_compiler.processes.staging import staging
from mcm_passes.pipeline.lowering import Lower

KIB = 1024


class Package:
    """A target that lowers everything to one program."""

    name = "tiny"

    def __init__(self, program: LoweredProgram) -> None:
        self.program = program

    def lower(self, chips, wires) -> LoweredProgram:
        return self.program


def run(program: LoweredProgram) -> ir.Model:
    model = ir.Model(ir.Graph([], [], nodes=[], name="g"), ir_version=10)
    CHIP_MODELS.set(model, ())
    WIRES.set(model, ())
    with staging(None) as stage:
        context = PassContext(Package(program), CompileOptions(), stage, lambda _: None, print)
        Lower().run(model, context)
    return model


OVERFLOW = MemoryOverflow(
    3, 96 * KIB, 64 * KIB, (("w\n", 70 * KIB), ("x[0]", 2 * KIB)),
    weight_bytes=80 * KIB, channel_bytes=12 * KIB, activation_bytes=4 * KIB,
    levers=(Lever("shard op 'm' in 2: its weight takes 70.0 KiB", 35 * KIB), Lever("b", KIB)),
)  # fmt: skip


def test_a_program_that_fits_is_a_fact():
    program = LoweredProgram("tiny", (), ())
    assert PROGRAM.get(run(program)) == program


def test_overflows_are_diagnosed_chip_by_chip():
    bare = replace(OVERFLOW, chip=4, weight_bytes=0, channel_bytes=0, activation_bytes=0, levers=())
    with pytest.raises(CompileError) as caught:
        run(LoweredProgram("tiny", (), (), (OVERFLOW, bare)))
    full, plain = caught.value.diagnostics
    assert full.code == plain.code == "MCM-P020"
    assert full.message == (
        "the memory plan of chip 3 needs 96.0 KiB (80.0 KiB of weights, 12.0 KiB of receive and "
        "send buffers, 4.0 KiB of activations), and that chip of 'tiny' has 64.0 KiB"
    )
    assert full.at == r"largest buffers: 'w\n' 70.0 KiB, 'x[0]' 2.0 KiB"
    assert full.hint == "shard op 'm' in 2: its weight takes 70.0 KiB; or b"
    assert plain.message == (
        "the memory plan of chip 4 needs 96.0 KiB, and that chip of 'tiny' has 64.0 KiB"
    )
    assert "a target with more memory" in (plain.hint or "")
