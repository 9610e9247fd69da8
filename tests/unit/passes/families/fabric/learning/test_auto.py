"""`auto` is the recorded winner on the target of the comparison, and learned nowhere else."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from mcm_compiler.contracts.fabrics.models import ChoosingMappingModel
from mcm_hardware.families.fabric.fabric_package import fabric_12
from mcm_hardware.families.fabric.layout.rules import lowering_hash
from mcm_hardware.families.fabric.measuring.player import PHYSICS
from mcm_models.mapping_model.data_set import make_of
from mcm_passes.families.fabric.formulas.analytic import Busiest, Heuristic
from mcm_passes.families.fabric.learning import auto
from mcm_passes.families.fabric.learning.auto import Auto, recorded_flows
from tests.generators.random_fabrics import drawn_problem
from tests.generators.small_fabric import legal_mappings, small_fabric

FABRIC = small_fabric(6, 8)


def _recorded() -> dict[str, Any]:
    return {
        "make": make_of(FABRIC),
        "lowering": "lowering",
        "physics": "physics",
        "winner": "busiest{wire=2}",
        "elsewhere": "heuristic",
    }


def test_the_winner_stands_for_its_own_target_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(auto, "recorded_flows", _recorded)
    model = Auto()
    assert isinstance(model, ChoosingMappingModel)
    assert model.chosen_for(FABRIC, "lowering", "physics") == Busiest(wire=2.0)
    assert model.chosen_for(FABRIC, "other", "physics") == Heuristic()
    assert model.chosen_for(FABRIC, "lowering", "other") == Heuristic()
    other = replace(FABRIC, window_flits=8)
    assert model.chosen_for(other, "lowering", "physics") == Heuristic()


def test_who_knows_no_target_gets_the_winner(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(auto, "recorded_flows", _recorded)
    problem = drawn_problem(0)
    mappings = legal_mappings(problem, FABRIC, 3, np.random.default_rng(0))
    found = Auto().prepared(problem, FABRIC).search_cost(mappings)
    wanted = Busiest(wire=2.0).prepared(problem, FABRIC).search_cost(mappings)
    assert found.tolist() == wanted.tolist()


def test_the_record_is_of_this_compiler_and_its_figures_say_who_won() -> None:
    recorded = recorded_flows()
    known = {"make": make_of(fabric_12().fabric), "lowering": lowering_hash(), "physics": PHYSICS}
    assert {name: recorded[name] for name in known} == known
    for name in ("winner", "elsewhere"):
        assert recorded[name] in {row["model"] for row in recorded["figures"]}
    measured = [row for row in recorded["figures"] if row["may_win"]]
    plain = [row for row in measured if not row["fitted"]]
    assert min(plain, key=lambda row: row["over_bound"])["model"] == recorded["elsewhere"]
    better = [row for row in measured if row["fitted"] and row["high"] < 1]
    best = min(better, key=lambda row: row["ratio"])["model"] if better else None
    assert recorded["winner"] == (best or recorded["elsewhere"])
