"""The model of the plug-in: it uses the checkpoint given, and refuses one of something else."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest
from mapping_network.gnn import Gnn, prepared_gnn
from mapping_network.layout import (
    MAPPING_MODELS,
    RECORDED_NETWORK,
    MappingCard,
    MappingLayout,
    initial_weights,
)

from mcm_compiler.contracts.fabrics.models import LearnedMappingModel
from mcm_compiler.diagnostics import CompileError
from mcm_hardware.families.fabric.fabric_package import fabric_12
from mcm_hardware.families.fabric.layout.rules import lowering_hash
from mcm_hardware.families.fabric.measuring.player import FlitJudge
from mcm_models.mapping_model.data_files import data_digest, load_data
from mcm_models.mapping_model.data_set import Learned, make_of
from mcm_passes.families.fabric.formulas.analytic import RoundTrips
from mcm_passes.families.fabric.learning.mapping_trainer import guesses, judged, split
from tests.generators.random_fabrics import drawn_problem
from tests.generators.small_fabric import legal_mappings, small_fabric

LAYOUT = MappingLayout(width=8, rounds=2, head=8)
FABRIC = small_fabric(6, 8)
DATA = Path(__file__).resolve().parents[4] / "tools" / "reproduce" / "data"


def _saved(path: Path, seed: int) -> Gnn:
    card = MappingCard(LAYOUT, Learned(make_of(FABRIC), "lowering", "physics"))
    MAPPING_MODELS.save(path, initial_weights(LAYOUT, seed), card)
    return Gnn(str(path), wire=0.0)


def test_it_is_the_network_of_its_checkpoint_also_of_a_new_one(tmp_path: Path) -> None:
    problem = drawn_problem(0)
    mappings = legal_mappings(problem, FABRIC, 3, np.random.default_rng(0))
    for seed in (1, 2):
        model = _saved(tmp_path / "m", seed)
        found = model.prepared(problem, FABRIC).period_cycles(mappings)
        wanted = prepared_gnn(problem, FABRIC, LAYOUT, initial_weights(LAYOUT, seed))
        assert found.tolist() == wanted.period_cycles(mappings).tolist()


def test_fabrics_of_another_make_and_other_targets_are_refused(tmp_path: Path) -> None:
    model = _saved(tmp_path / "m", 0)
    other = dataclasses.replace(FABRIC, window_flits=8)
    assert isinstance(model, LearnedMappingModel)
    model.prepared(drawn_problem(0), small_fabric(9, 9))
    model.check_learned_of(FABRIC, "lowering", "physics")
    for refused in (
        lambda: model.prepared(drawn_problem(0), other),
        lambda: model.check_learned_of(other, "lowering", "physics"),
        lambda: model.check_learned_of(FABRIC, "other", "physics"),
        lambda: model.check_learned_of(FABRIC, "lowering", "other"),
    ):
        with pytest.raises(CompileError) as caught:
            refused()
        assert caught.value.diagnostics[0].code == "MCM-M053"


def test_a_missing_checkpoint_is_told_of(tmp_path: Path) -> None:
    with pytest.raises(CompileError) as caught:
        Gnn(str(tmp_path / "none")).prepared(drawn_problem(0), FABRIC)
    assert caught.value.diagnostics[0].code == "MCM-M050"


def test_the_recorded_network_knows_the_target_and_the_published_data() -> None:
    card = MAPPING_MODELS.load(RECORDED_NETWORK)[1]
    physics, lowering = FlitJudge().physics, lowering_hash()
    Gnn().check_learned_of(fabric_12().fabric, lowering, physics)
    published = load_data(DATA / "fabric_measurements.npz")
    assert card.trained_on["data"] == data_digest(published)
    assert RECORDED_NETWORK.stat().st_size < 1 << 20
    beside = json.loads(RECORDED_NETWORK.with_suffix(".json").read_text(encoding="utf-8"))
    assert beside == json.loads(card.to_json())


def test_the_recorded_network_is_nearer_to_measurements_than_the_formula() -> None:
    """On the graphs that its training held out; the study has the whole table."""
    data = load_data(DATA / "fabric_measurements.npz")
    held, _ = split(data.graphs, data.seed)
    found = {
        model.name: judged(
            guesses(lambda graph, model=model: model.prepared(graph.problem, data.fabric), held),
            held,
        )
        for model in (Gnn(), RoundTrips())
    }
    assert found["gnn"].error < found["round-trips"].error
    scores = MAPPING_MODELS.load(RECORDED_NETWORK)[1].trained_on["scores"]
    assert found["gnn"].error == pytest.approx(scores["error"], abs=2e-3)
