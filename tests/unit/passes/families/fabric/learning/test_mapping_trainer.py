"""`mcmc train mapping-model` from blocks to a checkpoint, stopped and resumed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from mcm_compiler.contracts.fabrics.measurement import Measurements
from mcm_compiler.contracts.training import TrainingProgress, TrainingRequest, TrainingResult
from mcm_compiler.diagnostics import CompileError
from mcm_compiler.processes.private_folders import PREFIX
from mcm_passes.families.fabric.formulas.ridge import Ridge, load_ridge
from mcm_passes.families.fabric.learning import mapping_trainer
from mcm_passes.families.fabric.learning.mapping_trainer import MODEL_NAME, MappingTrainer
from tests.generators.left_folders import leave_private_folder
from tests.generators.mapping_target import RuleJudge, RuleTarget
from tests.generators.random_fabrics import drawn_problem
from tests.generators.small_fabric import legal_mappings, small_fabric

TRAINER = MappingTrainer(
    graphs=12, drawn=3, searched=1, fewest=2, units=4, contrast=1.0, strength=1.0
)


class Stopped(Exception):
    """By a test."""


@pytest.fixture(autouse=True)
def _rule_target(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mapping_trainer, "load_target", lambda _: RuleTarget())


def _train(
    folder: Path, resume: bool = False, stop_at: tuple[str, int] = ("", 0), seed: int = 0
) -> TrainingResult:
    def tell(progress: TrainingProgress) -> None:
        if (progress.phase, progress.done) == stop_at:
            raise Stopped

    return TRAINER.train(TrainingRequest(folder, seed, resume), tell)


def test_a_training_that_was_stopped_ends_with_the_same_bytes(tmp_path: Path) -> None:
    whole = _train(tmp_path / "a")
    assert whole.checkpoint == tmp_path / "a" / MODEL_NAME
    assert whole.samples == 11 * 4
    assert set(whole.scores) == {
        "error", "spearman", "within", "better_half", "regret", "pairs",
    }  # fmt: skip
    with pytest.raises(Stopped):
        _train(tmp_path / "b", stop_at=("measuring blocks", 10))
    again = _train(tmp_path / "b", resume=True)
    assert again.scores == whole.scores
    assert whole.checkpoint.read_bytes() == again.checkpoint.read_bytes()

    card = load_ridge(whole.checkpoint)
    assert card.lowering == "drawn"
    assert card.provenance["samples"] == 44
    assert card.provenance["options"]["strength"] == 1.0
    for folder, resume, seed, code in (
        (tmp_path / "a", False, 0, "MCM-A001"),
        (tmp_path / "a", True, 1, "MCM-M059"),
    ):
        with pytest.raises(CompileError) as caught:
            _train(folder, resume, seed=seed)
        assert caught.value.diagnostics[0].code == code


def test_the_fit_follows_the_simulator(tmp_path: Path) -> None:
    """The rule is blind to what the formula sees, so that the fit is nearer to it."""
    ridge = Ridge(checkpoint=str(_train(tmp_path).checkpoint))
    target = RuleTarget()
    ridge.check_learned_of(target.fabric, "drawn", "rule")
    problem = drawn_problem(99, stages=2, widest=3)
    mappings = legal_mappings(problem, target.fabric, 20, np.random.default_rng(0))
    wanted = target.mapping_judge().measure(problem, target.fabric, mappings).period_cycles

    def error(model: Ridge) -> float:
        found = model.prepared(problem, target.fabric).period_cycles(mappings)
        return float(np.abs(found / wanted - 1).mean())

    assert error(ridge) < 0.5 * error(Ridge())


def test_too_few_measurements_for_the_coefficients_are_refused(tmp_path: Path) -> None:
    few = replace(TRAINER, graphs=2, drawn=1)
    with pytest.raises(CompileError) as caught:
        few.train(TrainingRequest(tmp_path, 0, False), lambda _: None)
    (found,) = caught.value.diagnostics
    assert found.code == "MCM-M061"
    assert "2 measurements are too few" in found.message


def test_what_a_killed_process_was_writing_does_not_stop_the_next_one(tmp_path: Path) -> None:
    folder = tmp_path / "a"
    leave_private_folder(folder)
    with pytest.raises(Stopped):
        _train(folder, resume=True, stop_at=("measuring blocks", 10))
    leave_private_folder(folder / "collection")
    _train(folder, resume=True)
    assert not [path for path in folder.rglob("*") if path.name.startswith(PREFIX)]
    # Those of another host stay where they are.
    (tmp_path / "b" / f"{PREFIX}00000000-1-0").mkdir(parents=True)
    _train(tmp_path / "b", resume=True)


def test_a_damaged_note_of_the_options_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Stopped):
        _train(tmp_path, stop_at=("measuring blocks", 10))
    (tmp_path / "asked.json").write_bytes(b"\xff")
    with pytest.raises(CompileError) as caught:
        _train(tmp_path, resume=True)
    (found,) = caught.value.diagnostics
    assert found.code == "MCM-M059"
    assert "asked.json" in (found.at or "")


def test_data_of_a_fabric_of_another_size_are_not_gone_on_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(Stopped):
        _train(tmp_path / "a", stop_at=("measuring blocks", 12))
    larger = RuleTarget()
    larger.fabric = small_fabric(8, 8)
    monkeypatch.setattr(mapping_trainer, "load_target", lambda _: larger)
    with pytest.raises(CompileError) as caught:
        _train(tmp_path / "a", resume=True)
    (found,) = caught.value.diagnostics
    assert found.code == "MCM-M057"
    assert "rows of their fabric is another one, 6 and not 8" in found.message


def test_a_folder_of_something_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "letter.txt").write_text("dear")
    with pytest.raises(CompileError) as caught:
        _train(tmp_path, resume=True)
    assert caught.value.diagnostics[0].code == "MCM-M059"
    assert [path.name for path in tmp_path.iterdir()] == ["letter.txt"]


def test_targets_without_fabrics_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mapping_trainer, "load_target", lambda _: object())
    with pytest.raises(CompileError) as caught:
        _train(tmp_path)
    assert caught.value.diagnostics[0].code == "MCM-M060"


def test_one_graph_is_too_few(tmp_path: Path) -> None:
    with pytest.raises(CompileError) as caught:
        mapping_trainer.split([], 0)
    assert caught.value.diagnostics[0].code == "MCM-M061"


@pytest.mark.parametrize(("error", "use"), [(1.0, "learned from"), (0.05, "how good the model is")])
def test_periods_that_are_not_known_are_told_before_anything_is_learned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: float, use: str
) -> None:
    measure = RuleJudge.measure

    def badly(self: RuleJudge, problem, fabric, mappings) -> Measurements:
        found = measure(self, problem, fabric, mappings)
        return replace(found, error=np.full(len(mappings), error))

    monkeypatch.setattr(RuleJudge, "measure", badly)
    with pytest.raises(CompileError) as caught:
        _train(tmp_path)
    (found,) = caught.value.diagnostics
    assert found.code == "MCM-M061"
    assert use in found.message
    assert not (tmp_path / MODEL_NAME).exists()


@pytest.mark.parametrize("endless", [range(2), range(11)])
def test_blocks_that_cannot_be_measured_are_told_and_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, endless: range
) -> None:
    measure, seen = RuleJudge.measure, []

    def slowly(self: RuleJudge, problem, fabric, mappings) -> Measurements:
        found = measure(self, problem, fabric, mappings)
        if problem.name not in seen:
            seen.append(problem.name)
        if seen.index(problem.name) not in endless:
            return found
        return replace(found, period_cycles=np.full(len(mappings), np.inf))

    monkeypatch.setattr(RuleJudge, "measure", slowly)
    if len(endless) == 2:
        found = _train(tmp_path)
        assert found.left_out == ("2 of 12 blocks: no sample was seen to leave the fabric",)
        assert found.samples == 9 * 4
        assert _train(tmp_path, resume=True) == found
        return
    with pytest.raises(CompileError) as caught:
        _train(tmp_path)
    (fault,) = caught.value.diagnostics
    assert fault.code == "MCM-M061"
    assert "11 more cannot be measured" in fault.message
    assert "longest" in (fault.hint or "")
