"""A planner that was stopped goes on as if nothing had been."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import load_file, save_file

from mcm_compiler.contracts.boxes.placers import PlacerRequest
from mcm_compiler.diagnostics import CompileError
from mcm_models.planner.layout import PUBLISHED
from mcm_passes.families.box.learning.hierarchical import Recipe, run_planner
from mcm_passes.families.box.learning.planner_state import STATE_NAME
from tests.generators.step_problems import random_box, with_memory

SETTINGS = dataclasses.replace(PUBLISHED, samples=2)
WEIGHTS = np.array([3.0, 2.0, 1.0])


def recipe(folder: Path) -> Recipe:
    return Recipe("hierarchical", SETTINGS, groups=3, hidden=4, state=str(folder), save_every=3)


@pytest.fixture
def run(case, counted):
    def go(folder: Path, evaluations: int = 24, left: int = 10**9, seed: int = 0, box=case.box):
        evaluator = counted(WEIGHTS, left=left)
        request = PlacerRequest(case.problem, box, evaluator, evaluations=evaluations, seed=seed)
        return run_planner(recipe(folder), request)

    return go


def test_goes_on_to_the_same_bytes(run, tmp_path: Path):
    whole = run(tmp_path / "whole")
    # Killed in update 6: the state is of update 3, and two updates are done again.
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path / "parts", left=10)
    parts = run(tmp_path / "parts")
    assert parts.history == whole.history
    assert parts.figures == whole.figures
    files = [(tmp_path / name / STATE_NAME).read_bytes() for name in ("whole", "parts")]
    assert files[0] == files[1]


def test_states_of_something_else_are_refused(run, case, tmp_path: Path):
    run(tmp_path, evaluations=6)
    with pytest.raises(CompileError, match="MCM-D063") as caught:
        run(tmp_path, seed=1)
    assert "seed 0, not 1" in str(caught.value)
    larger = random_box(np.random.default_rng(0), gpus=3)
    problem = dataclasses.replace(
        case.problem, allowed=np.concatenate([case.problem.allowed] * 2, axis=1)[:, :4]
    )
    with pytest.raises(CompileError, match="3 devices, not 4"):
        run_planner(recipe(tmp_path), PlacerRequest(problem, larger, case.evaluator, evaluations=6))


@pytest.mark.parametrize("other", ["times", "pins", "box", "order"])
def test_states_of_as_many_ops_on_as_many_devices_are_not_taken_for_ones_own(
    run, case, tmp_path: Path, other: str
):
    run(tmp_path, evaluations=6)
    problem, box, order = case.problem, case.box, "fifo"
    if other == "times":
        problem = dataclasses.replace(problem, time_s=problem.time_s * 2.0)
    elif other == "pins":
        problem = dataclasses.replace(problem, allowed=problem.allowed & (np.arange(3) != 1))
    elif other == "box":
        box = with_memory(box, box.memory_bytes + 1)
    else:
        order = "critical_path"
    with pytest.raises(CompileError, match="MCM-D063") as caught:
        run_planner(
            recipe(tmp_path),
            PlacerRequest(problem, box, case.evaluator, evaluations=6, order=order),
        )
    assert "another model, box or order" in str(caught.value)


@pytest.mark.parametrize("wrong", [np.zeros(3, np.int32), np.zeros((1, 1)), None])
def test_a_best_placement_of_another_shape_is_damage(run, case, tmp_path: Path, wrong):
    run(tmp_path, evaluations=6)
    file = tmp_path / STATE_NAME
    with safe_open(file, "np") as found:
        card = found.metadata()
    arrays = load_file(file)
    arrays["best"] = np.zeros(case.problem.num_ops) if wrong is None else wrong
    save_file(arrays, file, card)
    with pytest.raises(CompileError, match="MCM-D064"):
        run(tmp_path)


@pytest.mark.parametrize("cut", [0, 100, -20])
def test_damaged_states_are_refused(run, tmp_path: Path, cut: int):
    run(tmp_path, evaluations=6)
    file = tmp_path / STATE_NAME
    file.write_bytes(file.read_bytes()[:cut])
    with pytest.raises(CompileError, match="MCM-D064"):
        run(tmp_path)
