"""`mcmc train mapping-model` from blocks to a checkpoint, stopped and gone on with."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

from mcm_compiler.contracts.fabrics.measurement import Measurements
from mcm_compiler.contracts.training import TrainingProgress, TrainingRequest, TrainingResult
from mcm_compiler.diagnostics import CompileError
from mcm_compiler.processes.private_folders import PREFIX
from mcm_models.cards import CheckpointKind, save_with_card
from mcm_models.mapping_model.data_files import load_data, save_data
from mcm_models.mapping_model.data_set import MODEL
from mcm_models.mapping_model.layout import (
    MAPPING_MODELS,
    MappingCard,
    MappingLayout,
    initial_weights,
)
from mcm_passes.families.fabric.learning import mapping_trainer
from mcm_passes.families.fabric.learning.collecting import learned_of
from mcm_passes.families.fabric.learning.gnn import PreparedGnn
from mcm_passes.families.fabric.learning.mapping_trainer import MODEL_NAME, MappingTrainer
from tests.generators.left_folders import files_of, leave_private_folder
from tests.generators.mapping_target import RuleJudge, RuleTarget
from tests.generators.small_fabric import small_fabric

TRAINER = MappingTrainer(
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


def test_a_training_that_was_stopped_ends_as_if_it_had_not_been(tmp_path: Path) -> None:
    whole = _train(tmp_path / "a")
    assert whole.checkpoint == tmp_path / "a" / MODEL_NAME
    assert whole.samples == 11 * 5
    assert set(whole.scores) == {
        "error", "spearman", "within", "better_half", "regret", "pairs", "own_optimum",
    }  # fmt: skip
    for stop_at in (
        ("measuring blocks", 10),
        ("learning, round 0", 6),
        ("measuring optima, round 1", 4),
        ("learning, round 1", 1),
        ("measuring optima, held out", 1),
    ):
        with pytest.raises(Stopped):
            _train(tmp_path / "b", (tmp_path / "b").exists(), stop_at)
    again = _train(tmp_path / "b", resume=True)
    assert again.scores == whole.scores
    for name in (MODEL_NAME, "mapping-model.json", "optima-1.npz"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()

    optima = load_data(tmp_path / "a" / "optima-1.npz")
    assert {origin for graph in optima.graphs for origin in graph.origin} == {MODEL}
    _, card = MAPPING_MODELS.load(whole.checkpoint)
    assert card.learned.lowering == "drawn"
    assert card.trained_on["measurements"] == 55
    assert json.loads((tmp_path / "a" / "mapping-model.json").read_text()) == json.loads(
        card.to_json()
    )

    for folder, resume, seed, code in (
        (tmp_path / "a", False, 0, "MCM-A001"),
        (tmp_path / "a", True, 1, "MCM-M059"),
    ):
        with pytest.raises(CompileError) as caught:
            _train(folder, resume, seed=seed)
        assert caught.value.diagnostics[0].code == code


def test_a_death_between_two_rounds_does_not_end_the_next_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The state of the first round is still there when its model is.
    lasting = replace(TRAINER, epochs=5)

    def train(folder: Path, resume: bool = False) -> bytes:
        found = lasting.train(TrainingRequest(folder, 0, resume), lambda _: None)
        return found.checkpoint.read_bytes()

    save = CheckpointKind.save

    def dying(*arguments: object) -> None:
        save(*arguments)  # pyright: ignore[reportArgumentType, reportCallIssue]
        raise Stopped

    whole = train(tmp_path / "a")
    with monkeypatch.context() as patched:
        patched.setattr(CheckpointKind, "save", dying)
        with pytest.raises(Stopped):
            train(tmp_path / "b")
    assert train(tmp_path / "b", resume=True) == whole
    assert files_of(tmp_path / "b") == files_of(tmp_path / "a")


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


def test_files_of_other_trainings_are_not_gone_on_with(tmp_path: Path) -> None:
    _train(tmp_path / "a")
    optima = load_data(tmp_path / "a" / "optima-1.npz")

    def fault(name: str, content: bytes, *unread: str) -> str:
        """What is said of a file in the place of another one, without those behind it."""
        folder = tmp_path / "b"
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(tmp_path / "a", folder)
        for other in unread:
            (folder / other).unlink()
        (folder / name).write_bytes(content)
        with pytest.raises(CompileError) as caught:
            _train(folder, resume=True)
        assert name in (caught.value.diagnostics[0].at or "")
        return caught.value.diagnostics[0].code

    for layout, learned in (
        (MappingLayout(8, 1), learned_of(RuleTarget())),
        (MappingLayout(4, 1), learned_of(RuleTarget(lowering="other"))),
    ):
        MAPPING_MODELS.save(
            tmp_path / "other", initial_weights(layout, 0), MappingCard(layout, learned)
        )
        assert fault("round-1.safetensors", (tmp_path / "other").read_bytes()) == "MCM-M059"
    for graphs in (optima.graphs[::-1], optima.graphs[:-1]):
        save_data(tmp_path / "other", replace(optima, graphs=graphs))
        content = (tmp_path / "other").read_bytes()
        assert fault("optima-1.npz", content, "round-1.safetensors") == "MCM-M059"
    assert fault("asked.json", b"\xff") == "MCM-M059"


@pytest.mark.parametrize("numbers", [{}, {"epoch": -3}, {"epoch": 7}, {"epoch": 5.0}])
def test_states_with_other_numbers_are_refused(tmp_path: Path, numbers: dict[str, float]) -> None:
    with pytest.raises(Stopped):
        _train(tmp_path, stop_at=("learning, round 0", 6))
    path = tmp_path / "learning-0.safetensors"
    save_with_card(path, load_file(path), json.dumps(numbers))
    with pytest.raises(CompileError) as caught:
        _train(tmp_path, resume=True)
    (found,) = caught.value.diagnostics
    assert (found.code, found.at) == ("MCM-M059", f"'{path}'")
    assert "epoch" in found.message


def test_data_of_a_fabric_of_another_size_are_not_gone_on_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(Stopped):
        _train(tmp_path / "a", stop_at=("learning, round 0", 1))
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
    assert not (tmp_path / "round-0.safetensors").exists()


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
        assert found.samples == 9 * 5
        assert _train(tmp_path, resume=True) == found
        return
    with pytest.raises(CompileError) as caught:
        _train(tmp_path)
    (fault,) = caught.value.diagnostics
    assert fault.code == "MCM-M061"
    assert "11 more cannot be measured" in fault.message
    assert "longest" in (fault.hint or "")


def test_optima_that_cannot_be_measured_are_no_end_of_a_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = _train(tmp_path / "a")
    shutil.copytree(tmp_path / "a" / "collection", tmp_path / "b" / "collection")
    shutil.copy(tmp_path / "a" / "asked.json", tmp_path / "b")
    measure = RuleJudge.measure

    def never(self: RuleJudge, problem, fabric, mappings) -> Measurements:
        found = measure(self, problem, fabric, mappings)
        return replace(found, period_cycles=np.full(len(mappings), np.inf))

    monkeypatch.setattr(RuleJudge, "measure", never)
    found = _train(tmp_path / "b", resume=True)
    assert found.samples == whole.samples
    known = load_data(tmp_path / "b" / "optima-0.npz").graphs
    parts = [load_data(path) for path in sorted((tmp_path / "b" / "collection").iterdir())]
    best = {
        graph.problem.name: graph.period_cycles.min() for part in parts for graph in part.graphs
    }
    for graph in known:
        assert graph.period_cycles.tolist() == [best[graph.problem.name]]
        assert graph.origin.tolist() == [MODEL]


@pytest.mark.parametrize("spoilt", ["weights", "answers"])
def test_a_network_whose_answers_are_no_periods_has_diverged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spoilt: str
) -> None:
    """Weights may be finite and too large; what a search asks, the graphs need not show."""
    if spoilt == "answers":
        monkeypatch.setattr(
            PreparedGnn, "search_cost", lambda _, mappings: np.full(len(mappings), np.nan)
        )
    rate = 1e30 if spoilt == "weights" else 1e-3
    trainer = replace(TRAINER, learning_rate=rate, epochs=1)
    with pytest.raises(CompileError) as caught:
        trainer.train(TrainingRequest(tmp_path, 0, False), lambda _: None)
    (found,) = caught.value.diagnostics
    assert found.code == "MCM-M058"
    assert f"below {rate}" in (found.hint or "")
    assert not (tmp_path / MODEL_NAME).exists()
