"""List scheduling, METIS and Scotch: a plug-in whose answers are valid and repeatable."""

from __future__ import annotations

import os
import sys
from collections.abc import Generator
from pathlib import Path

import numpy as np
import pytest

from mcm_compiler.contracts.boxes.box import Box, StepProblem
from mcm_compiler.contracts.boxes.evaluation import StepConditions
from mcm_compiler.contracts.boxes.placers import PlacerAnswer, PlacerRequest
from mcm_compiler.plugin_files import load_plugin
from mcm_compiler.registry import PLACERS
from mcm_compiler.text import spec_text
from mcm_hardware.families.box.step_simulator import StepSimulator
from tests.generators.step_problems import random_box, random_step

PLUGIN = Path(__file__).parents[3] / "tools" / "reproduce" / "hier_study" / "graph_placers.py"
PACKAGES = {"etf": "numpy", "metis": "pymetis", "scotch": "scotchpy"}


@pytest.fixture(autouse=True)
def plugin() -> Generator[None]:
    load_plugin(PLUGIN)
    yield
    for name in PACKAGES:
        PLACERS.remove(name)
    for module in [one for one in sys.modules if one.startswith("mcm_plugin_graph_placers")]:
        del sys.modules[module]


@pytest.fixture
def step() -> tuple[StepProblem, Box]:
    rng = np.random.default_rng(4)
    box = random_box(rng, 3)
    return random_step(rng, box, 60), box


def placed(name: str, problem: StepProblem, box: Box) -> PlacerAnswer:
    pytest.importorskip(PACKAGES[name])
    spec = spec_text.parse_one(name if name == "etf" else f"{name}{{seeds=2}}")
    simulator = StepSimulator(problem, box, StepConditions())
    placer = spec_text.instantiate(PLACERS.get(name), spec)
    return placer.place(PlacerRequest(problem, box, simulator, evaluations=60))


@pytest.mark.parametrize("name", PACKAGES)
def test_answers_are_valid_and_repeatable(name: str, step: tuple[StepProblem, Box]) -> None:
    first, second = (placed(name, *step) for _ in range(2))
    assert (first.device_of == second.device_of).all()
    assert first.evaluations == (1 if name == "etf" else 2)
    # The simulator refuses what is not allowed.
    results = StepSimulator(*step, StepConditions()).evaluate(first.device_of[None])
    assert np.isfinite(results.score).all()


def test_scotch_runs_on_one_thread_and_leaves_the_environment_alone(
    step: tuple[StepProblem, Box], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str | None] = []
    scotch = pytest.importorskip("scotchpy")
    known = scotch.Graph.map

    def mapped(*args: object, **named: object) -> object:
        asked.append(os.environ.get("SCOTCH_PTHREAD_NUMBER"))
        return known(*args, **named)

    monkeypatch.setattr(scotch.Graph, "map", mapped)
    monkeypatch.setenv("SCOTCH_PTHREAD_NUMBER", "3")
    placed("scotch", *step)
    assert os.environ["SCOTCH_PTHREAD_NUMBER"] == "3"
    monkeypatch.delenv("SCOTCH_PTHREAD_NUMBER")
    placed("scotch", *step)
    assert "SCOTCH_PTHREAD_NUMBER" not in os.environ
    assert asked == ["1"] * 4
