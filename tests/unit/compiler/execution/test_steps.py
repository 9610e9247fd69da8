"""A model that is run again on what it made in the step before."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from mcm_compiler.contracts.target import ChipState
from mcm_compiler.execution.runner import fed_back, run_steps


def test_a_past_is_the_end_of_a_present():
    present = np.arange(8.0).reshape(2, 4)
    np.testing.assert_array_equal(fed_back(present, np.zeros((2, 3))), present[:, 1:])
    np.testing.assert_array_equal(fed_back(present, np.zeros((2, 4))), present)
    assert fed_back(present, np.zeros((2, 0))).shape == (2, 0)


@pytest.mark.parametrize("window", [3, 0])
def test_each_step_runs_on_what_the_last_one_made(tmp_path, window):
    text = (
        f'<ir_version: 10, opset_import: ["" : 21]> m (float[{window}] past, float[1] x) => '
        f"(float[{window + 1}] present, float s) "
        "{ present = Concat<axis=0>(past, x) s = ReduceSum<keepdims=0>(present) }"
    )
    onnx.save(onnx.parser.parse_model(text), tmp_path / "m.onnx")
    steps = [{"past": np.zeros(window, np.float32), "x": np.float32([k])} for k in (1, 2, 4, 8, 16)]
    made = run_steps(tmp_path / "m.onnx", steps, [ChipState("past", "present", 0)])
    sums = [float(step["s"]) for step in made]
    assert sums == ([1, 3, 7, 15, 30] if window else [1, 2, 4, 8, 16])
