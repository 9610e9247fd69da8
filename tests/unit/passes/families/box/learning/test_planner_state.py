"""A planner that was stopped goes on as if nothing had been."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest

from mcm_compiler.contracts.boxes.placers import PlacerRequest
from mcm_compiler.diagnostics import CompileError
from mcm_models.planner.settings import PUBLISHED
from mcm_passes.families.box.learning.planner_run import Recipe, run_planner
from mcm_passes.families.box.learning.planner_state import STATE_NAME
from tests.generators.step_problems import random_box

SETTINGS = dataclasses.replace(PUBLISHED, samples=2)
WEIGHTS = np.array([3.0, 2.0, 1.0])


def recipe(folder: Path) -> Recipe:
    return Recipe("hierarchical", SETTINGS, groups=3, hidden=4, state=str(folder), save_every=3)


@pytest.fixture
def run(case, counted):
    def go(folder: Path, evaluations: int = 24, left: int = 10**9, seed: int = 0, box=case.box):
        evaluator = counted(WEIGHTS, left=left)
        request = PlacerRequest(evaluations, seed)
        return run_planner(recipe(folder), case.problem, box, evaluator, request, lambda _: None)

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
        run_planner(
            recipe(tmp_path), problem, larger, case.evaluator, PlacerRequest(6), lambda _: None
        )


@pytest.mark.parametrize("cut", [0, 100, -20])
def test_damaged_states_are_refused(run, tmp_path: Path, cut: int):
    run(tmp_path, evaluations=6)
    file = tmp_path / STATE_NAME
    file.write_bytes(file.read_bytes()[:cut])
    with pytest.raises(CompileError, match="MCM-D064"):
        run(tmp_path)
