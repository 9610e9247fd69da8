"""Constants of a roofline that are fitted to measured times."""

from __future__ import annotations

import itertools

import onnx
import onnx.parser
import onnx_ir as ir
import pytest

from mcm_hardware.chip.calibration import calibration, scaled
from mcm_hardware.chip.roofline import cycle_model
from mcm_hardware.families.ring.ring_target import cpu_ring

OWN = cycle_model(cpu_ring().spec.reference)
SCALES = (0.5, 2.0, 4.0, 0.8)


@pytest.fixture(scope="module")
def kernels() -> list[ir.Node]:
    """Products, elementwise ops and copies of many sizes."""
    lines: list[str] = []
    for index, size in enumerate((32, 96, 256, 512, 1024)):
        lines += [
            f"x{index} = ConstantOfShape <value: tensor = float[1] {{1}}> (shape{index})",
            f"[product{index}] p{index} = MatMul (a{size}, a{size})",
            f"[erf{index}] e{index} = Erf (a{size})",
            f"[copy{index}] c{index} = Transpose (a{size})",
        ]
    sizes = (32, 96, 256, 512, 1024)
    shapes = ", ".join(f"int64[2] shape{index}" for index in range(5))
    arrays = ", ".join(f"float[{size},{size}] a{size}" for size in sizes)
    text = f"""<ir_version: 10, opset_import: ["": 21]>
    g ({shapes}, {arrays}) => (float[32,32] p0) {{ {"".join(lines)} }}"""
    proto = onnx.shape_inference.infer_shapes(onnx.parser.parse_model(text))
    return [node for node in ir.from_proto(proto).graph if node.name]


def test_scales_of_a_chip_are_found(kernels: list[ir.Node]) -> None:
    true = scaled(OWN, SCALES)
    measured = [((node,), true.node_cost(node).seconds) for node in kernels]
    found = calibration(OWN, measured, 1.0)
    assert found.kernels == len(kernels)
    assert found.before > 0.3
    assert found.left_out["constants"] < found.left_out["factor"]
    assert found.options["deviation"] == pytest.approx(found.left_out["constants"], rel=1e-3)
    fitted = [float(number) for number in str(found.options["scales"]).split()]
    assert fitted[1:] == pytest.approx(SCALES[1:], rel=0.1)
    assert found.changes["chip.mac_array.clock_mhz"] == pytest.approx(1 / fitted[1])
    assert found.changes["chip.launch_overhead_ns"] == fitted[0]
    computed = scaled(OWN, fitted)
    for nodes, seconds in measured:
        if seconds < 5e-6:  # the launch shows in one copy alone
            continue
        assert computed.group_cost(nodes).seconds == pytest.approx(seconds, rel=0.5)
    assert found.after < 0.01


def test_one_outlier_changes_little(kernels: list[ir.Node]) -> None:
    true = scaled(OWN, SCALES)
    measured = [((node,), true.node_cost(node).seconds) for node in kernels]
    middle = sorted(range(len(measured)), key=lambda at: measured[at][1])[len(measured) // 2]
    measured[middle] = (measured[middle][0], 30 * measured[middle][1])
    found = calibration(OWN, measured, 1.0)
    fitted = [float(number) for number in str(found.options["scales"]).split()]
    assert fitted[1:3] == pytest.approx(SCALES[1:3], rel=0.2)


def test_common_factor_stays_where_it_predicts_better(kernels: list[ir.Node]) -> None:
    measured = [((node,), 3.0 * OWN.node_cost(node).seconds) for node in kernels]
    found = calibration(OWN, measured, 3.0)
    assert found.options["factor"] == 3.0
    assert found.left_out["factor"] == pytest.approx(0.0, abs=1e-9)
    assert found.before == pytest.approx(2 / 3)
    assert found.changes["chip.sram_bandwidth_gb_per_s"] == pytest.approx(1 / 3)


def test_two_distinct_kernels_give_a_factor_alone(kernels: list[ir.Node]) -> None:
    pairs = itertools.product(kernels[:2], range(5))
    measured = [((node,), 2.0 * OWN.node_cost(node).seconds) for node, _ in pairs]
    found = calibration(OWN, measured, 2.0)
    assert (found.options, found.changes, found.kernels) == ({"factor": 2.0}, {}, 0)
