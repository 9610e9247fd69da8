from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from mcm_compiler.contracts.partition import Budget, LowerBound, Outcome
from mcm_compiler.diagnostics import CompileError
from mcm_compiler.registry import STRATEGIES
from mcm_compiler.text import spec_text
from mcm_passes.families.ring.contiguous.contiguous_dp import ContiguousDp
from mcm_passes.mapping.bounds.bounds import chain_of_units, lower_bound
from mcm_passes.mapping.machine.evaluation import period
from mcm_passes.mapping.problem.topological_orders import topological_orders
from mcm_passes.mapping.solving.solve import solve, with_sram_limits

CHAIN = """
    g (float[2] x) => (float[2] y)
    <float[2] a, float[2] b, float[2] c, float[2] d, float[2] e> {
        a = Relu(x)
        b = Neg(a)
        c = Exp(b)
        d = Sqrt(c)
        e = Abs(d)
        y = Relu(e)
    }"""
SKIP_ALL = CHAIN.replace("y = Relu(e)", "y = Add(e, a)")
KIB, TWO_KIB = (",".join(["1"] * n) for n in (256, 512))
KIB_WEIGHTS = f"""
    g (float[1] x) => (float[1] y)
    <float[1] a, float[1] b,
     float[256] v = {{{KIB}}}, float[256] w = {{{KIB}}}, float[512] z = {{{TWO_KIB}}}> {{
        a = UseV(x, v)
        b = UseW(a, w)
        y = UseZ(b, z)
    }}"""


def run(strategy, problem, budget=None):
    return strategy.solve(
        problem, lambda f: period(problem, f), np.random.default_rng(0), budget or Budget()
    )


def certified(problem, strategy):
    return solve(problem, strategy, np.random.default_rng(0), Budget(), strategy_text="s")


def test_dp_is_registered_and_its_options_print():
    assert STRATEGIES.get("dp").name == "dp"
    assert STRATEGIES.get("dp").summary
    strategy = spec_text.instantiate(ContiguousDp, spec_text.parse_one("dp{orders=2}"))
    assert spec_text.print_one("dp", strategy) == "dp{orders=2}"
    with pytest.raises(CompileError, match="orders is 0"):
        spec_text.instantiate(ContiguousDp, spec_text.parse_one("dp{orders=0}"))
    with pytest.raises(CompileError, match="tolerance is 1"):
        spec_text.instantiate(ContiguousDp, spec_text.parse_one("dp{tolerance=1}"))


def test_dp_balances(make_problem):
    problem = make_problem(CHAIN, chips=2, microseconds={"Sqrt": 3.0})
    assert run(ContiguousDp(), problem).chip_of.tolist() == [0, 0, 0, 1, 1, 1]
    assert period(problem, run(ContiguousDp(), problem).chip_of) == pytest.approx(5e-6)


def test_dp_uses_no_more_chips_than_help(make_problem):
    problem = make_problem(CHAIN, chips=6, microseconds={"Exp": 9.0})
    partition = certified(problem, ContiguousDp())
    assert partition.period_s == pytest.approx(9e-6)
    assert partition.num_chips_used == 3
    assert partition.gap == pytest.approx(0.0)


@pytest.mark.parametrize("strategy", [ContiguousDp(orders=1), ContiguousDp()])
def test_fewer_units_than_chips_is_no_error(make_problem, strategy):
    outcome = run(strategy, make_problem(CHAIN, chips=50))
    assert outcome.chip_of.max() <= 5


@pytest.mark.parametrize("strategy", [ContiguousDp(orders=1), ContiguousDp()])
def test_memory_forces_cuts_that_work_does_not(make_problem, strategy):
    """Three weights of 1, 1 and 2 KiB; a chip of 2.5 KiB holds the first two, or the last."""
    problem = make_problem(KIB_WEIGHTS, chips=3, sram=2560 + 512, microseconds={"UseV": 90.0})
    outcome = run(strategy, problem)
    assert outcome.chip_of is not None, outcome.reason
    tight = with_sram_limits(problem, (1536, 1536, 2560))
    assert run(ContiguousDp(), tight).chip_of.tolist() == [0, 1, 2]
    assert run(ContiguousDp(), with_sram_limits(problem, (2560, 1536, 1536))).chip_of is None


def test_the_order_of_weight_users_saves_memory(make_problem):
    """Two interleaved users of two weights: only the order by weight keeps each on one chip."""
    text = f"""
        g (float[1] x) => (float[1] y1, float[1] y2)
        <float[1] a, float[1] b, float[256] v = {{{KIB}}}, float[256] w = {{{KIB}}}> {{
            a = UseV(x, v)
            b = UseW(x, w)
            y1 = UseV(a, v)
            y2 = UseW(b, w)
        }}"""
    problem = make_problem(text, chips=2, sram=2000)
    assert [o.name for o in topological_orders(problem, 4)][:2] == ["given", "late"]
    assert run(ContiguousDp(orders=1), problem).chip_of is None
    assert run(ContiguousDp(orders=4), problem).chip_of is not None


@pytest.mark.parametrize("strategy", [ContiguousDp(orders=1), ContiguousDp()])
def test_pins_are_kept(make_problem, strategy):
    problem = make_problem(CHAIN, pins={"Neg_1": 1, "Relu_5": 1})
    outcome = run(strategy, problem)
    assert outcome.chip_of[[1, 5]].tolist() == [1, 1]
    assert np.isfinite(period(problem, outcome.chip_of))


