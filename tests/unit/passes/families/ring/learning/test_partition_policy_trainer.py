"""A training, and that a stop at any moment changes nothing of it."""

from __future__ import annotations

import csv
import dataclasses
import io
import json
import os
import shutil
import signal
import subprocess
import sys

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import save_file

from mcm_compiler.diagnostics import CompileError
from mcm_compiler.diagnostics.refusals import take_notices
from mcm_models.policy.layout import POLICIES
from mcm_passes.families.ring.learning.pretraining import COLUMNS, STATE_NAME, PretrainingPlan
from tests.generators.left_folders import files_of, leave_private_folder

WRITES = 32
"""More than the writes of a training of `request_for`."""


class Killed(BaseException):
    """Nothing catches it, and files stay as they are."""


def train(asked, tell=lambda _progress: None):
    return asked.trainer.train(asked.request, tell)


def code_of(request) -> str:
    with pytest.raises(CompileError) as caught:
        train(request)
    (found,) = caught.value.diagnostics
    assert found.hint
    return found.code


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Where one training of `request_for` ends, once a test has begun it."""
    return tmp_path_factory.mktemp("trained") / "whole"


@pytest.fixture
def whole(request_for, trained, tmp_path):
    """A copy of the folder of a training that nothing has stopped."""
    if not trained.exists():
        train(request_for(trained))
    return shutil.copytree(trained, tmp_path / "whole")


def test_a_training_writes_a_policy_with_its_card(request_for, tmp_path):
    told = []
    result = train(request_for(tmp_path / "run"), told.append)
    weights, card = POLICIES.load(result.checkpoint)
    assert card.recipe == "tiny"
    assert card.trained_on["samples"] == result.samples
    assert card.trained_on["target"] == "mcm4"
    assert card.trained_on["metrics"] == result.scores
    assert {"numpy", "jax", "mcm-compiler"} <= card.trained_on["versions"].keys()
    assert weights.keys() == card.layout.shapes().keys()
    noted = (tmp_path / "run" / "policy.json").read_text()
    assert json.loads(noted) == json.loads(card.to_json())
    phases = [each.phase for each in told]
    assert set(phases) == {"reading models", "training", "validation", "fine-tuning"}
    assert all(0 < each.done <= each.total for each in told)
    assert {each.unit for each in told} == {"models", "samples", "checkpoints"}
    rows = [json.loads(x) for x in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    learned = [each for each in told if each.phase == "training"]
    assert [each.done for each in learned] == [row["samples"] for row in rows]
    for each, row in zip(learned, rows, strict=True):
        assert each.figures == {name: row[name] for name in COLUMNS[3:]}
    scored = [each.figures["score"] for each in told if each.phase == "validation"]
    log = [json.loads(x) for x in (tmp_path / "run" / "validation.jsonl").read_text().splitlines()]
    assert scored == [line["score"] for line in log if line["kind"] == "zero-shot"]


def test_the_policy_learns(request_for, tmp_path):
    before, _ = _checkpoint(tmp_path / "run", request_for, 0)
    after, _ = _checkpoint(tmp_path / "run", request_for, 3)
    assert all(np.isfinite(array).all() for array in after.values())
    assert max(np.abs(after[name] - before[name]).max() for name in after) > 1e-4


def _checkpoint(folder, request_for, number):
    train(request_for(folder, resume=True))
    return POLICIES.load(folder / "checkpoints" / f"{number:04d}.safetensors")


def test_metrics_are_the_same_as_lines_of_json_and_as_csv(whole):
    rows = [json.loads(line) for line in (whole / "metrics.jsonl").read_text().splitlines()]
    table = list(csv.DictReader(io.StringIO((whole / "metrics.csv").read_text())))
    assert [row["samples"] for row in rows] == [4, 8, 12, 16, 20, 24]
    assert [{name: str(row[name]) for name in COLUMNS} for row in rows] == table
    # Every pass takes each model once.
    assert all(len({rows[k]["model"], rows[k + 1]["model"]}) == 2 for k in (0, 2, 4))
    assert all(row["best_reward"] >= row["mean_reward"] >= 0 for row in rows)


def test_all_checkpoints_are_scored_and_the_best_few_fine_tuned(whole):
    lines = [json.loads(line) for line in (whole / "validation.jsonl").read_text().splitlines()]
    zero_shot = [line for line in lines if line["kind"] == "zero-shot"]
    tuned = [line for line in lines if line["kind"] == "fine-tuned"]
    assert [line["checkpoint"] for line in zero_shot] == [0, 1, 2, 3]
    best = max(zero_shot[1:], key=lambda line: line["score"])
    assert [line["checkpoint"] for line in tuned] == [0, best["checkpoint"]]


def test_another_seed_is_another_training(request_for, whole, tmp_path):
    train(request_for(tmp_path / "other", seed=1))
    assert (tmp_path / "other" / "policy.safetensors").read_bytes() != (
        whole / "policy.safetensors"
    ).read_bytes()


def test_worker_processes_give_the_same_files(request_for, whole, tmp_path, monkeypatch):
    # Processes of their own do not know what the fixture has changed.
    trainer = "mcm_passes.families.ring.learning.partition_policy_trainer"
    monkeypatch.setattr(f"{trainer}.TUNING_SAMPLES", 200)
    train(request_for(tmp_path / "here"))
    train(request_for(tmp_path / "apart", workers=2))
    assert files_of(tmp_path / "apart") == files_of(tmp_path / "here")


@pytest.mark.parametrize("moment", range(1, WRITES, 3))
def test_a_stop_at_any_write_changes_nothing(moment, request_for, whole, tmp_path, monkeypatch):
    left = moment

    def stopping(function):
        def call(*arguments):
            nonlocal left
            left -= 1
            # Odd moments stop before the write reaches the disk, even ones after.
            if not left and moment % 2:
                raise Killed
            result = function(*arguments)
            if not left:
                raise Killed
            return result

        return call

    folder = tmp_path / "run"
    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", stopping(os.replace))
        patch.setattr(os, "fsync", stopping(os.fsync))
        try:
            train(request_for(folder))
        except Killed:
            stopped = True
        else:
            stopped = False
    assert stopped == (left <= 0)
    train(request_for(folder, resume=True))
    assert files_of(folder) == files_of(whole)


def test_half_a_line_of_a_stopped_run_is_cut_off(request_for, whole, tmp_path, monkeypatch):
    folder = tmp_path / "run"
    calls = iter(range(100))

    def stopping(*_arguments):
        if next(calls) == 8:
            raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", stopping)
        with pytest.raises(Killed):
            train(request_for(folder))
    assert (folder / STATE_NAME).exists()
    for name in ("metrics.jsonl", "metrics.csv", "validation.jsonl"):
        with (folder / name).open("ab") as stream:
            stream.write(b'{"checkpoint": 1, "sam')
    train(request_for(folder, resume=True))
    assert files_of(folder) == files_of(whole)


_SCRIPT = """\
import os, signal, sys
left = int(sys.argv[1])
replace = os.replace
def killing(*arguments):
    global left
    left -= 1
    if left == 0:
        os.killpg(0, signal.SIGKILL)  # the process that watches over this one, too
    return replace(*arguments)
