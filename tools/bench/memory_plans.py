"""How close memory plans come to the bytes that live at once, over the zoo.

Each model of the zoo is lowered for mcm36 (strategy dp) and for one chip that holds it whole.
`plan_ratio_worst` is the highest end of a chip's plan over the most bytes that its buffers take at
once, `activation_ratio_worst` the same for activations alone; no plan gets below 1. `overlaps`
counts buffers that overlap. `order_saving_share` is what the chosen orders of kernels take off the
peak of activations, on the chip where that is most. `--update` writes the table to
tools/bench/data/memory_plans.json.
"""

from __future__ import annotations

import json
import statistics
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import accumulate
from pathlib import Path

import numpy as np
from harness.bars import Bar, median_bar
from harness.command_line import Settings, run_script

from mcm_compiler.api import run_passes
from mcm_compiler.checking.memory_check import overlapping_buffers
from mcm_compiler.contracts.chips import CHIP_MODELS, WIRES
from mcm_compiler.contracts.program import PROGRAM, Buffer
from mcm_compiler.options import CompileOptions
from mcm_compiler.registry import ZOO
from mcm_hardware.chip.chip_dataflow import chip_dataflow
from mcm_hardware.families.ring.ring_target import RingTarget, mcm36
from mcm_hardware.memory.activation_plan import find_activations
from mcm_hardware.memory.low_memory_order import peak_of_order
from mcm_hardware.package.transfer_plan import plan_transfers

DATA = Path(__file__).parent / "data" / "memory_plans.json"
PIPELINE = "simplify,fuse,annotate_cost,shard_oversized,partition,legalize,split,lower"
FOR_BOXES = frozenset({"rnnlm"})
"""A batch with a loss, which is differentiated and placed in boxes."""

QUICK = ("bert-tiny", "inception-v3", "mobilenet-v2")


@dataclass(frozen=True)
class PlanRow:
    """The memory plans of one model.

    Attributes:
        model: its name in the zoo.
        target: the package.
        chips: used chips.
        buffers: of all chips.
        overlaps: buffers that overlap.
        plan_ratio_worst: see the module.
        activation_ratio_worst: see the module.
        activation_ratio_median: over the chips with activations.
        peak_bytes_before: most live bytes of activations, summed over the chips, with kernels in
            the order of the chips' models.
        peak_bytes_after: the same in the orders chosen.
        order_saving_share: the largest part that a chip saves.
    """

    model: str
    target: str
    chips: int
    buffers: int
    overlaps: int
    plan_ratio_worst: float
    activation_ratio_worst: float
    activation_ratio_median: float
    peak_bytes_before: int
    peak_bytes_after: int
    order_saving_share: float


def measure(settings: Settings) -> list[Bar]:
    """All bars; over three models where `settings.quick`."""
    known = [found.name for found in ZOO.registrations() if found.name not in FOR_BOXES]
    names = QUICK if settings.quick else known
    rows = [measure_model(name, target) for target in (mcm36(), one_chip()) for name in names]
    print(as_table(rows), file=sys.stderr)
    if settings.update:
        DATA.write_text(json.dumps([asdict(row) for row in rows], indent=1) + "\n", "utf-8")
    return [
        median_bar("plan_ratio_worst", [max(r.plan_ratio_worst for r in rows)], 1.02),
        median_bar("activation_ratio_worst", [max(r.activation_ratio_worst for r in rows)], 1.02),
        median_bar("overlaps", [float(sum(r.overlaps for r in rows))], 1.0),
        median_bar("order_saving_share", [max(r.order_saving_share for r in rows)], 0.0, "above"),
    ]


def one_chip() -> RingTarget:
    """A package of one chip of mcm36 that has memory for everything."""
    text = mcm36().source_text.replace("num_chips = 36", "num_chips = 1")
    return RingTarget.from_text("one-chip", text.replace("sram_mib = 64", "sram_mib = 65536"))


def measure_model(name: str, target: RingTarget) -> PlanRow:
    """Lowers a model of the zoo and looks at its plans."""
    options = CompileOptions(passes=PIPELINE)
    model, _, _ = run_passes(f"zoo:{name}{{shape_only=true}}", target, options)
    program = PROGRAM.get(model)
    wiring = plan_transfers(WIRES.get(model), {}, target.machine)
    plan_ratios: list[float] = []
    activation_ratios: list[float] = []
    before: list[int] = []
    after: list[int] = []
    for chip, planned in zip(CHIP_MODELS.get(model), program.chips, strict=True):
        flow = chip_dataflow(chip, wiring.arriving, wiring.leaving)
        held = find_activations(flow, target.spec.chips[chip.chip])
        order = np.arange(len(flow.kernels))
        peak = peak_of_order(
            order, held.size, held.writer, held.reader_ptr, held.readers, held.kept
        )
        before.append(int(peak))
        activations = [b for b in planned.buffers if b.kind == "activation"]
        after.append(most_live_bytes(activations))
        plan_ratios.append(height_bytes(planned.buffers) / most_live_bytes(planned.buffers))
        if activations:
            activation_ratios.append(height_bytes(activations) / after[-1])
    return PlanRow(
        model=name,
        target=target.name,
        chips=len(program.chips),
        buffers=sum(len(chip.buffers) for chip in program.chips),
        overlaps=sum(len(overlapping_buffers(chip.buffers)) for chip in program.chips),
        plan_ratio_worst=max(plan_ratios),
        activation_ratio_worst=max(activation_ratios, default=1.0),
        activation_ratio_median=statistics.median(activation_ratios or [1.0]),
        peak_bytes_before=sum(before),
        peak_bytes_after=sum(after),
        order_saving_share=max((a - b) / max(a, 1) for a, b in zip(before, after, strict=True)),
    )


def height_bytes(buffers: Sequence[Buffer]) -> int:
    """From the lowest address to the highest end."""
    return max(b.address + b.size_bytes for b in buffers) - min(b.address for b in buffers)


def most_live_bytes(buffers: Sequence[Buffer]) -> int:
    """The bound from below: most bytes taken at once, counted without the planner's kernels."""
    change: Counter[int] = Counter()
    for buffer in buffers:
        change[buffer.first] += buffer.size_bytes
        change[buffer.last + 1] -= buffer.size_bytes
    return max(accumulate(change[step] for step in sorted(change)), default=0)


def as_table(rows: Sequence[PlanRow]) -> str:
    """One line for each row."""
    lines = [
        f"{'model':14s} {'target':10s} {'chips':>5s} {'buffers':>7s} {'overlaps':>8s} "
        f"{'worst plan':>10s} {'worst act.':>10s} {'median act.':>11s} {'peak saved':>10s}"
    ]
    lines += [
        f"{r.model:14s} {r.target:10s} {r.chips:5d} {r.buffers:7d} {r.overlaps:8d} "
        f"{r.plan_ratio_worst:10.4f} {r.activation_ratio_worst:10.4f} "
        f"{r.activation_ratio_median:11.4f} {100 * r.order_saving_share:8.1f} %"
        for r in rows
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(run_script(__doc__, measure, can_update=True))
