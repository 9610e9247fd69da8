"""What is said of open dimensions can be copied, and compiles as it is."""

from __future__ import annotations

import shlex

import onnx_ir as ir
import pytest

from mcm_compiler.cli.parameters import parse_dimension, parse_shape
from mcm_compiler.diagnostics import CompileError
from mcm_compiler.graph.dimensions import bind_dimensions, check_known
from mcm_compiler.graph.estimated_dims import usual_size


def model_of(**shapes):
    inputs = [
        ir.Value(name=name, shape=shape and ir.Shape(shape), type=ir.TensorType(ir.DataType.FLOAT))
        for name, shape in shapes.items()
    ]
    return ir.Model(ir.Graph(inputs, [], nodes=[], name="g"), ir_version=10)


def hint_for(dims=None, **shapes):
    with pytest.raises(CompileError) as refused:
        bind_dimensions(model_of(**shapes), dims or {}, {})
    *others, last = refused.value.diagnostics
    assert {d.code for d in (*others, last)} == {"MCM-I030"}
    assert all(d.hint is None for d in others)
    return last.hint.removeprefix("give sizes, such as ")


@pytest.mark.parametrize(
    ("shapes", "line"),
    [
        (
            {"ids": ["batch", "sequence"], "mask": ["batch", "sequence"]},
            "--dim batch=1 --dim sequence=128",
        ),
        ({"x": ["N", 3, "height", "width"]}, "--dim N=1 --dim height=224 --dim width=224"),
        ({"x": [None, 3, None, None]}, "--shape x=1,3,224,224"),
        ({"x": ["batch", None], "y": ["batch", 7]}, "--dim batch=1 --shape x=1,128"),
        # A dimension that only inputs with a whole shape have must not be given by --dim.
        ({"x": ["batch", None, "batch"]}, "--shape x=1,128,1"),
        ({"it's x": [None], "x": ["a b"]}, """--dim 'a b=1' --shape 'it'"'"'s x=1'"""),
    ],
)
def test_one_line_gives_all_open_dimensions_a_size(shapes, line):
    assert hint_for(**shapes) == line
    words = shlex.split(line)
    given = list(zip(words[::2], words[1::2], strict=True))
    model = model_of(**shapes)
    bind_dimensions(
        model,
        dict(parse_dimension(value) for flag, value in given if flag == "--dim"),
        dict(parse_shape(value) for flag, value in given if flag == "--shape"),
    )
    assert all(isinstance(size, int) for v in model.graph.inputs for size in v.shape)


def test_what_has_a_size_already_is_not_asked_for():
    assert hint_for({"batch": 4}, x=["batch", "seq"]) == "--dim seq=128"
    assert hint_for({"batch": 4}, x=["batch", None]) == "--shape x=4,128"


def test_without_a_rank_no_shape_is_made_up():
    assert hint_for(x=None) == "--shape x=N,..."


def test_usual_sizes_by_name():
    names = ["batch_size", "past_sequence_length", "num_mel_frames", "imageHeight", "C"]
    assert [usual_size(name) for name in names] == [1, 128, 100, 224, 1]
    assert [usual_size("", axis, 4) for axis in range(4)] == [1, 3, 224, 224]
    assert usual_size("unk__5", 1, 2) == 128


def test_a_name_that_no_model_knows_is_told_with_the_nearest():
    faults = check_known(["batch", "sequ"], [["batch"], ["seq", ""]], "dimension", "--dim")
    assert [d.code for d in faults] == ["MCM-U005"]
    assert faults[0].message == "no model has the dimension 'sequ'; they have: 'batch', 'seq'"
    assert faults[0].hint == "did you mean 'seq'?"


FORMULAS = {"x": ["N", 4], "y": ["2*N", "past + N"]}


def test_sizes_follow_from_those_that_a_dimension_is_made_of():
    model = model_of(**FORMULAS)
    bound = bind_dimensions(model, {"N": 3, "past": 5}, {})
    assert [list(value.shape) for value in model.graph.inputs] == [[3, 4], [6, 8]]
    assert bound == {"N": 3, "2*N": 6, "past": 5, "past + N": 8}
    again = model_of(**FORMULAS)
    assert bind_dimensions(again, bound, {}) == bound
    given = model_of(**FORMULAS)
    assert bind_dimensions(given, {"past": 1}, {"x": (2, 4)})["2*N"] == 4


def test_what_a_dimension_is_made_of_is_asked_for():
    assert hint_for(**FORMULAS) == "--dim N=1 --dim past=128"
    assert hint_for({"N": 3}, **FORMULAS) == "--dim past=128"


@pytest.mark.parametrize(
    ("dims", "shapes", "message"),
    [
        ({"N": 3, "2*N": 7}, {}, "the size of '2*N' is 7, and 6 for 'N' = 3"),
        ({"N": 3, "M": 8}, {}, "no size follows for 'N - M' from 'M' = 8, 'N' = 3"),
        ({"N": 3, "K": 0}, {}, "no size follows for 'N//K' from 'K' = 0, 'N' = 3"),
    ],
)
def test_sizes_that_do_not_fit_together(dims, shapes, message):
    other = "N//K" if "K" in dims else "N - M" if "M" in dims else 1
    with pytest.raises(CompileError) as refused:
        bind_dimensions(model_of(a=["N"], b=["2*N", other]), dims, shapes)
    (told,) = refused.value.diagnostics
    assert (told.code, told.message) == ("MCM-I031", message)
