from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import TensorProto, helper, numpy_helper

from mcm_compiler import CompileOptions
from mcm_compiler.api import compile_model, run_passes
from mcm_compiler.checking.check import check_folder
from mcm_compiler.diagnostics import CompileError
from mcm_compiler.graph.trip_counts import (
    assumed_trips,
    loops_of,
    state_trip_counts,
    stated_counts,
    trips_of,
)
from mcm_compiler.placed.folder_check import check_placement_folder
from mcm_compiler.placed.place_options import PlaceOptions
from mcm_compiler.placed.placing import place_model
from tests.generators.changed_folders import errors, rehash

ROWS = 8


def value(name, kind=TensorProto.FLOAT, shape=(ROWS, 64)):
    return helper.make_tensor_value_info(name, kind, shape)


def scalar(name, kind=TensorProto.INT64):
    return value(name, kind, ())


def body(prefix, nodes, last=None):
    """A body that runs on: its state is `{prefix}s`, its new one `{prefix}t`."""
    go_on = last or helper.make_node("Identity", [f"{prefix}c"], [f"{prefix}d"])
    return helper.make_graph(
        [*nodes, go_on],
        f"{prefix}body",
        [scalar(f"{prefix}i"), scalar(f"{prefix}c", TensorProto.BOOL), value(f"{prefix}s")],
        [scalar(f"{prefix}d", TensorProto.BOOL), value(f"{prefix}t")],
    )


def product(source, result):
    return helper.make_node("MatMul", [source, "w"], [result])


def loop(name, count, source, result, inner, condition=""):
    return helper.make_node("Loop", [count, condition, source], [result], name, body=inner)


def model_of(nodes, inputs=(), **constants):
    stored = {"w": np.eye(64, dtype=np.float32), **constants}
    graph = helper.make_graph(
        nodes,
        "loops",
        [value("x"), *inputs],
        [value("y")],
        [numpy_helper.from_array(np.asarray(array), name) for name, array in stored.items()],
    )
    imports = [helper.make_opsetid("", 17)]
    return helper.make_model(graph, opset_imports=imports, ir_version=8)


def by_input():
    inner = body("b", [product("bs", "bt")])
    return model_of([loop("loop", "n", "x", "y", inner)], [scalar("n")])


def nested():
    inner = loop("inner", "m", "as", "at", body("b", [product("bs", "bt")]))
    return model_of([loop("outer", "n", "x", "y", body("a", [inner]))], [scalar("n"), scalar("m")])


def while_small(limit_of_trips=None):
    """Adds 1 to all elements until their sum reaches an input."""
    nodes = [
        helper.make_node("Add", ["bs", "one"], ["bt"]),
        helper.make_node("ReduceSum", ["bt"], ["sum"], keepdims=0),
    ]
    inner = body("b", nodes, helper.make_node("Less", ["sum", "most"], ["bd"]))
    count = "" if limit_of_trips is None else "count"
    given = {} if limit_of_trips is None else {"count": np.int64(limit_of_trips)}
    node = loop("while", count, "x", "y", inner, "true")
    return model_of(
        [node], [scalar("most", TensorProto.FLOAT)], one=np.float32(1), true=np.bool_(1), **given
    )


def in_branch():
    inner = loop("loop", "n", "x", "r", body("b", [product("bs", "bt")]))
    same = helper.make_node("Identity", ["x"], ["r"])
    branches = {
        "then_branch": helper.make_graph([inner], "then", [], [value("r")]),
        "else_branch": helper.make_graph([same], "else", [], [value("r")]),
    }
    choice = helper.make_node("If", ["c"], ["y"], "if", **branches)
    return model_of([choice], [scalar("n"), scalar("c", TensorProto.BOOL)])


def over_sequence():
    nodes = [
        helper.make_node("SplitToSequence", ["x", "n"], ["parts"], "split", axis=0),
        helper.make_node("SequenceMap", ["parts"], ["made"], "map", body=helper.make_graph(
            [product("e", "f")], "g", [value("e", shape=(None, 64))], [value("f", shape=(None, 64))]
        )),
        helper.make_node("ConcatFromSequence", ["made"], ["y"], "join", axis=0),
    ]  # fmt: skip
    return model_of(nodes, [scalar("n")])


