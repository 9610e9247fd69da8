"""Memory plans of models of the zoo end within 2 % of the most bytes that live at once."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from mcm_compiler.api import run_passes
from mcm_compiler.checking.memory_check import overlapping_buffers
from mcm_compiler.contracts.program import PROGRAM, Buffer, LoweredProgram
from mcm_compiler.options import CompileOptions
from mcm_hardware.families.ring.ring_target import RingTarget, mcm36

PIPELINE = "simplify,fuse,annotate_cost,shard_oversized,partition,legalize,split,lower"
MODELS = ("bert-tiny", "gpt2-tiny", "inception-v3", "mobilenet-v2")


def one_chip() -> RingTarget:
    text = mcm36().source_text.replace("num_chips = 36", "num_chips = 1")
    return RingTarget.from_text("one-chip", text.replace("sram_mib = 64", "sram_mib = 65536"))


def lowered(name: str, target: RingTarget) -> LoweredProgram:
    options = CompileOptions(passes=PIPELINE)
    model, _, _ = run_passes(f"zoo:{name}{{shape_only=true}}", target, options)
    return PROGRAM.get(model)


def most_live(buffers: Sequence[Buffer], kernels: int) -> int:
    return max(
        (sum(b.size_bytes for b in buffers if b.first <= at <= b.last) for at in range(kernels)),
        default=0,
    )


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("target", [mcm36(), one_chip()], ids=lambda target: target.name)
def test_plans_do_not_overlap_and_end_near_the_bound(name, target):
    for chip in lowered(name, target).chips:
        assert overlapping_buffers(chip.buffers) == []
        assert chip.high_water_bytes == max(b.address + b.size_bytes for b in chip.buffers)
        assert chip.high_water_bytes <= 1.02 * most_live(chip.buffers, len(chip.kernels))
        moving = [b for b in chip.buffers if b.kind == "activation"]
        lowest = min((b.address for b in moving), default=chip.high_water_bytes)
        assert chip.high_water_bytes - lowest <= 1.02 * most_live(moving, len(chip.kernels))
