"""Policies over given groups learn what is better, and without updates they do not."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hier_planner.placers import HierarchicalGroups, Logits

from mcm_compiler.contracts.boxes.placers import PlacerRequest
from mcm_compiler.diagnostics import CompileError
from mcm_compiler.text import spec_text

WEIGHTS = np.array([3.0, 2.0, 1.0])


def placed(case, placer, evaluator, evaluations: int, start=None):
    request = PlacerRequest(case.problem, case.box, evaluator, evaluations=evaluations, start=start)
    return placer.place(request)


@pytest.mark.parametrize(
    "placer",
    [
        Logits(),
        Logits(epochs=2, clip=0.2, credit=0.5),
        HierarchicalGroups(hidden=2, learning_rate=0.1, epochs=2, clip=0.2),
    ],
    ids=["logits", "several epochs", "several epochs of a network"],
)
def test_learns_the_cheapest_device(case, counted, placer):
    answer = placed(case, placer, counted(WEIGHTS), 240)
    figures = dict(answer.figures)
    points = [value for name, value in answer.figures if name.startswith("mean score to")]
    assert points[-1] < 0.9 * points[0]
    assert figures["entropy of a group's device"] < 0.7 * math.log(3)


def test_control_without_updates_stays_as_it_began(case, counted):
    placer = Logits(learning_rate=0.0)
    answer = placed(case, placer, counted(WEIGHTS), 100)
    assert dict(answer.figures)["entropy of a group's device"] == pytest.approx(math.log(3))


def test_begins_at_a_given_placement(case, counted):
    """What it starts from is judged first, and is what most samples look like."""
    start = case.problem.allowed.shape[1] - 1 - case.problem.allowed[:, ::-1].argmax(axis=1)
    placer = Logits(learning_rate=0.0, start_weight=20.0)
    answer = placed(case, placer, counted(-WEIGHTS + 4), 41, start.astype(np.int32))
    assert answer.history == ((1, answer.history[0][1]),)
    assert (answer.device_of == start).all()
    assert answer.evaluations == 41


def test_groups_are_divided_into_pieces(case, counted):
    """As local search divides them: more of them, and no more placements for it."""
    groups: list[float] = []
    for parts in (0, 1, 4):
        placer = Logits(parts=parts)
        answer = placed(case, placer, counted(WEIGHTS), 12)
        groups.append(dict(answer.figures)["groups"])
        assert answer.evaluations == 12
    assert groups[0] < groups[1] < groups[2]


def test_a_table_has_no_width():
    with pytest.raises(CompileError, match="has no option 'hidden'"):
        spec_text.instantiate(Logits, spec_text.parse_one("logits{hidden=8}"))
