"""Spelt-out normalisations are found in every form, and mere reductions are not."""

from __future__ import annotations

import pytest

from mcm_passes.parallelism.classes.dimension_classes import normalised_axes

HEAD = "g (float[4,6] x, float[6] w) => (float[4,6] y) <int64[1] last = {-1}, float two = {2.0}, "
HEAD += "float eps = {0.001}, float one = {1.0}, float half = {-0.5}> "

FORMS = {
    "layer norm": """{
        mean = ReduceMean<axes = [-1]>(x)
        c = Sub(x, mean)
        sq = Pow(c, two)
        v = ReduceMean<axes = [-1]>(sq)
        e = Add(v, eps)
        d = Sqrt(e)
        n = Div(c, d)
        y = Mul(n, w)
    }""",
    "rms norm by a reciprocal": """{
        sq = Mul(x, x)
        v = ReduceMean<axes = [-1]>(sq)
        e = Add(v, eps)
        d = Sqrt(e)
        r = Reciprocal(d)
        n = Mul(x, r)
        y = Mul(n, w)
    }""",
    "rms norm by a power": """{
        sq = Mul(x, x)
        v = ReduceMean<axes = [-1], keepdims = 0>(sq)
        e = Add(v, eps)
        r = Pow(e, half)
        u = Unsqueeze(r, last)
        n = Mul(u, x)
        y = Mul(n, w)
    }""",
    "scale joined with the root": """{
        sq = Mul(x, x)
        v = ReduceMean<axes = [-1]>(sq)
        e = Add(v, eps)
        d = Sqrt(e)
        r = Div(one, d)
        s = Mul(r, w)
        y = Mul(x, s)
    }""",
    "softmax": """{
        top = ReduceMax<axes = [-1]>(x)
        c = Sub(x, top)
        e = Exp(c)
        s = ReduceSum(e, last)
        n = Div(e, s)
        y = Mul(n, w)
    }""",
    "log softmax": """{
        e = Exp(x)
        s = ReduceSum(e, last)
        l = Log(s)
        n = Sub(x, l)
        y = Mul(n, w)
    }""",
    "log softmax in one": """{
        l = ReduceLogSumExp<axes = [-1]>(x)
        n = Sub(x, l)
        y = Mul(n, w)
    }""",
    "l2 norm": """{
        l = ReduceL2<axes = [-1]>(x)
        m = Max(l, eps)
        n = Div(x, m)
        y = Mul(n, w)
    }""",
}

OTHERS = {
    "centred": """{
        mean = ReduceMean<axes = [-1]>(x)
        c = Sub(x, mean)
        y = Mul(c, w)
    }""",
    "subtracted from": """{
        e = Exp(x)
        s = ReduceSum(e, last)
        l = Log(s)
        n = Sub(l, x)
        y = Mul(n, w)
    }""",
    "squeeze and excitation": """{
        mean = ReduceMean<axes = [-1]>(x)
        g = Sigmoid(mean)
        c = Mul(x, g)
        y = Mul(c, w)
    }""",
    "divided the other way": """{
        mean = ReduceMean<axes = [-1]>(x)
        c = Div(mean, x)
        y = Mul(c, w)
    }""",
}


@pytest.mark.parametrize("form", FORMS)
def test_finds_it(imported, form):
    found = normalised_axes(imported(HEAD + FORMS[form]))
    assert {dim for _, dim, _, _ in found} == {1}
    assert all(("softmax" in what) == ("softmax" in form) for _, _, _, what in found)


@pytest.mark.parametrize("form", OTHERS)
def test_leaves_alone_what_is_none(imported, form):
    assert normalised_axes(imported(HEAD + OTHERS[form])) == []


def test_a_cross_entropy_is_a_reduction(imported):
    model = imported(
        """g (float[4,6] x, float[4,6] hit) => (float[4] y) <int64[1] last = {-1}> {
          top = ReduceMax<axes = [-1]>(x)
          c = Sub(x, top)
          e = Exp(c)
          s = ReduceSum<keepdims = 0>(e, last)
          l = Log(s)
          p = Mul(c, hit)
          q = ReduceSum<keepdims = 0>(p, last)
          y = Sub(l, q)
        }"""
    )
    assert normalised_axes(model) == []


def test_several_axes_at_once(imported):
    model = imported(
        """g (float[2,3,4,5] x) => (float[2,3,4,5] y) <float eps = {0.001}> {
          mean = ReduceMean<axes = [2, 3]>(x)
          c = Sub(x, mean)
          sq = Mul(c, c)
          v = ReduceMean<axes = [2, 3]>(sq)
          e = Add(v, eps)
          d = Sqrt(e)
          y = Div(c, d)
        }"""
    )
    assert sorted(dim for _, dim, _, _ in normalised_axes(model)) == [2, 3]


def test_axes_as_an_operand(imported):
    model = imported(
        """g (float[4,6] x) => (float[4,6] y) <int64[1] last = {1}> {
          l = ReduceL2(x, last)
          y = Div(x, l)
        }""",
        opset=18,
    )
    assert [dim for _, dim, _, _ in normalised_axes(model)] == [1]
