"""No placement beats a bound, and what is proven not to fit does not."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from mcm_compiler.contracts.boxes.bounds import bound_step
from mcm_compiler.contracts.boxes.box import INPUT, Box, StepProblem
from mcm_compiler.contracts.boxes.evaluation import StepConditions
from mcm_compiler.diagnostics import CompileError
from mcm_compiler.placed.device_costs import load_box
from mcm_hardware.families.box.step_simulator import StepSimulator
from mcm_passes.families.box.bounds.box_bound import bound_step_in_box, check_memory
from tests.generators.step_problems import random_box, random_placements, random_step, with_memory
from tests.generators.step_recurrent import recurrent_step


def _everywhere(problem: StepProblem, box: Box) -> np.ndarray:
    """All placements of a small problem."""
    first = np.unique(problem.together, return_index=True)[1]
    choices = [np.flatnonzero(row).tolist() for row in problem.allowed[first]]
    return np.array(list(product(*choices)), np.int32)[:, problem.together]


@pytest.mark.parametrize("seed", range(24))
def test_no_placement_beats_the_bound(seed: int) -> None:
    rng = np.random.default_rng(seed)
    box = random_box(rng, gpus=1 + seed % 2)
    problem = random_step(rng, box, ops=10 if seed % 2 else 13)
    roomy = with_memory(box, np.full(box.num_devices, 10**6, np.int64))
    bound = bound_step_in_box(problem, roomy)
    assert bound.seconds >= max(bound.critical_path_s, bound.work_s)
    placements = _everywhere(problem, box)
    results = StepSimulator(problem, roomy, StepConditions()).evaluate(placements)
    assert results.seconds.min() >= bound.seconds * (1 - 1e-9)


@pytest.mark.parametrize("seed", range(12))
def test_what_is_proven_not_to_fit_fits_nowhere(seed: int) -> None:
    rng = np.random.default_rng(100 + seed)
    box = random_box(rng, gpus=2)
    problem = random_step(rng, box, ops=30)
    placements = random_placements(rng, problem, 300)
    refused: list[bool] = []
    for size in (20, 30, 40, 60, 80, 120, 200):
        small = with_memory(box, np.full(3, size, np.int64))
        if StepSimulator(problem, small, StepConditions()).evaluate(placements).fits.any():
            check_memory(problem, small)
            continue
        refused.append(_refused(problem, small))
    assert any(refused)


def _refused(problem: StepProblem, box: Box) -> bool:
    try:
        check_memory(problem, box)
    except CompileError as error:
        return error.diagnostics[0].code == "MCM-D012"
    return False


def test_windows_tell_more_than_paths_and_work_of_chains_that_meet() -> None:
    box = load_box("box-2gpu").box
    # Two ops of 4 s lie between ops of 1 s, with GPUs alike and a CPU that runs none of them.
    ops = ["first", *(f"middle{n}" for n in range(4)), "last"]
    seconds = np.array([1.0, 4, 4, 4, 4, 1])
    allowed = np.tile(np.array([False, True, True]), (6, 1))
    problem = StepProblem(
        names=tuple(ops),
        op_types=("Op",) * 6,
        time_s=np.stack([np.full(6, np.inf), seconds], axis=1),
        value_names=tuple(ops),
        value_bytes=np.ones(6, np.int64),
        producer=np.arange(6, dtype=np.int32),
        view_of=np.full(6, -1, np.int32),
        stays=np.zeros(6, np.bool_),
        kept=np.zeros(6, np.bool_),
        read_begin=np.array([0, 0, 1, 2, 3, 4, 8], np.int64),
        reads=np.array([0, 0, 0, 0, 1, 2, 3, 4], np.int32),
        together=np.arange(6, dtype=np.int32),
        allowed=allowed,
    )
    bound = bound_step_in_box(problem, box)
    assert bound.critical_path_s == pytest.approx(6.0)
    assert bound.work_s == pytest.approx(9.0)
    assert bound.seconds == pytest.approx(10.0)
    assert "4 ops" in bound.argument


def test_chains_take_the_copies_that_no_placement_avoids() -> None:
    box = load_box("box-2gpu").box
    # An input on the host, an op that is fast on GPUs, and one that only the CPU runs.
    problem = StepProblem(
        names=("input", "fast", "last"),
        op_types=(INPUT, "Op", "Op"),
        time_s=np.array([[0, 0], [9, 1], [2, np.inf]]),
        value_names=("input", "fast", "last"),
        value_bytes=np.array([8_000_000_000, 4_000_000_000, 1], np.int64),
        producer=np.arange(3, dtype=np.int32),
        view_of=np.full(3, -1, np.int32),
        stays=np.zeros(3, np.bool_),
        kept=np.zeros(3, np.bool_),
        read_begin=np.array([0, 0, 1, 2], np.int64),
        reads=np.array([0, 1], np.int32),
        together=np.arange(3, dtype=np.int32),
        allowed=np.array([[True, False, False], [True, True, True], [True, False, False]]),
    )
    bound = bound_step_in_box(problem, box)
    assert bound.critical_path_s == pytest.approx(3.0)
    # 1 s and 0.5 s at 8 GB/s, with 20 us for each copy.
    assert bound.seconds == pytest.approx(1.0 + 1.0 + 0.5 + 2.0 + 40e-6)
    assert "copies" in bound.argument


def test_work_is_shared_by_speed() -> None:
    box = load_box("box-2gpu").box
    problem = recurrent_step(box, layers=2, steps=3)
    wide = replace(problem, read_begin=np.zeros_like(problem.read_begin), reads=problem.reads[:0])
    bound = bound_step_in_box(replace(wide, view_of=np.full_like(wide.view_of, -1)), box)
    # A CPU of a quarter of the speed and two GPUs.
    assert bound.work_s == pytest.approx(problem.time_s[:, 1].sum() / 2.25, rel=1e-3)


def test_too_much_for_the_box_is_said_with_numbers() -> None:
    box = load_box("box-2gpu").box
    problem = recurrent_step(box, layers=2, steps=2)
    small = with_memory(box, np.full(3, 100 * 2**20, np.int64))
    with pytest.raises(CompileError) as caught:
        bound_step(problem, small)
    (fault,) = caught.value.diagnostics
    assert fault.code == "MCM-D012"
    # Two variables of 64 MiB; the sum of two gradients and what is added up, 64 MiB each.
    assert "320.0 MiB" in fault.message
    assert "(128.0 MiB of weights and variables)" in fault.message


def test_the_bound_is_found_by_its_entry_point() -> None:
    box = load_box("box-2gpu").box
    problem = recurrent_step(box, layers=2, steps=2)
    assert bound_step(problem, box) == bound_step_in_box(problem, box)
