"""Pins, kinds and groups of the user."""

from __future__ import annotations

import numpy as np
import pytest

from mcm_compiler.contracts.boxes.box import INPUT, Box, StepProblem
from mcm_compiler.diagnostics import CompileError
from mcm_compiler.placed.constraints import constrained
from mcm_compiler.placed.place_options import PlaceOptions
from tests.generators.step_problems import box_of


def _box() -> Box:
    rate = np.full((3, 3), 1.0)
    np.fill_diagonal(rate, np.inf)
    return box_of(
        kinds=("haswell", "k40"),
        devices=("cpu:0", "gpu:0", "gpu:1"),
        kind_of=np.array([0, 1, 1], np.int32),
        memory_bytes=np.full(3, 100),
        copy_bytes_per_s=rate,
        copy_latency_s=np.zeros((3, 3)),
    )


def _problem() -> StepProblem:
    """An input; `fc1` and `fc1.update`, which run together; `fc2`, which no CPU runs; `out`."""
    names = ("x", "fc1", "fc1.update", "fc2", "out")
    allowed = np.ones((5, 3), np.bool_)
    allowed[0, 1:] = False
    allowed[3, 0] = False
    return StepProblem(
        names=names,
        op_types=(INPUT, "MatMul", "Sub", "MatMul", "Relu"),
        time_s=np.ones((5, 2)),
        value_names=names,
        value_bytes=np.ones(5, np.int64),
        producer=np.arange(5, dtype=np.int32),
        view_of=np.full(5, -1, np.int32),
        stays=np.zeros(5, np.bool_),
        kept=np.zeros(5, np.bool_),
        read_begin=np.array([0, 0, 1, 2, 3, 4]),
        reads=np.arange(4, dtype=np.int32),
        together=np.array([0, 1, 1, 2, 3], np.int32),
        allowed=allowed,
    )


def _with(**asked: object) -> StepProblem:
    return constrained(_problem(), _box(), PlaceOptions(**asked))  # pyright: ignore[reportArgumentType]


def test_nothing_asked_changes_nothing() -> None:
    problem = _problem()
    assert constrained(problem, _box(), PlaceOptions()) is problem


def test_a_pin_takes_along_what_runs_together() -> None:
    allowed = _with(pins=(("fc1", "gpu:1"),)).allowed
    assert allowed.tolist()[1:3] == [[False, False, True]] * 2
    assert allowed[3:].tolist() == _problem().allowed[3:].tolist()


def test_a_kind_leaves_its_devices() -> None:
    assert _with(kinds=(("*", "k40"),)).allowed.tolist() == [
        [True, False, False],  # inputs lie where they lie
        *[[False, True, True]] * 4,
    ]


def test_ops_together_are_one_group_with_what_all_of_them_may() -> None:
    found = _with(together=("fc*",))
    assert found.together.tolist() == [0, 1, 1, 1, 2]
    assert found.allowed[1:4].tolist() == [[False, True, True]] * 3


@pytest.mark.parametrize(
    ("asked", "code", "words"),
    [
        ({"pins": (("fc1", "gpu:7"),)}, "MCM-D070", "no device 'gpu:7'"),
        ({"kinds": (("fc1", "h100"),)}, "MCM-D070", "no kind of device 'h100'"),
        ({"pins": (("fc9", "gpu:1"),)}, "MCM-D071", "'fc9' fits none of 5 ops"),
        ({"pins": (("x", "cpu:0"),)}, "MCM-D071", "'x' fits none"),
        ({"together": ("[a]",)}, "MCM-D071", "'[a]' fits none"),
        ({"pins": (("fc1", "gpu:1"), ("*update", "gpu:0"))}, "MCM-D072", "'fc1' of type 'MatMul'"),
        ({"pins": (("fc2", "cpu:0"),)}, "MCM-D072", "'fc2'"),
        ({"pins": (("fc*", "gpu:0"),), "kinds": (("out", "k40"), ("fc2", "haswell"))},
         "MCM-D072", "'fc2'"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_told(asked: dict[str, object], code: str, words: str) -> None:
    with pytest.raises(CompileError) as caught:
        _with(**asked)
    first = caught.value.diagnostics[0]
    assert first.code == code
    assert words in first.message
    assert first.hint
