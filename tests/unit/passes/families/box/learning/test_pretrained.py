"""The pre-trained placer keeps to the rules and its evaluations, and has a control."""

from __future__ import annotations

import pytest

from mcm_compiler.contracts.boxes.placers import PlacerRequest
from mcm_passes.families.box.learning.pretrained import Pretrained


@pytest.mark.parametrize("policy", ["", "none"])
@pytest.mark.parametrize("evaluations", [1, 30])
def test_places_within_its_evaluations(case, policy: str, evaluations: int):
    placer = Pretrained(policy=policy, evaluations=evaluations)
    request = PlacerRequest(seed=3)
    one, same = (
        placer.place(case.problem, case.box, case.evaluator, request, lambda _: None)
        for _ in range(2)
    )
    assert one.evaluations == evaluations
    assert one.history == same.history
    score = case.evaluator.evaluate(one.device_of[None]).score[0]
    assert score == one.history[-1][1]
