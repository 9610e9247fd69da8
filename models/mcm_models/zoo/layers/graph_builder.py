"""Builds an `onnx_ir` model node by node, with the names that torch's exporters give."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from mcm_compiler.contracts.zoo import SHAPE_ONLY, WEIGHTS_KEY
from mcm_models.zoo.layers.weights import Uniform, random_tensor

Attribute = int | float | str | Sequence[int] | Sequence[float] | ir.TensorProtocol
Array = npt.NDArray[np.bool_] | npt.NDArray[np.int64] | npt.NDArray[np.float32]

_PRODUCER = "mcm-zoo"
_KEPT_ELEMENTS = 1024
"""A shape-only model keeps weights up to this size: filling them would save nothing."""
_FILL = 0.01
"""Value of a filled weight; not 0, which would make normalisations divide by their epsilon."""


def declare(value: ir.Value, dtype: ir.DataType, shape: Sequence[int | str]) -> ir.Value:
    """States the type of `value` where shape inference could not find it; returns `value`."""
    value.type = ir.TensorType(dtype)
    value.shape = ir.Shape(shape)
    return value


class GraphBuilder:
    """Collects the nodes and weights of one model.

    Args:
        name: name of the graph.
        opset: version of the standard operator set.
        ir_version: version of the file format.
        seed: seed of the random weights, `>= 0`.
        shape_only: large weights become `ConstantOfShape` nodes.
    """

    def __init__(
        self, name: str, *, opset: int, ir_version: int, seed: int, shape_only: bool
    ) -> None:
        self._name = name
        self._opset = opset
        self._ir_version = ir_version
        self._seed = seed
        self._shape_only = shape_only
        self._inputs: list[ir.Value] = []
        self._outputs: list[ir.Value] = []
        self._initializers: list[ir.Value] = []
        self._nodes: list[ir.Node] = []
        self._uses_of_name: dict[str, int] = {}

    @property
    def root(self) -> Scope:
        """The scope of the whole model."""
        return Scope(self, "")

    def input(self, name: str, dtype: ir.DataType, shape: Sequence[int | str]) -> ir.Value:
        """Adds a graph input; a string in `shape` is a symbolic dimension."""
        value = declare(ir.Value(name=name), dtype, shape)
        self._inputs.append(value)
        return value

    def output(
        self, value: ir.Value, name: str, dtype: ir.DataType, shape: Sequence[int | str]
    ) -> None:
        """Makes `value` a graph output, and gives it its name and type there."""
        value.name = name
        declare(value, dtype, shape)
        self._outputs.append(value)

    def node(
        self,
        scope_path: str,
        op_type: str,
        inputs: Sequence[ir.Value | None],
        attributes: dict[str, Attribute],
        num_outputs: int,
    ) -> Sequence[ir.Value]:
        """Appends a node named `<scope_path>/<op_type>`, numbered when the name is taken."""
        name = self._unused(f"{scope_path}/{op_type}")
        outputs = [ir.Value(name=f"{name}_output_{i}") for i in range(num_outputs)]
        self._nodes.append(ir.node(op_type, inputs, attributes, outputs=outputs, name=name))
        return outputs

    def weight(self, scope_path: str, name: str, shape: Sequence[int], values: Uniform) -> ir.Value:
        """Adds a random float32 weight that is generated when it is written."""
        if self._shape_only and math.prod(shape) > _KEPT_ELEMENTS:
            return self._filled(scope_path, name, shape, np.array([_FILL], dtype=np.float32))
        return self._initializer(name, random_tensor(name, shape, values, self._seed))

    def table(self, scope_path: str, name: str, array: Array) -> ir.Value:
        """Adds an array with given values, such as position numbers or a causal mask.

        A shape-only model fills a large one with its first element, which is as valid as any.
        """
        if self._shape_only and array.size > _KEPT_ELEMENTS:
            return self._filled(scope_path, name, array.shape, array.reshape(-1)[:1])
        return self._initializer(name, ir.tensor(array, name=name))

    def model(self) -> ir.Model:
        """The finished model."""
        graph = ir.Graph(
            self._inputs,
            self._outputs,
            nodes=self._nodes,
            initializers=self._initializers,
            opset_imports={"": self._opset},
            name=self._name,
        )
        properties = {WEIGHTS_KEY: SHAPE_ONLY} if self._shape_only else {}
        return ir.Model(
            graph,
            ir_version=self._ir_version,
            producer_name=_PRODUCER,
            metadata_props=properties,
        )

    def _filled(self, scope_path: str, name: str, shape: Sequence[int], fill: Array) -> ir.Value:
        extents_name = f"{name}.shape"
        extents = np.array(shape, dtype=np.int64)
        extents_value = self._initializer(extents_name, ir.tensor(extents, name=extents_name))
        attributes: dict[str, Attribute] = {"value": ir.tensor(fill)}
        (value,) = self.node(scope_path, "ConstantOfShape", [extents_value], attributes, 1)
        value.name = name
        return value

    def _initializer(self, name: str, tensor: ir.TensorProtocol) -> ir.Value:
        value = ir.Value(
            name=name,
            type=ir.TensorType(tensor.dtype),
            shape=ir.Shape(tensor.shape.numpy()),
            const_value=tensor,
        )
        self._initializers.append(value)
        return value

    def _unused(self, name: str) -> str:
        uses = self._uses_of_name.get(name, 0)
        self._uses_of_name[name] = uses + 1
        return f"{name}_{uses}" if uses else name


@dataclass(frozen=True)
class Scope:
    """A place in the model's tree of modules; it names what is built through it.

    Attributes:
        graph: the graph that nodes and weights go to.
        path: the module's dotted path, such as `encoder.layer.0.attention`.
    """

    graph: GraphBuilder
    path: str

    def sub(self, name: str) -> Scope:
        """The scope of a child module; `name` may hold several steps, dotted."""
        return Scope(self.graph, f"{self.path}.{name}" if self.path else name)

    def op(self, op_type: str, *inputs: ir.Value | None, **attributes: Attribute) -> ir.Value:
        """Appends a node with one output; an input of None is left out."""
        return self.graph.node(self._node_path, op_type, inputs, attributes, 1)[0]

    def ops(
        self, num_outputs: int, op_type: str, *inputs: ir.Value | None, **attributes: Attribute
    ) -> Sequence[ir.Value]:
        """Appends a node with `num_outputs` outputs."""
        return self.graph.node(self._node_path, op_type, inputs, attributes, num_outputs)

    def weight(self, name: str, shape: Sequence[int], values: Uniform) -> ir.Value:
        """Adds the weight `<path>.<name>`."""
        return self.graph.weight(self._node_path, self.sub(name).path, shape, values)

    def table(self, name: str, array: Array) -> ir.Value:
        """Adds the array `<path>.<name>` with given values."""
        return self.graph.table(self._node_path, self.sub(name).path, array)

    def floats(self, *values: float) -> ir.Value:
        """A `Constant` node: a scalar for one value, else a vector."""
        return self._constant(np.array(values, dtype=np.float32), len(values) == 1)

    def ints(self, *values: int) -> ir.Value:
        """A `Constant` node with an int64 vector, such as the target of a `Reshape`."""
        return self._constant(np.array(values, dtype=np.int64), False)

    def index(self, value: int) -> ir.Value:
        """A `Constant` node with an int64 scalar, such as the index of a `Gather`."""
        return self._constant(np.array([value], dtype=np.int64), True)

    def _constant(self, array: Array, scalar: bool) -> ir.Value:
        return self.op("Constant", value=ir.tensor(array.reshape(()) if scalar else array))

    @property
    def _node_path(self) -> str:
        # Exporters glue a number to the list that holds it: `layer.0.output` -> `/layer.0/output`.
        path = ""
        for step in self.path.split(".") if self.path else ():
            path += f".{step}" if step.isdigit() else f"/{step}"
        return path