X = np.zeros((ROWS, 64), np.float32)
TRUE = np.bool_(1)

CASES = {
    "input": (by_input, {"n": 50}, {"loop": 50}),
    "no trip": (by_input, {"n": 0}, {"loop": 0}),
    "nested": (nested, {"n": 3, "m": 7}, {"outer": 3, "outer/inner": 7}),
    "condition": (while_small, {"most": np.float32(512 * 10 - 1)}, {"while": 10}),
    "early end": (lambda: while_small(100), {"most": np.float32(512 * 10 - 1)}, {"while": 10}),
    "branch taken": (in_branch, {"n": 20, "c": TRUE}, {"if/loop": 20}),
    "branch not taken": (in_branch, {"n": 20, "c": np.bool_(0)}, {"if/loop": 0}),
    "sequence": (over_sequence, {"n": 2}, {"map": 4}),
}
"""A model, data for it, and the trip counts that a person counts."""


@pytest.fixture(params=CASES)
def case(request, tmp_path):
    build, data, wanted = CASES[request.param]
    file = tmp_path / "data.npz"
    np.savez(file, x=X, **{name: np.asarray(number) for name, number in data.items()})
    return ir.from_proto(build()), str(file), wanted


def test_data_give_the_counts_and_without_them_nothing_is_claimed(case, tmp_path):
    model, data, wanted = case
    options = {"level": 0, "replicas": 1, "chips": 1, "inferences": 8}
    given = compile_model(
        model, "mcm4", CompileOptions(input=data, **options), output=tmp_path / "given"
    ).report
    assert given["model"]["trip_counts"] == wanted
    assert "assumed_trips" not in given
    assert given["analytic_gap"] is not None
    blind = compile_model(
        model, "mcm4", CompileOptions(**options), output=tmp_path / "blind"
    ).report
    assert set(blind["assumed_trips"]) == set(wanted)
    assert blind["lower_bound_s"] is blind["gap"] is blind["analytic_gap"] is None
    assert "MCM-P019" in [row["code"] for row in blind["diagnostics"]]
    for folder in ("given", "blind"):
        assert all(step.holds for step in check_folder(tmp_path / folder, seeds=(0,)).steps)


def test_a_stated_count_costs_what_a_constant_costs():
    inner = body("b", [product("bs", "bt")])
    constant = model_of([loop("loop", "n", "x", "y", inner)], n=np.int64(50))
    found = []
    for model, counts in ((constant, {}), (by_input(), {"loop": 50})):
        options = CompileOptions(passes="simplify,fuse,annotate_cost,partition", chips=1,
                                 replicas=1, level=0, trip_counts=counts)  # fmt: skip
        result = compile_model(ir.from_proto(model), "mcm4", options)
        found.append(result.partition)
    assert found[0].period_s == found[1].period_s
    assert found[1].gap == pytest.approx(0.0)


def test_counts_that_shapes_give_are_known():
    nodes = [
        helper.make_node("Shape", ["x"], ["sizes"], "shape"),
        helper.make_node("Gather", ["sizes", "first"], ["n"], "pick"),
        loop("loop", "n", "x", "y", body("b", [product("bs", "bt")])),
    ]
    model = ir.from_proto(model_of(nodes, first=np.int64(0)))
    compiled, _, _ = run_passes(model, "mcm4", CompileOptions(passes="simplify,annotate_cost"))
    ((_, node),) = loops_of(compiled.graph)
    assert (trips_of(node).count, trips_of(node).known) == (ROWS, True)


def test_a_placed_step_claims_a_bound_for_stated_counts_alone(tmp_path):
    model = ir.from_proto(by_input())
    blind = place_model(model, "box-cpu-gpu", PlaceOptions(level=0), output=tmp_path / "blind")
    given = PlaceOptions(level=0, trip_counts={"loop": 50})
    stated = place_model(model, "box-cpu-gpu", given, output=tmp_path / "stated")
    assert "MCM-P019" in [one.code for one in blind.diagnostics]
    assert blind.gap is None
    assert stated.gap is not None
    assert stated.seconds > 10 * blind.seconds
    for folder in ("blind", "stated"):
        assert all(step.holds for step in check_placement_folder(tmp_path / folder).steps)