os.replace = killing
from mcm_compiler.processes.one_thread import use_one_thread
use_one_thread()
from mcm_models.policy.layout import PolicyLayout
from mcm_models.ppo_settings import PpoSettings
from mcm_passes.families.ring.learning import partition_policy_trainer
from mcm_passes.families.ring.learning.recipes import RECIPES, Recipe
layout = PolicyLayout(layers=1, width=8, head_width=8, knots=4)
RECIPES["tiny"] = Recipe(rollouts=4, layout=layout, ppo=PpoSettings(epochs=1, minibatches=2))
partition_policy_trainer.NUM_TUNED = 1
partition_policy_trainer.TUNING_SAMPLES = 8
sys.argv[1:] = sys.argv[2:]
from mcm_compiler.cli.main import main
main()
"""


def test_a_killed_process_is_resumed_to_the_same_bytes(models_file, whole, tmp_path):
    def mcmc(folder: str, moment: int, *further: str) -> int:
        options = "--target mcm4 --recipe tiny --samples 24 --checkpoints 3 --workers 0"
        command = ["train", "policy", "-o", folder, "--data-set", str(models_file), *further]
        return subprocess.run(
            [sys.executable, "-c", _SCRIPT, str(moment), *command, *options.split()],
            cwd=tmp_path,
            capture_output=True,
            check=False,
            start_new_session=True,
        ).returncode

    # The run's options, two checkpoints, and a state lie behind it.
    assert mcmc("run", 6) == -signal.SIGKILL
    assert mcmc("run", -1, "--resume") == 0
    assert files_of(tmp_path / "run") == files_of(whole)


def test_what_a_killed_process_was_writing_goes_when_it_is_resumed(request_for, whole):
    left = [leave_private_folder(place) for place in (whole, whole / "checkpoints")]
    (whole / "policy.safetensors").unlink()
    train(request_for(whole, resume=True))
    assert not any(path.exists() for path in left)


def test_a_finished_training_is_left_as_it_is(request_for, whole):
    before = files_of(whole)
    again = train(request_for(whole, resume=True))
    assert files_of(whole) == before
    assert again.checkpoint == whole / "policy.safetensors"


def test_resume_begins_where_nothing_is_yet(request_for, whole, tmp_path):
    train(request_for(tmp_path / "run", resume=True))
    assert files_of(tmp_path / "run") == files_of(whole)


def test_a_folder_is_not_overwritten(request_for, whole):
    assert code_of(request_for(whole)) == "MCM-A001"


@pytest.mark.parametrize(
    "change", [{"seed": 5}, {"samples": 28}, {"checkpoints": 2}, {"target": "mcm16"}]
)
def test_another_training_is_not_resumed(change, request_for, whole):
    assert code_of(request_for(whole, resume=True, **change)) == "MCM-L008"


def test_a_folder_of_something_else_is_not_resumed(request_for, tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "notes.txt").write_text("mine")
    assert code_of(request_for(tmp_path / "run", resume=True)) == "MCM-L008"


def test_a_damaged_note_of_options_is_diagnosed(request_for, whole):
    (whole / "run.json").write_text("{")
    assert code_of(request_for(whole, resume=True)) == "MCM-L008"


def test_a_damaged_state_is_diagnosed(request_for, whole):
    (whole / "policy.safetensors").unlink()
    data = (whole / STATE_NAME).read_bytes()
    for damaged in (b"", data[:100], data[:-5], data.replace(b"mcm.card", b"mcm.cart")):
        (whole / STATE_NAME).write_bytes(damaged)
        assert code_of(request_for(whole, resume=True)) == "MCM-L009"


@pytest.mark.parametrize(
    ("lost", "numbers"),
    [
        ("optimizer/", {}),
        ("optimizer/0", {}),
        ("", {"checkpoints": 4}),
        ("", {"checkpoints": -1}),
        ("", {"iterations": 5}),
    ],
)
def test_a_state_that_no_training_comes_through_is_diagnosed(request_for, whole, lost, numbers):
    (whole / "policy.safetensors").unlink()
    path = whole / STATE_NAME
    with safe_open(path, "numpy") as file:
        card = json.loads(file.metadata()["mcm.card"])
        names = [name for name in file.keys() if not lost or not name.startswith(lost)]  # noqa: SIM118
        arrays = {name: file.get_tensor(name) for name in names}
    save_file(arrays, path, metadata={"mcm.card": json.dumps(card | numbers)})
    assert code_of(request_for(whole, resume=True)) == "MCM-L009"


def test_a_state_of_the_last_release_goes_on_with_a_note(request_for, whole):
    before = files_of(whole)
    (whole / "policy.safetensors").unlink()
    with safe_open(whole / STATE_NAME, "numpy") as file:
        arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        old = {"mcm.training": file.metadata()["mcm.card"]}
    save_file(arrays, whole / STATE_NAME, metadata=old)
    # It also noted the version of a library that is not used any more.
    run = json.loads((whole / "run.json").read_bytes())
    run["versions"]["flax"] = "0.12.8"
    (whole / "run.json").write_text(json.dumps(run))
    take_notices()
    with pytest.warns(DeprecationWarning, match="MCM-L014"):
        train(request_for(whole, resume=True))
    assert [note.code for note in take_notices()] == ["MCM-L014"]
    # Nothing was left to learn, so that no state was written.
    after = files_of(whole)
    assert {name for name in before if before[name] != after[name]} == {STATE_NAME, "run.json"}


def test_metrics_that_someone_has_cut_are_diagnosed(request_for, whole):
    (whole / "policy.safetensors").unlink()
    (whole / "metrics.csv").write_text("")
    assert code_of(request_for(whole, resume=True)) == "MCM-L009"


def test_rewards_that_are_no_numbers_are_diagnosed(request_for, tmp_path, monkeypatch):
    monkeypatch.setattr(
        "mcm_passes.families.ring.learning.tasks.relative_throughput",
        lambda periods, _: np.full(len(periods), np.nan),
    )
    assert code_of(request_for(tmp_path / "run")) == "MCM-L004"


def test_a_policy_that_diverges_is_diagnosed(request_for, tiny, tmp_path, monkeypatch):
    from mcm_passes.families.ring.learning import recipes

    wild = dataclasses.replace(tiny.ppo, learning_rate=1e30)
    monkeypatch.setitem(recipes.RECIPES, "tiny", dataclasses.replace(tiny, ppo=wild))
    assert code_of(request_for(tmp_path / "run")) == "MCM-L006"


def test_a_target_where_nothing_fits_is_diagnosed(request_for, tmp_path):
    models_file = tmp_path / "models.json"
    huge = "zoo:plain-cnn{stages=2,blocks=24,width=768,image_size=16,shape_only=true}"
    models_file.write_text(json.dumps({"train": [huge], "validation": [huge]}))
    asked = request_for(tmp_path / "run", data_set=str(models_file))
    assert code_of(asked) == "MCM-L007"
    assert not (tmp_path / "run").exists()


def test_an_unknown_recipe_is_diagnosed(request_for, tmp_path):
    assert code_of(request_for(tmp_path / "run", recipe="cake")) == "MCM-U003"


@pytest.mark.parametrize(("samples", "checkpoints"), [(1, 1), (23, 2), (100, 7), (8, 200)])
def test_checkpoints_are_even_and_end_with_the_training(tiny, samples, checkpoints):
    plan = PretrainingPlan(tiny, samples, checkpoints)
    stops = plan.stops()
    assert stops[-1] == plan.iterations == max(samples // tiny.rollouts, 1)
    assert len(stops) == min(checkpoints, plan.iterations)
    steps = np.diff([0, *stops])
    assert steps.min() >= 1
    assert steps.max() - steps.min() <= 1
