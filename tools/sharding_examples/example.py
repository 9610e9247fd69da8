"""One example of an operator: operands, attributes, and the model of one node made of them."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime as ort
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from mcm_compiler.contracts.sharding.rules import OpFacts, ShardingRule
from mcm_passes.parallelism.rules.graph_rules import GraphRules, RuleTable

Array = np.ndarray[Any, Any]
Operand = str | tuple[int, ...] | Array | None

KINDS: dict[str, Any] = {
    "f": np.float32,
    "p": np.float32,
    "b": np.bool_,
    "u8": np.uint8,
    "i8": np.int8,
    "i32": np.int32,
    "i64": np.int64,
    "s": np.object_,
}
"""Element types; `f` is drawn from a normal distribution, `p` between 0.3 and 0.9."""


@dataclass(frozen=True)
class Example:
    """An op with its operands.

    Attributes:
        operator: in ONNX's domain.
        operands: each a text of element type and sizes (`f 4 6`, or `i64<5 4` for numbers below
            5), a tuple of integers for a constant that the rule may depend on, an array, or None
            for one that is left out.
        attributes: of the node.
        results: how many results are asked for.
        version: opset.
    """

    operator: str
    operands: tuple[Operand, ...]
    attributes: dict[str, Any] = field(default_factory=dict)
    results: int = 1
    version: int = 21

    def arrays(self) -> list[Array | None]:
        """Values of the operands, the same every time."""
        rng = np.random.default_rng(zlib.crc32(repr((self.operator, self.operands)).encode()))
        return [_array(operand, rng) for operand in self.operands]

    def facts_and_rule(
        self, table: RuleTable, arrays: Sequence[Array | None], results: Sequence[Array]
    ) -> tuple[OpFacts, ShardingRule]:
        """What the compiler knows of the op in a graph, and its rule."""
        constant = [i for i, o in enumerate(self.operands) if isinstance(o, (tuple, np.ndarray))]
        model = one_node(self, self.attributes, arrays, results, constant)
        read = ir.from_proto(model)
        rules = GraphRules(read, table)
        return rules.facts(read.graph[0]), rules.rule(read.graph[0])

    def run(
        self, arrays: Sequence[Array | None], attributes: dict[str, Any] | None = None
    ) -> list[Array]:
        """The results in onnxruntime, or in ONNX's reference where it lacks the operator."""
        attributes = self.attributes if attributes is None else attributes
        model = one_node(self, attributes, arrays, None, ())
        feeds = {f"x{i}": a for i, a in enumerate(arrays) if a is not None}
        return _runner(model.SerializeToString(deterministic=True)).run(None, feeds)  # type: ignore[no-any-return]


def _array(operand: Operand, rng: np.random.Generator) -> Array | None:
    if operand is None or isinstance(operand, np.ndarray):
        return operand
    if isinstance(operand, tuple):
        return np.array(operand, np.int64)
    kind, *sizes = operand.split()
    name, _, below = kind.partition("<")
    shape, dtype = [int(s) for s in sizes], KINDS[name]
    if below:
        return rng.integers(0, int(below), shape).astype(dtype)
    if name == "s":
        words = rng.choice(np.array(["a", "b1", "cc", "d 2"], np.object_), shape)
        return np.asarray(words, np.object_)
    if name == "b":
        return rng.random(shape) < 0.5
    if name == "f":
        return rng.standard_normal(shape).astype(dtype)
    if name == "p":
        return rng.uniform(0.3, 0.9, shape).astype(dtype)
    return rng.integers(0 if name == "u8" else -50, 100, shape).astype(dtype)


def one_node(
    example: Example,
    attributes: dict[str, Any],
    arrays: Sequence[Array | None],
    results: Sequence[Array] | None,
    constant: Sequence[int],
) -> onnx.ModelProto:
    """The op alone: operands `x0`, `x1`, ..., results `y0`, ...

    Args:
        example: gives operator and opset.
        attributes: of the node.
        arrays: values of operands; shapes are declared only where `results` gives all of them.
        results: values of results, or None.
        constant: operands that become initializers.
    """
    names = ["" if a is None else f"x{i}" for i, a in enumerate(arrays)]
    made = [f"y{i}" for i in range(example.results)]
    node = helper.make_node(example.operator, names, made, "op", **attributes)
    shaped = results is not None
    inputs = [
        helper.make_tensor_value_info(f"x{i}", _type(a), a.shape if shaped else None)
        for i, a in enumerate(arrays)
        if a is not None and i not in constant
    ]
    weights = [
        numpy_helper.from_array(a, f"x{i}")
        for i, a in enumerate(arrays)
        if a is not None and i in constant
    ]
    outputs = (
        [
            helper.make_tensor_value_info(n, _type(r), r.shape)
            for n, r in zip(made, results, strict=True)
        ]
        if results is not None
        else [helper.make_empty_tensor_value_info(name) for name in made]
    )
    graph = helper.make_graph([node], "example", inputs, outputs, weights)
    imports = [helper.make_opsetid("", example.version)]
    return helper.make_model(graph, opset_imports=imports, ir_version=10)


def _type(array: Array) -> int:
    if array.dtype == np.object_ or array.dtype.kind == "U":
        return onnx.TensorProto.STRING
    return helper.np_dtype_to_tensor_dtype(array.dtype)


@lru_cache(maxsize=256)
def _runner(model: bytes) -> Any:
    options = ort.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    try:
        return ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    except Exception:  # no kernel, or an opset that it does not know
        return ReferenceEvaluator(onnx.load_from_string(model))
