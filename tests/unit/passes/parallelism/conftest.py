"""Small models in ONNX's text form."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import numpy_helper

from mcm_compiler.ir.reading.importer import import_model
from mcm_passes.parallelism.classes.dimension_classes import DimensionClasses, dimension_classes
from mcm_passes.parallelism.rules.graph_rules import rules_of
from mcm_passes.parallelism.rules.rule_templates import Block

Import = Callable[..., ir.Model]
Classes = Callable[..., DimensionClasses]


@pytest.fixture
def imported() -> Import:
    """Reads `name (inputs) => (outputs) { ops }`; inputs named `w...` become weights of zeros."""

    def read(text: str, opset: int = 17) -> ir.Model:
        header = f'<ir_version: 8, opset_import: ["" : {opset}, "com.acme": 1]>'
        proto = onnx.parser.parse_model(header + text)
        for value in [v for v in proto.graph.input if v.name.startswith("w")]:
            shape = [dim.dim_value for dim in value.type.tensor_type.shape.dim]
            proto.graph.initializer.append(
                numpy_helper.from_array(np.zeros(shape, dtype=np.float32), value.name)
            )
            proto.graph.input.remove(value)
        return import_model(ir.from_proto(proto), "test")[0]

    return read


@pytest.fixture
def classes(imported: Import) -> Classes:
    """The dimension classes of such a model."""

    def find(text: str, opset: int = 17) -> DimensionClasses:
        model = imported(text, opset)
        return dimension_classes(model, rules_of(model))

    return find


@pytest.fixture
def dim_of():
    """The class of a dimension of a named value, with its runs, its size and what blocks it."""

    def find(found, name, dim):
        value = found.value_by_name[name]
        index = int(found.of(value)[dim])
        block = Block(int(found.block[index]))
        return index, found.runs_of(value, dim), int(found.size[index]), block

    return find
