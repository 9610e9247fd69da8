"""Energy of an inference, against a count by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import TensorProto, helper, numpy_helper

from mcm_compiler.api import compile_model
from mcm_compiler.components.target_loading import load_target, target_from_text
from mcm_compiler.contracts.target import Target
from mcm_compiler.options import CompileOptions
from mcm_compiler.report.markdown import render_markdown
from mcm_compiler.report.report_data import build_report
from mcm_compiler.report.terminal import report_text
from mcm_compiler.results.compile_result import CompileResult
from tests.oracles.plain_energy import Product, picojoules

_PASSES = CompileOptions().passes.partition(",emit")[0]
_PJ = {"mac": 1.5, "sram": 12.5, "link": 14.0, "host": 80.0}
_FIELDS = {"mac": "compute_j", "sram": "sram_j", "link": "links_j", "host": "host_j"}


def _report(result: CompileResult) -> dict[str, Any]:
    return {**build_report(result)}


def _chain(shapes: list[tuple[int, int]], rows: int) -> ir.Model:
    weights = [
        numpy_helper.from_array(np.full(shape, 0.5, np.float32), f"w{at}")
        for at, shape in enumerate(shapes)
    ]
    nodes = [
        helper.make_node("MatMul", [f"x{at}", f"w{at}"], [f"x{at + 1}"], name=f"m{at}")
        for at in range(len(shapes))
    ]
    ends = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, [rows, width])
        for name, width in (("x0", shapes[0][0]), (f"x{len(shapes)}", shapes[-1][1]))
    ]
    graph = helper.make_graph(nodes, "chain", ends[:1], ends[1:], weights)
    opset = helper.make_opsetid("", 17)
    return ir.serde.deserialize_model(helper.make_model(graph, opset_imports=[opset]))


@pytest.mark.parametrize("chips", [(0, 1, 2), (0, 0, 0), (0, 1, 1), (0, 0, 1)], ids=str)
@pytest.mark.parametrize("rows", [1, 7])
def test_energy_is_that_of_a_count_by_hand(chips: tuple[int, ...], rows: int) -> None:
    shapes = [(32, 48), (48, 16), (16, 64)]
    pins = tuple((f"m{at}", chip) for at, chip in enumerate(chips))
    options = CompileOptions(passes=_PASSES, pins=pins)
    report = _report(compile_model(_chain(shapes, rows), "mcm4", options))
    expected = picojoules(
        [Product(rows, *shape, chip) for shape, chip in zip(shapes, chips, strict=True)], 2, _PJ
    )
    found = report["energy"]
    assert [row["chip"] for row in found["chips"]] == sorted(expected)
    for row in found["chips"]:
        for kind, field in _FIELDS.items():
            assert row[field] == pytest.approx(expected[row["chip"]][kind] * 1e-12)
    total_j = sum(sum(kinds.values()) for kinds in expected.values()) * 1e-12
    assert found["total_j"] == pytest.approx(total_j)
    assert found["power_w"] == pytest.approx(total_j * report["throughput_per_s"])
    assert found["energy_delay_js"] == pytest.approx(total_j * report["latency_s"])


def test_what_is_passed_on_counts_on_every_link() -> None:
    model = _chain([(32, 48), (48, 16)], 4)
    # The first product's input comes by the host, and its weights have no way to chip 2 but one.
    second = helper.make_node("MatMul", ["x1", "w2"], ["z"], name="other")
    proto = ir.serde.serialize_model(model)
    proto.graph.node.append(second)
    proto.graph.initializer.append(numpy_helper.from_array(np.ones((48, 8), np.float32), "w2"))
    third = helper.make_node("MatMul", ["x2", "w3"], ["y"], name="third")
    proto.graph.node.append(third)
    proto.graph.initializer.append(numpy_helper.from_array(np.ones((16, 8), np.float32), "w3"))
    total = helper.make_node("Add", ["y", "z"], ["s"], name="sum")
    proto.graph.node.append(total)
    del proto.graph.output[:]
    proto.graph.output.append(helper.make_tensor_value_info("s", TensorProto.FLOAT, [4, 8]))
    onnx.checker.check_model(proto)
    pins = (("m0", 0), ("m1", 1), ("third", 1), ("other", 2), ("sum", 2))
    options = CompileOptions(passes=_PASSES, pins=pins)
    report = _report(compile_model(ir.serde.deserialize_model(proto), "mcm4", options))
    joules = {row["chip"]: row["links_j"] for row in report["energy"]["chips"]}
    size, partial_size = 4 * 48 * 2, 4 * 8 * 2
    # Chip 1 passes the first result on beside its own.
    assert joules[0] == pytest.approx(size * _PJ["link"] * 1e-12)
    assert joules[1] == pytest.approx((size + partial_size) * _PJ["link"] * 1e-12)
    assert joules[2] == 0


def _without_keys(target: Target) -> Target:
    text = target.source_text
    head, _, rest = text.partition("# Nominal energy")
    return target_from_text(
        target.name, head + "[storage_bits]" + rest.partition("[storage_bits]")[2]
    )


def test_without_the_keys_nothing_is_said() -> None:
    plain = _without_keys(load_target("mcm4"))
    options = CompileOptions(passes=_PASSES)
    model = _chain([(32, 48), (48, 16)], 2)
    report = _report(compile_model(model, plain, options))
    with_keys = _report(compile_model(model, "mcm4", options))
    assert "energy" not in report
    assert "mm2" not in report_text(report) + render_markdown(report)
    assert "per inference: " in report_text(with_keys)
    assert "per inference: " in render_markdown(with_keys)
    # Nothing else depends on them.
    del with_keys["energy"]
    assert {**with_keys, "target": None} == {**report, "target": None}


def test_area_is_the_sum_of_its_parts() -> None:
    text = load_target("mcm4").source_text.replace("[area]", "[area]\nchip_mm2 = 3\nlink_mm2 = 0.5")
    report = _report(
        compile_model(
            _chain([(32, 48)], 2), target_from_text("mine", text), CompileOptions(passes=_PASSES)
        )
    )
    each = 3 + 64 * 64 * 0.003 + 64 * 2.03
    assert report["energy"]["package_mm2"] == pytest.approx(4 * each + 3 * 0.5)
