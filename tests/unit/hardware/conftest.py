from __future__ import annotations

from collections.abc import Callable

import onnx
import onnx.parser
import onnx_ir as ir
import pytest

from mcm_hardware.chip.chip_spec import ChipSpec
from mcm_hardware.chip.roofline import Roofline
from mcm_hardware.families.ring.ring_target import mcm36


def parse(text: str, opset: int = 21) -> ir.Model:
    source = f'<ir_version: 10, opset_import: ["" : {opset}, "com.microsoft" : 1]>\n{text}'
    model = onnx.shape_inference.infer_shapes(onnx.parser.parse_model(source), data_prop=True)
    loaded = ir.serde.deserialize_model(model)
    for position, node in enumerate(loaded.graph):
        node.name = node.name or f"{node.op_type}_{position}"
    return loaded


@pytest.fixture
def model() -> Callable[..., ir.Model]:
    return parse


@pytest.fixture
def chip() -> ChipSpec:
    return mcm36().spec.reference


@pytest.fixture
def roofline(chip: ChipSpec) -> Roofline:
    return Roofline(chip)
