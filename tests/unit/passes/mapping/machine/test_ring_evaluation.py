from __future__ import annotations

import numpy as np
import pytest

from mcm_passes.mapping.machine.evaluation import evaluate, period
from tests.oracles.ring_channels import ring_channels

LONG_SKIP = """
    g (float[250] x) => (float[250] y) <float[250] a, float[250] b, float[250] c> {
        a = Relu(x)
        b = Neg(a)
        c = Exp(b)
        y = Add(c, a)
    }"""
MASK = """
    g (float[250] x, float[250] k) => (float[250] y)
    <float[250] m, float[250] a, float[250] b> {
        m = Neg(k)
        a = Add(x, m)
        b = Exp(a)
        y = Add(b, m)
    }"""
MIB = 1 << 20


def us(values):
    return (np.asarray(values) * 1e6).round(6).tolist()


def test_a_relay_costs_time_links_and_memory(make_problem):
    problem = make_problem(LONG_SKIP, microseconds={"Exp": 5.0, "Identity": 0.25})
    result = evaluate(problem, np.array([0, 1, 1, 2], dtype=np.int32))
    assert result.valid
    assert us(result.chip_busy_s) == [1.0, 6.25, 1.0]
    channels = ring_channels(problem, result.channel_busy_s)
    # Each tensor is 1000 bytes, at 1 GB/s a microsecond.
    assert us(channels.links) == [1.0, 2.0]
    assert us(channels.host_in) == [1.0, 0.0, 0.0]
    assert us(channels.host_out) == [0.0, 0.0, 1.0]
    # Two slots of 1024 bytes each: x in and a out; a in, b local, a and c out; a, c in, y out.
    assert result.memory_bytes.tolist() == [4 * 1024, 6 * 1024 + 1280, 6 * 1024]
    assert result.period_s == pytest.approx(6.25e-6)


def test_behind_the_ends_links_carry_what_the_host_sends_and_gets(make_problem):
    problem = make_problem(MASK, host_io="ends", microseconds={"Identity": 0.25})
    result = evaluate(problem, np.array([1, 0, 0, 2], dtype=np.int32))
    assert [v.rule for v in result.violations] == ["acyclic"]
    result = evaluate(problem, np.array([1, 1, 1, 2], dtype=np.int32))
    assert [v.rule for v in result.violations] == ["no_skip"]
    result = evaluate(problem, np.array([0, 1, 1, 1], dtype=np.int32))
    assert result.valid
    channels = ring_channels(problem, result.channel_busy_s)
    assert us(channels.host_in) == [2.0, 0.0, 0.0]
    # The output leaves at the end of the package, whatever chips are used.
    assert us(channels.host_out) == [0.0, 0.0, 1.0]
    assert us(result.chip_busy_s) == [1.0, 3.0, 0.0]
    assert us(channels.links) == [2.0, 1.0]


def test_clones_run_where_they_are_read_and_cross_no_link(make_problem):
    problem = make_problem(MASK, clones=True)
    assert problem.clonable.tolist() == [True, False, False, False]
    result = evaluate(problem, np.array([2, 0, 0, 1], dtype=np.int32))
    assert result.valid
    assert result.chip_of.tolist() == [0, 0, 0, 1]
    assert result.copies.tolist() == [[True, True, False]]
    assert us(result.chip_busy_s) == [3.0, 2.0, 0.0]
    channels = ring_channels(problem, result.channel_busy_s)
    assert us(channels.links) == [1.0, 0.0]
    assert us(channels.host_in) == [2.0, 1.0, 0.0]


def test_a_strict_tensor_passes_without_relay(make_problem):
    problem = make_problem(LONG_SKIP, routing="strict")
    result = evaluate(problem, np.array([0, 1, 1, 2], dtype=np.int32))
    assert [v.rule for v in result.violations] == ["triangle"]
    assert us(result.chip_busy_s) == [1.0, 2.0, 1.0]
    assert period(problem, np.array([0, 1, 1, 2], dtype=np.int32)) == float("inf")
    assert evaluate(problem, np.array([0, 0, 1, 1], dtype=np.int32)).valid


def test_a_shared_weight_is_stored_once_per_chip(make_problem):
    text = """
        g (float[10,10] x) => (float[10,10] y)
        <float[10,10] a, float[10,10] b, float[10,10] w> {
            a = MatMul(x, w)
            b = MatMul(a, w)
            y = MatMul(b, w)
        }"""
    weight = "float[10,10] w = {" + ",".join(["1"] * 100) + "}"
    problem = make_problem(text.replace("float[10,10] w>", weight + ">"))
    result = evaluate(problem, np.array([0, 0, 1], dtype=np.int32))
    assert result.weight_bytes.tolist() == [448, 448, 0]


def test_memory_beyond_the_limit_is_a_violation(make_problem):
    problem = make_problem(LONG_SKIP, sram=(MIB, 1000, MIB))
    result = evaluate(problem, np.array([0, 1, 1, 2], dtype=np.int32))
    assert [(v.rule, v.chips) for v in result.violations] == [("memory", (1,))]


def test_chips_that_do_not_exist_are_a_violation_and_not_a_crash(make_problem):
    problem = make_problem(LONG_SKIP)
    result = evaluate(problem, np.array([0, 1, 9, -1], dtype=np.int32))
    assert [v.rule for v in result.violations] == ["range", "range"]


def test_pins_are_checked(make_problem):
    problem = make_problem(LONG_SKIP, pins={"Relu_0": 1})
    result = evaluate(problem, np.array([0, 1, 1, 2], dtype=np.int32))
    assert [(v.rule, v.nodes, v.chips) for v in result.violations] == [("pin", (0,), (1, 0))]


def test_a_slow_chip_takes_longer_and_a_fast_one_less(make_problem):
    problem = make_problem(LONG_SKIP, microseconds={"Identity": 0.5}, speeds=(1.0, 0.5, 2.0))
    result = evaluate(problem, np.array([0, 1, 1, 2], dtype=np.int32))
    assert us(result.chip_busy_s) == [1.0, 5.0, 0.5]


FOUR_WEIGHTS = """
    g (float[3, 3] x) => (float[3, 3] y)
    <float[3, 3] p = {1, 2, 3, 4, 5, 6, 7, 8, 9}, float[3, 3] q = {1, 2, 3, 4, 5, 6, 7, 8, 8},
     float[3, 3] r = {1, 2, 3, 4, 5, 6, 7, 8, 7}, float[3, 3] s = {1, 2, 3, 4, 5, 6, 7, 8, 6},
     float[3, 3] a, float[3, 3] b, float[3, 3] c> {
        a = MatMul(x, p)
        b = MatMul(a, q)
        c = MatMul(b, r)
        y = MatMul(c, s)
    }"""


def test_weights_beyond_the_memory_are_streamed_where_the_package_can(make_problem):
    on_one = np.zeros(4, dtype=np.int32)
    short = evaluate(make_problem(FOUR_WEIGHTS, chips=1, sram=640), on_one)
    assert short.memory_bytes.tolist() == [704]
    assert [v.rule for v in short.violations] == ["memory"]
    streaming = evaluate(make_problem(FOUR_WEIGHTS, chips=1, sram=640, stream=1e9), on_one)
    # Three of four weights of 64 bytes go, and two buffers for them come.
    assert streaming.valid
    assert streaming.memory_bytes.tolist() == [640]
    assert streaming.streamed_bytes.tolist() == [192]
    tight = evaluate(make_problem(FOUR_WEIGHTS, chips=1, sram=500, stream=1e9), on_one)
    assert [v.rule for v in tight.violations] == ["memory"]
