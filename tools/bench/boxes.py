"""How many placements a second the simulator of steps evaluates, and that it is right.

Placements a second are of one core, by processor time, of training steps of recurrent models:
84,648 ops on 8 GPUs, and 9,216 on 2. Layer-wise ones have a range of layers on each GPU; random
ones draw a device for each op. `*_by_path_per_s` is with the order `critical_path`. `disagreements`
counts random steps in random boxes whose times, peaks or copies differ from a plain simulator's.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from harness.bars import Bar, median_bar
from harness.command_line import Settings, run_script

if TYPE_CHECKING:
    from mcm_compiler.contracts.boxes.evaluation import QueueOrder

# Generators and the plain simulator are those of the tests.
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

CASES = {
    "nmt_8gpu": ("box-8gpu", 16, 120, (40.0, 20.0)),
    "rnn_2gpu": ("box-2gpu", 4, 52, (1500.0, 300.0)),
}
"""Box, layers, time steps, and bars for layer-wise and random placements."""

ORDERS: tuple[tuple[QueueOrder, str], ...] = (("fifo", ""), ("critical_path", "_by_path"))

SEEDS = 2000
"""Random steps."""

SAMPLE_S = 2.0
"""Processor time of one sample."""


def measure(settings: Settings) -> list[Bar]:
    """All bars; of the comparison a tenth where `settings.quick`."""
    bars: list[Bar] = []
    for name in CASES:
        bars += _rates(name, settings)
    count = SEEDS // 10 if settings.quick else SEEDS
    return [*bars, median_bar("disagreements", [float(_disagreements(count))], 0.5)]


def _rates(name: str, settings: Settings) -> Sequence[Bar]:
    from mcm_compiler.contracts.boxes.evaluation import StepConditions
    from mcm_compiler.placed.device_costs import load_box
    from tests.generators.step_problems import random_placements
    from tests.generators.step_recurrent import recurrent_step

    box_name, layers, steps, (bar, random_bar) = CASES[name]
    target = load_box(box_name)
    problem = recurrent_step(target.box, layers, steps)
    gpus = target.box.num_devices - 1
    by_layer = np.where(problem.layer >= 0, 1 + problem.layer * gpus // layers, target.box.host)
    at_random = random_placements(np.random.default_rng(0), problem, 4)
    bars: list[Bar] = []
    for order, word in ORDERS:
        evaluator = target.step_evaluator(problem, StepConditions(order))
        for kind, placements, least in (
            ("layers", by_layer[None].astype(np.int32), bar if order == "fifo" else bar / 2),
            ("random", at_random, random_bar),
        ):
            evaluator.evaluate(placements)
            samples: list[float] = []
            for _ in range(settings.repetitions):
                start, count = time.process_time(), 0
                while time.process_time() - start < SAMPLE_S:
                    evaluator.evaluate(placements)
                    count += len(placements)
                samples.append(count / (time.process_time() - start))
            bars.append(median_bar(f"{name}_{kind}{word}_per_s", samples, least, "above"))
    return bars


def _disagreements(count: int) -> int:
    from mcm_compiler.contracts.boxes.evaluation import StepConditions
    from mcm_hardware.families.box.step_simulator import StepSimulator
    from tests.generators.step_problems import random_box, random_placements, random_step
    from tests.oracles.step_simulation import play

    found = 0
    for seed in range(count):
        rng = np.random.default_rng(10_000 + seed)
        box = random_box(rng, gpus=int(rng.integers(1, 6)))
        problem = random_step(rng, box, ops=int(rng.integers(8, 80)))
        order: QueueOrder = "critical_path" if seed % 2 else "fifo"
        factors = rng.uniform(0.9, 1.1, problem.num_ops) if seed % 3 == 0 else np.empty(0)
        conditions = StepConditions(order, factors)
        (placement,) = random_placements(rng, problem, 1)
        trace = StepSimulator(problem, box, conditions).trace(placement)
        results = StepSimulator(problem, box, conditions).evaluate(placement[None])
        played = play(problem, box, placement, conditions)
        moved = list(zip(trace.copy_value.tolist(), trace.copy_to.tolist(), strict=True))
        same = (
            bool(np.isclose(results.seconds[0], played.seconds, rtol=1e-9, atol=0))
            and results.peak_bytes[0].tolist() == played.peak_bytes
            and np.allclose(results.busy_s[0], played.busy_s, rtol=1e-9)
            and np.allclose(results.copy_s[0], played.copy_s, rtol=1e-9)
            and moved == played.copies
        )
        found += not same
    return found


if __name__ == "__main__":
    sys.exit(run_script(__doc__, measure))