@pytest.mark.parametrize("strategy", [ContiguousDp(orders=1), ContiguousDp()])
@pytest.mark.parametrize("pins", [{"Relu_0": 2}, {"Neg_1": 1, "Sqrt_3": 0}])
def test_pins_against_the_rules_are_a_reason(make_problem, strategy, pins):
    outcome = run(strategy, make_problem(CHAIN, pins=pins))
    assert outcome.chip_of is None
    assert "pinned" in outcome.reason


def test_strict_cuts_keep_every_dependency_between_neighbours(make_problem):
    strict = run(ContiguousDp(), make_problem(SKIP_ALL, routing="strict"))
    # Add_5 reads Relu_0, so that no more than two chips can be used.
    assert strict.chip_of.max() == 1
    relayed = run(ContiguousDp(), make_problem(SKIP_ALL, microseconds={"Identity": 0.1}))
    assert relayed.chip_of.max() == 2


def test_the_budget_limits_evaluations(make_problem):
    problem = make_problem(CHAIN, microseconds={"Exp": 1.7, "Abs": 2.3})
    assert run(ContiguousDp(), problem, Budget(evaluations=1)).evaluations == 1


def test_indivisible_units_raise_the_bound(make_problem):
    """Four units of 3 us on three chips: 4 us on average, but some chip has two of them."""
    problem = make_problem(
        CHAIN, microseconds={"Relu": 0.0, "Neg": 3.0, "Exp": 3.0, "Sqrt": 3.0, "Abs": 3.0}
    )
    assert chain_of_units(problem).seconds == pytest.approx(6e-6)
    assert "4 units" in lower_bound(problem).argument


def test_a_solution_has_a_certificate(make_problem):
    problem = make_problem(CHAIN)
    partition = certified(problem, ContiguousDp())
    assert partition.period_s == pytest.approx(2e-6)
    assert partition.bound.seconds == pytest.approx(2e-6)
    assert partition.strategy == "s"
    with pytest.raises(ValueError, match="read-only"):
        partition.chip_of[0] = 1


class Scripted:
    name = "scripted"
    summary = "returns what it was given"

    def __init__(self, *outcome):
        self.outcome = outcome

    def solve(self, problem, evaluate, rng, budget):
        return Outcome(*self.outcome)


BACKWARDS = np.array([1, 0, 0, 0, 0, 0], dtype=np.int32)
ONE_CHIP = np.zeros(6, dtype=np.int32)


@pytest.mark.parametrize(
    ("strategy", "change", "code", "words"),
    [
        (Scripted(None, 0, "no luck"), {}, "MCM-P008", "no luck"),
        (Scripted(BACKWARDS, 1), {}, "MCM-P009", "'Relu_0'"),
        (Scripted(ONE_CHIP, 1, "", LowerBound(1.0, "boast")), {}, "MCM-P009", "claims"),
        (ContiguousDp(), {"pins": {"Relu_0": 7}}, "MCM-P007", "chip 7"),
    ],
)
def test_faults_of_strategies_and_pins_are_diagnosed(make_problem, strategy, change, code, words):
    with pytest.raises(CompileError) as caught:
        certified(make_problem(CHAIN, **change), strategy)
    (diagnostic,) = caught.value.diagnostics
    assert diagnostic.code == code
    assert words in diagnostic.message
    assert diagnostic.at
    assert diagnostic.hint


def test_a_unit_larger_than_every_chip_is_named(make_problem):
    with pytest.raises(CompileError) as caught:
        certified(make_problem(KIB_WEIGHTS, sram=1536), ContiguousDp())
    (diagnostic,) = caught.value.diagnostics
    assert diagnostic.code == "MCM-P005"
    assert "'UseZ_2'" in diagnostic.message
    assert "'z'" in diagnostic.at


def test_the_reason_names_the_unit_whose_buffers_do_not_fit(make_problem):
    """Each op's tensor of 1000 bytes takes two slots on arrival and two when it leaves."""
    outcome = run(ContiguousDp(), make_problem(CHAIN.replace("[2]", "[250]"), sram=2048))
    assert outcome.chip_of is None
    assert "'Relu_0' alone needs 4.0 KiB on a chip of 2.0 KiB, 2.0 KiB of it" in (outcome.reason)


def test_the_reason_names_all_sizes_of_chips(make_problem):
    problem = make_problem(CHAIN.replace("[2]", "[250]"), sram=2048)
    problem = with_sram_limits(problem, (1024,) * (problem.num_chips - 1) + (1 << 20,))
    outcome = run(ContiguousDp(), problem)
    assert outcome.chip_of is None
    assert "needs 4.0 KiB on a chip of 1.0 KiB to 1.0 MiB" in outcome.reason


def test_weights_larger_than_the_package_are_diagnosed(make_problem):
    with pytest.raises(CompileError) as caught:
        certified(make_problem(KIB_WEIGHTS, chips=1, sram=3000), ContiguousDp())
    assert [d.code for d in caught.value.diagnostics] == ["MCM-P004"]


def test_a_model_without_ops_has_nothing_to_place(make_problem):
    problem = make_problem("g (float[2] x) => (float[2] x) { }")
    with pytest.raises(CompileError) as caught:
        certified(problem, ContiguousDp())
    assert [d.code for d in caught.value.diagnostics] == ["MCM-P002"]


def test_limits_of_another_package_are_refused(make_problem):
    problem = make_problem(CHAIN)
    assert with_sram_limits(problem, (1, 2, 3)).limits.sram_bytes == (1, 2, 3)
    with pytest.raises(ValueError, match="2 limits for 3 chips"):
        with_sram_limits(problem, (1, 2))
    assert dataclasses.replace(problem).names == problem.names
