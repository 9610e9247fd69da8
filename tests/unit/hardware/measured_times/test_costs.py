"""Costs with measured times: whose time an op or kernel takes, and names that are not there."""

from __future__ import annotations

from dataclasses import replace

import onnx
import onnx.parser
import onnx_ir as ir
import pytest

from mcm_compiler.contracts.chips import ORIGIN_PROPERTY, name_before_copying
from mcm_compiler.contracts.cost import ModelNames
from mcm_hardware.chip.roofline import Roofline, cycle_model
from mcm_hardware.families.ring.ring_target import mcm36
from mcm_hardware.measured_times.table import MeasuredTimes
from mcm_hardware.measured_times.times_file import op_kind, read_times

CHIP = mcm36().spec.reference
TEXT = """<ir_version: 10, opset_import: ["" : 21]>
m (float16[8,16] x, float16[16,4] w, float16 s) => (float16[8,4] y) {
    [dense] a = MatMul (x, w)
    [scale] b = Mul (a, s)
    [act] c = Relu (b)
    [clip] y = Clip (c, , s)
}"""


@pytest.fixture
def nodes() -> list[ir.Node]:
    proto = onnx.shape_inference.infer_shapes(onnx.parser.parse_model(TEXT))
    return list(ir.serde.deserialize_model(proto).graph)


def costs(text: str, own: Roofline | None = None) -> MeasuredTimes:
    return MeasuredTimes(read_times(text.encode(), "t.csv", ""), own or Roofline(CHIP))


def test_an_op_takes_the_time_of_its_row_and_keeps_its_bytes(nodes: list[ir.Node]) -> None:
    own = Roofline(CHIP).node_cost(nodes[0])
    cost = costs("node,seconds\ndense,3e-3\n").node_cost(nodes[0])
    assert cost == replace(own, seconds=3e-3, measured_ops=1, measured_s=3e-3)


def test_what_was_not_measured_is_the_own_models(nodes: list[ir.Node]) -> None:
    assert costs("node,seconds\ndense,1\n").node_cost(nodes[2]) == Roofline(CHIP).node_cost(
        nodes[2]
    )


def test_a_row_by_name_wins_over_one_by_kind(nodes: list[ir.Node]) -> None:
    kinds = "op_type,inputs,type,node,seconds\nMatMul,8x16;16x4,float16,,5\n"
    assert costs(kinds).node_cost(nodes[0]).seconds == 5.0
    assert costs(f"{kinds},,,dense,7\n").node_cost(nodes[0]).seconds == 7.0


def test_kinds_tell_shapes_types_and_operands_that_are_left_away(nodes: list[ir.Node]) -> None:
    assert op_kind(nodes[1]) == ("Mul", "8x4;scalar", "float16")
    assert op_kind(nodes[3]) == ("Clip", "8x4;-;scalar", "float16")
    foreign = ir.Node("com.acme", "Blend", [None, nodes[0].outputs[0]])
    assert op_kind(foreign) == ("com.acme.Blend", "-;8x4", "float16")


def test_a_fused_kernel_takes_its_own_row_before_those_of_its_ops(nodes: list[ir.Node]) -> None:
    table = "kernel,node,seconds\nact,,9e-3\n,dense,1\n,scale,1\n,act,1\n"
    cost = costs(table).group_cost(nodes[:3])
    assert (cost.seconds, cost.measured_ops, cost.measured_s) == (9e-3, 3, 9e-3)
    assert costs(table).node_cost(nodes[2]).seconds == 1.0


def test_a_fused_kernel_without_a_row_takes_the_sum_and_the_rest_as_one_kernel(
    nodes: list[ir.Node],
) -> None:
    for own in (Roofline(CHIP), cycle_model(CHIP)):
        cost = costs("node,seconds\ndense,1e-3\n", own).group_cost(nodes[:3])
        rest = own.group_cost(nodes[1:3]).seconds
        assert rest > 0
        assert cost.seconds == pytest.approx(1e-3 + rest, rel=1e-15)
        assert (cost.measured_ops, cost.measured_s) == (1, 1e-3)
    whole = costs("node,seconds\ndense,1e-3\nscale,2e-3\nact,4e-3\n").group_cost(nodes[:3])
    assert (whole.seconds, whole.measured_ops) == (7e-3, 3)


def test_no_kernel_is_longer_in_search_than_in_the_simulator(nodes: list[ir.Node]) -> None:
    for text in ("node,seconds\ndense,0\n", "kernel,seconds\nact,1e-9\n", "node,seconds\nclip,1\n"):
        searched = costs(text).group_cost(nodes[:3]).seconds
        assert searched <= costs(text, cycle_model(CHIP)).group_cost(nodes[:3]).seconds


def test_a_copy_on_another_chip_takes_the_time_of_its_original(nodes: list[ir.Node]) -> None:
    table = costs("node,kernel,seconds\ndense,,3\n,act,4\n")
    for node in nodes[:3]:
        node.metadata_props[ORIGIN_PROPERTY] = node.name or ""
        node.name = f"{node.name}/on_chip_7"
    assert table.node_cost(nodes[0]).seconds == 3.0
    assert table.group_cost(nodes[:3]).seconds == 4.0


def test_a_name_that_only_looks_like_a_copys_is_its_own() -> None:
    node = ir.Node("", "Relu", [None], name="x/on_chip_3")
    assert name_before_copying(node) == "x/on_chip_3"
    node.metadata_props[ORIGIN_PROPERTY] = "x/on_chip_3"
    assert name_before_copying(node) == "x/on_chip_3"
    node.name = "x/on_chip_3/on_chip_5_2"
    assert name_before_copying(node) == "x/on_chip_3"


NAMES = ModelNames(
    frozenset({"dense", "scale", "act", "clip"}),
    frozenset({"folded"}),
    {"act": ("dense", "scale", "act")},
)


def test_times_of_ops_that_are_there_or_were_removed_are_right() -> None:
    table = "node,kernel,seconds\ndense,,1\nfolded,,1\nact,,1\n,act,1\n,clip,1\n,folded,1\n"
    assert costs(table).name_faults(NAMES) == []


@pytest.mark.parametrize(
    ("row", "code", "message", "hint"),
    [
        ("danse,,1", "MCM-C006", "the op 'danse'", "did you mean 'dense'"),
        ("zzz,,1", "MCM-C006", "the op 'zzz'", "mcmc opt"),
        (",ect,1", "MCM-C006", "the kernel 'ect'", "did you mean 'act'"),
        (",dense,1", "MCM-C006", "which is an op of 'act'", "column node"),
        ("clip,,1\n,clip,1", "MCM-C005", "a kernel of one op", "leave one"),
    ],
)
def test_times_of_what_is_not_there_are_refused(
    row: str, code: str, message: str, hint: str
) -> None:
    (found,) = costs(f"node,kernel,seconds\n{row}\n").name_faults(NAMES)
    assert found.code == code
    assert found.at == f"t.csv:{2 + row.count(chr(10))}"
    assert message in found.message
    assert hint in (found.hint or "")
