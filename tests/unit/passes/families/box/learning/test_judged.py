"""The best placement is kept, and scores that are no numbers are refused."""

from __future__ import annotations

import numpy as np
import pytest

from mcm_compiler.diagnostics import CompileError
from mcm_passes.families.box.learning.judged import Judged


def test_keeps_the_best(counted):
    judged = Judged(counted(np.array([3.0, 1.0])))
    placements = np.array([[0, 0, 1], [1, 1, 1], [0, 1, 1]], np.int32)
    judged.judge(placements)
    judged.judge(placements[:1])
    assert (judged.evaluations, judged.best_score) == (4, 3.0)
    assert judged.best.tolist() == [1, 1, 1]
    assert judged.history == [(1, 7.0), (2, 3.0)]
    assert judged.any_fits


def test_nan_is_refused(counted):
    judged = Judged(counted(np.array([np.nan, 1.0])))
    with pytest.raises(CompileError, match="MCM-D060") as caught:
        judged.judge(np.array([[0, 0], [1, 1]], np.int32))
    assert "2 of 2" in str(caught.value)
