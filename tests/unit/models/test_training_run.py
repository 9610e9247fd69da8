"""States of trainings on disk, folders that note what is trained, and the loop of all trainings."""

from __future__ import annotations

import dataclasses
import json
import os

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from mcm_compiler.contracts.training import TrainingProgress, TrainingRequest
from mcm_compiler.diagnostics import CompileError
from mcm_models.training_run import TrainingKind, TrainingLoop, save_state, training_folder

KIND = TrainingKind(most_bytes=10_000)
LIKE = {"weights/": {"a": np.zeros((2, 3), np.float32), "b": np.zeros(2, np.int64)}, "more/": None}


def saved(path, **changed):
    parts = {"weights/": {**LIKE["weights/"], **changed}, "more/": {"c": np.ones(1, np.uint64)}}
    save_state(path, {"steps": 3}, parts)


def refused(path):
    with pytest.raises(CompileError) as caught:
        KIND.load(path, dict[str, int], LIKE, lambda n: "" if n["steps"] == 3 else "other steps")
    return caught.value.diagnostics[0]


def test_a_state_comes_back_as_it_was(tmp_path):
    saved(tmp_path / "s", a=np.full((2, 3), 0.5, np.float32))
    numbers, parts = KIND.load(tmp_path / "s", dict[str, int], LIKE)
    assert numbers == {"steps": 3}
    assert {prefix: set(part) for prefix, part in parts.items()} == {
        "weights/": {"a", "b"},
        "more/": {"c"},
    }
    assert (parts["weights/"]["a"] == 0.5).all()


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"a": np.zeros((3, 2), np.float32)}, "another shape or type"),
        ({"a": np.zeros((2, 3))}, "another shape or type"),
        ({"a": np.full((2, 3), np.nan, np.float32)}, "not finite"),
        ({"a": np.full((2, 3), -np.inf, np.float32)}, "not finite"),
        ({"b": np.zeros(2, np.int32)}, "another shape or type"),
    ],
)
def test_changed_arrays_are_refused(tmp_path, changed, why):
    saved(tmp_path / "s", **changed)
    found = refused(tmp_path / "s")
    assert found.code == "MCM-L009"
    assert why in found.message


def test_files_that_are_no_states_are_refused(tmp_path):
    path = tmp_path / "s"
    assert refused(path).code == "MCM-L009"
    saved(path)
    whole = path.read_bytes()
    arrays = load_file(path)
    for content in (b"", whole[:9], whole[:-1], b"\xff" * 50, bytes(20_000)):
        path.write_bytes(content)
        assert refused(path).code == "MCM-L009"
    for numbers in ({"steps": 4}, {"steps": "3"}, {}, []):
        save_file(arrays, path, {"mcm.card": json.dumps(numbers)})
        assert refused(path).code == "MCM-L009"
    del arrays["weights/b"]
    save_file(arrays, path, {"mcm.card": '{"steps": 3}'})
    assert "weights/b" in refused(path).message


def test_folders_of_other_trainings_are_refused(tmp_path):
    other = dataclasses.replace(KIND, codes=("MCM-M059", "MCM-M059"))
    for kind, name in ((KIND, "run.json"), (other, "asked.json")):
        folder = tmp_path / name
        asked = {"width": 4, "of": {"x": [1, 2]}}
        kind.begin(folder, asked, name)
        kind.begin(folder, {**asked, "of": {"x": (1, 2)}}, name)
        for wrong in ({**asked, "width": 5}, {**asked, "of": {"x": [1]}}, {**asked, "new": 1}):
            with pytest.raises(CompileError, match=kind.codes[0]):
                kind.begin(folder, wrong, name)
        for content in (b"\xff", b"[]", b"[" * 100_000, b""):
            (folder / name).write_bytes(content)
            with pytest.raises(CompileError, match=kind.codes[0]):
                kind.begin(folder, asked, name)


def test_a_folder_is_unused_or_gone_on_with(tmp_path):
    (tmp_path / "notes").write_text("mine")
    with (
        pytest.raises(CompileError, match="MCM-A001"),
        training_folder(TrainingRequest(tmp_path, 0)),
    ):
        pass
    with training_folder(TrainingRequest(tmp_path, 0, resume=True)) as folder:
        assert folder == tmp_path
        with pytest.raises(CompileError, match="it holds files, but no training"):
            KIND.begin(folder, {})
    with (
        pytest.raises(CompileError, match="MCM-A"),
        training_folder(TrainingRequest(tmp_path / "new", 0)),
    ):
        raise OSError(28, os.strerror(28), "state")


@pytest.mark.parametrize("stops", [range(6), (2, 5), range(3, 6)])
@pytest.mark.parametrize("done", [0, 2, 5])
def test_a_loop_goes_on_from_its_state(done, stops):
    heard: list[TrainingProgress] = []
    steps, saved_at = [], []

    def stop(number):
        saved_at.append(number)
        return f"at {number}", {"score": 1.0}

    loop = TrainingLoop(5, heard.append, "samples", lambda count: 4 * count)
    loop.run(done, lambda number: steps.append(number) or {"loss": 0.5}, stop, lambda n: n in stops)
    assert steps == list(range(done + 1, 6))
    assert saved_at == [number for number in steps if number in stops]
    assert [(each.done, each.total) for each in heard] == [(4 * number, 20) for number in steps]
    notes = [max((s for s in saved_at if s <= number), default=None) for number in steps]
    assert [each.note for each in heard] == [f"at {n}" if n else "" for n in notes]