def test_a_limit_that_a_condition_may_cut_short_is_an_assumption():
    assert assumed_trips(ir.from_proto(while_small(100)).graph) == {"while": 100}


def test_counts_in_the_file_are_not_believed():
    model = ir.from_proto(by_input())
    state_trip_counts([model.graph], {"loop": 3})
    assert stated_counts(model.graph) == {"loop": 3}
    compiled, found, _ = run_passes(model, "mcm4", CompileOptions(passes="annotate_cost"))
    assert assumed_trips(compiled.graph) == {"loop": 1}
    assert [one.code for one in found] == ["MCM-P019"]


def test_a_count_of_no_loop_is_refused():
    options = CompileOptions(trip_counts={"lop": 3})
    with pytest.raises(CompileError) as caught:
        compile_model(ir.from_proto(by_input()), "mcm4", options)
    assert caught.value.diagnostics[0].code == "MCM-I056"


MAPPED = """<ir_version: 9, opset_import: ["" : 18]>
m (float[6,4] x) => (float[6,4] y) <int64 two = {2}> {
    parts = SplitToSequence <axis = 0> (x, two)
    made = SequenceMap <body = b (float[2,4] e) => (float[2,4] f) { f = Relu (e) }> (parts)
    y = ConcatFromSequence <axis = 0> (made)
}"""


def limited(ends: str):
    if ends == "mapped":
        return onnx.parser.parse_model(MAPPED)
    if ends == "while":
        return while_small(100)
    inner = body("b", [product("bs", "bt")])
    return model_of([loop("loop", "n", "x", "y", inner)], n=np.int64(50))


@pytest.mark.parametrize(
    ("ends", "name", "count", "said"),
    [
        ("constant", "loop", 7, "runs 50 times with any data"),
        ("constant", "loop", 0, "runs 50 times with any data"),
        ("constant", "loop", 51, "runs 50 times with any data"),
        ("while", "while", 101, "runs at most 100 times"),
        ("mapped", "SequenceMap_1", 7, "runs 3 times with any data"),
    ],
)
def test_a_count_that_the_graph_contradicts_is_refused(ends, name, count, said):
    model = ir.from_proto(limited(ends))
    with pytest.raises(CompileError) as caught:
        compile_model(model, "mcm4", CompileOptions(trip_counts={name: count}))
    assert [one.code for one in caught.value.diagnostics] == ["MCM-I056"]
    assert said in caught.value.diagnostics[0].message


@pytest.mark.parametrize(
    ("ends", "name", "count"), [("constant", "loop", 50), ("while", "while", 0)]
)
def test_a_count_that_the_graph_allows_is_taken(ends, name, count):
    model = ir.from_proto(limited(ends))
    options = CompileOptions(passes="annotate_cost", trip_counts={name: count})
    compiled, _, _ = run_passes(model, "mcm4", options)
    assert stated_counts(compiled.graph) == {name: count}


def test_a_count_below_zero_is_refused():
    with pytest.raises(CompileError) as caught:
        CompileOptions(trip_counts={"loop": -1})
    assert caught.value.diagnostics[0].code == "MCM-U004"


@pytest.mark.parametrize("file", ["chip_00.onnx", "annotated.onnx", "manifest.json"])
def test_a_count_that_is_changed_in_a_folder_is_found(file, tmp_path):
    options = CompileOptions(level=0, replicas=1, chips=1, inferences=8, trip_counts={"loop": 50})
    folder = tmp_path / "out"
    compile_model(ir.from_proto(by_input()), "mcm4", options, output=folder)
    path = folder / file
    before = path.read_bytes()
    if file == "manifest.json":
        after = before.replace(b'"loop": 50', b'"loop": 51')
    else:
        after = before.replace(b"mcm.trip_count\x12\x0250", b"mcm.trip_count\x12\x0251")
    assert after != before
    path.write_bytes(after)
    rehash(folder)
    assert errors(folder) != []
