"""Parts of a kernel, cut at random places, never take less than its least work."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise, product

import numpy as np
import pytest

from mcm_hardware.chip.kernel_work import KernelGemm, KernelWork
from mcm_hardware.chip.roofline import cycle_times, engine_times, least_work
from mcm_hardware.op_costs.work import Gemm

SIZES = (1, 3, 63, 64, 65, 100, 128, 200, 640)


@pytest.mark.parametrize("seed", range(60))
@pytest.mark.parametrize("dataflow", ["output_stationary", "weight_stationary"])
def test_parts_take_at_least_the_least_work(chip, dataflow, seed):
    rng = np.random.default_rng(seed)
    chip = replace(chip, array=replace(chip.array, dataflow=dataflow))
    m, n, k = (int(size) for size in rng.choice(SIZES, 3))
    each = int(rng.integers(0, 2 * k))
    for timing in (engine_times, cycle_times):
        least = least_work(chip, work_of(m, n, k, each), in_blocks=timing is cycle_times)
        for cuts in range(4):
            rows, cols = ranges(rng, m, cuts), ranges(rng, n, cuts)
            parts = [work_of(height, width, k, each) for height, width in product(rows, cols)]
            took = sum(chip.launch_s + max(timing(chip, part).values()) for part in parts)
            assert least.seconds <= took * (1.0 + 1e-12)
        assert chip.launch_s <= least.untied_s <= least.seconds


def test_of_a_whole_kernel_the_shorter_engine_shows_once_a_block(chip):
    work = work_of(128, 128, 1000, 20)
    least = least_work(chip, work, in_blocks=True)
    without = least_work(chip, work, in_blocks=False)
    times = engine_times(chip, work)
    shorter = min(times["array"], times["vector"]) / 4
    assert least.seconds - without.seconds == pytest.approx(shorter)
    assert least.untied_s - without.untied_s == pytest.approx(shorter)


def work_of(m: int, n: int, k: int, each: int) -> KernelWork:
    """A product with `each` operations of a lane on every element of its result."""
    gemm = KernelGemm(Gemm(1, m, n, k), 2 * m * k, 2 * k * n)
    read, write = gemm.left_bytes + gemm.right_bytes, 2 * m * n
    return KernelWork((gemm,), each * m * n, read, write, gemm.right_bytes, True, True)


def ranges(rng: np.random.Generator, extent: int, cuts: int) -> list[int]:
    places = sorted({0, extent, *(int(at) for at in rng.integers(0, extent, cuts))})
    return [end - start for start, end in pairwise(places)]
