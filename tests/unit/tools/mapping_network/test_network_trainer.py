"""`mcmc train mapping-network` from blocks to a checkpoint, and the names of the plug-in."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from mapping_network import layout
from mapping_network.gnn import Gnn
from mapping_network.network_trainer import MODEL_NAME, NetworkTrainer

from mcm_compiler.contracts.fabrics.measurement import Measurements
from mcm_compiler.contracts.training import TrainingProgress, TrainingRequest
from mcm_compiler.diagnostics import CompileError
from mcm_compiler.plugin_files import load_plugin
from mcm_compiler.registry import MAPPING_MODELS, TRAINERS
from mcm_passes.families.fabric.learning import mapping_trainer
from tests.generators.mapping_target import RuleJudge, RuleTarget

TRAINER = NetworkTrainer(
    graphs=12,
    drawn=3,
    searched=1,
    fewest=2,
    units=4,
    contrast=1.0,
    epochs=6,
    later_epochs=2,
    rounds=1,
    optima=1,
    evaluations=60,
    width=4,
    messages=1,
)
PLUGIN = Path(__file__).parents[4] / "tools" / "reproduce" / "mapping_network" / "plugin.py"


@pytest.fixture(autouse=True)
def _rule_target(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mapping_trainer, "load_target", lambda _: RuleTarget())


def test_a_training_ends_with_the_same_bytes_also_where_it_resumes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    phases: list[str] = []

    def tell(progress: TrainingProgress) -> None:
        phases.append(progress.phase)

    whole = TRAINER.train(TrainingRequest(tmp_path, 0, False), tell)
    assert set(phases) == {"measuring blocks", "learning, round 0", "learning, round 1"}
    assert whole.samples == 11 * 5
    assert "own_optimum" in whole.scores
    _, card = layout.MAPPING_MODELS.load(whole.checkpoint)
    assert card.learned.lowering == "drawn"
    assert card.trained_on["measurements"] == 55
    first = whole.checkpoint.read_bytes()
    again = TRAINER.train(TrainingRequest(tmp_path, 0, True), tell)
    assert again.checkpoint.read_bytes() == first

    measure = RuleJudge.measure

    def never(self: RuleJudge, problem, fabric, mappings) -> Measurements:
        found = measure(self, problem, fabric, mappings)
        return replace(found, period_cycles=np.full(len(mappings), np.inf))

    # Optima that cannot be measured: the best known mapping is used.
    monkeypatch.setattr(RuleJudge, "measure", never)
    assert TRAINER.train(TrainingRequest(tmp_path, 0, True), tell).samples == whole.samples


def test_a_training_that_diverges_says_so(tmp_path: Path) -> None:
    trainer = replace(TRAINER, learning_rate=1e30, epochs=1)
    with pytest.raises(FloatingPointError, match="learn with a rate below"):
        trainer.train(TrainingRequest(tmp_path, 0, False), lambda _: None)
    assert not (tmp_path / MODEL_NAME).exists()


def test_the_names_are_those_of_the_plug_in_alone() -> None:
    with pytest.raises(CompileError) as caught:
        MAPPING_MODELS.get("gnn")
    assert "mapping_network/plugin.py" in (caught.value.diagnostics[0].hint or "")
    load_plugin(PLUGIN)
    try:
        assert MAPPING_MODELS.get("gnn") is Gnn
        assert TRAINERS.get("mapping-network") is NetworkTrainer
    finally:
        MAPPING_MODELS.remove("gnn")
        TRAINERS.remove("mapping-network")
