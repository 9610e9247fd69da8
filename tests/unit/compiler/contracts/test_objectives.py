"""What is asked of a placement beside validity, and what cannot be asked."""

from __future__ import annotations

import pytest

from mcm_compiler.contracts.objectives import PERIOD, Objective, meets
from mcm_compiler.diagnostics import CompileError
from mcm_compiler.options import CompileOptions


def test_only_the_period_without_a_limit_is_plain():
    assert PERIOD.plain
    assert CompileOptions().goal.plain
    assert not Objective(max_latency_s=1.0).plain
    assert CompileOptions(max_latency_s=1.0).goal.aim == "max-latency"
    # The fewest chips are found with strategies for the period.
    assert Objective("chips", throughput_per_s=2.0).aim == "period"
    assert Objective("latency").latency_limit_s == float("inf")


@pytest.mark.parametrize(
    ("given", "fault"),
    [
        ({"objective": "speed"}, "objective is 'speed'"),
        ({"max_latency_s": -1.0}, "not a positive number of seconds"),
        ({"max_latency_s": float("nan")}, "not a positive number of seconds"),
        ({"objective": "chips"}, "no throughput"),
        ({"objective": "chips", "throughput": 0.0}, "inferences per second"),
        ({"throughput": 5.0}, "is for the objective 'chips'"),
        ({"objective": "latency", "max_latency_s": 1.0}, "the objective is 'latency'"),
        ({"objective": "latency", "assignment": "cut.csv"}, "nothing to an objective"),
    ],
)
def test_what_makes_no_objective_is_refused(given, fault):
    with pytest.raises(CompileError, match=r"MCM-U004") as error:
        CompileOptions(**given)
    assert fault in str(error.value)


def test_strategies_that_say_nothing_are_for_the_period():
    class Mute:
        pass

    class Able:
        aims = ("latency",)

    assert meets(Mute(), PERIOD)
    assert not meets(Mute(), Objective("latency"))
    assert meets(Able(), Objective("latency"))
    assert not meets(Able(), Objective(max_latency_s=1.0))
