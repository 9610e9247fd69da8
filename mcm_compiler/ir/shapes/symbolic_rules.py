"""The rules of `onnxruntime.tools.symbolic_shape_infer`, applied to ops one by one.

The rules are made for exporters, where a guess does little harm. Guesses are left out here. Two
open dimensions are not taken as equal because an op broadcasts them, nor is an open dimension taken
as at least one. An op of a foreign domain need not do what one of the same name does. Ops of ONNX
itself are inferred by onnx where the values that decide are known.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
from onnx import TypeProto, ValueInfoProto, helper, numpy_helper
from onnxruntime.tools.symbolic_shape_infer import SymbolicShapeInference

from mcm_compiler.graph.constants import consumed_values
from mcm_compiler.graph.map_types import type_to_proto
from mcm_compiler.graph.op_classes import SHAPED_BY_VALUES
from mcm_compiler.ir.shapes.decoder_rules import OpSizes, covers, decoder_sizes, element_type

INT_MAX = 2**31 - 1
MAX_VALUE_BYTES = 1024
"""Size of a constant that takes part with its value."""

_STANDARD = ("", "ai.onnx")
_RUNTIME = "com.microsoft"

_STANDARD_RULES = frozenset(
    {"Add", "Cast", "Concat", "ConstantOfShape", "Div", "Equal", "Expand", "Gather", "Max", "Min",
     "Mul", "Neg", "Range", "ReduceProd", "Reshape", "Shape", "Size", "Slice", "Squeeze", "Sub",
     "Tile", "Unsqueeze", "Where"}
)  # fmt: skip
"""Ops of ONNX that compute with symbolic sizes."""

_RUNTIME_RULES = frozenset(
    {"Attention", "BiasGelu", "DequantizeLinear", "EmbedLayerNormalization", "FastGelu", "Gelu",
     "QLinearAdd", "QLinearMul", "QuantizeLinear", "QuickGelu"}
)  # fmt: skip
"""Ops of onnxruntime that it runs on a CPU, and whose rules agree with what it infers itself;
those of decoders have rules of our own (`decoder_rules`)."""

_RANGES: dict[int, tuple[int, int]] = {
    onnx.TensorProto.INT64: (-(2**63), 2**63 - 1),
    onnx.TensorProto.INT32: (-(2**31), 2**31 - 1),
    onnx.TensorProto.BOOL: (0, 1),
}


_WHOLE = (ir.DataType.INT64, ir.DataType.INT32)


def infer_region(
    model: ir.Model, nodes: Sequence[ir.Node], wanted: Sequence[ir.Value]
) -> list[ValueInfoProto]:
    """Types of the values of `wanted`, those without a type left out.

    Args:
        model: holds `nodes`.
        nodes: in topological order.
        wanted: outputs of them.
    """
    rules = _Rules(model)
    for node in nodes:
        rules.apply(node)
    return [info for value in wanted if (info := rules.result(value.name or "")) is not None]


def _takes_part(tensor: ir.TensorProtocol) -> bool:
    return tensor.nbytes <= MAX_VALUE_BYTES and tensor.dtype is not ir.DataType.STRING


class _Rules(SymbolicShapeInference):
    """Facts of values by name: types in `known_vi_`, numbers in `sympy_data_`."""

    def __init__(self, model: ir.Model) -> None:
        super().__init__(INT_MAX, auto_merge=False, guess_output_rank=False, verbose=0)
        self._model = model
        self._symbols = 0
        self._element_types: dict[str, int] = {}
        self._local = {(key[0], key[1]) for key in model.functions}
        empty = onnx.ModelProto(ir_version=model.ir_version or 8)
        for domain, version in model.opset_imports.items():
            empty.opset_import.add(domain=domain, version=version)
        self._empty = empty
        self._preprocess(empty)
        self.sympy_data_: dict[str, Any] = {}

    def apply(self, node: ir.Node) -> None:
        """Learns what the outputs of `node` are."""
        proto = ir.to_proto(node)
        assert isinstance(proto, onnx.NodeProto)
        reads = consumed_values(node)
        for value in reads:
            self._introduce(value)
        for value in node.outputs:
            if value.name and (told := self._told(value)) is not None:
                self.known_vi_[value.name] = told
        if any((v.name or "") not in self.known_vi_ for v in reads):
            return
        if (node.domain, node.op_type) in self._local:
            return
        if node.domain in (*_STANDARD, "ai.onnx.ml"):
            self._ask_onnx(proto, reads)
        if covers(node):
            self._apply_decoder_rule(node)
        rule = self._rule_of(node)
        if rule is not None and self._is_certain(proto):
            self._apply_rule(rule, proto)

    def result(self, name: str) -> ValueInfoProto | None:
        """Facts of the value `name`; of some only the element type."""
        if name in self.known_vi_:
            return self.known_vi_[name]
        kind = self._element_types.get(name)
        return helper.make_tensor_value_info(name, kind, None) if kind else None

    def _apply_decoder_rule(self, node: ir.Node) -> None:
        """Learns the shapes that a rule of our own finds."""
        names = [value.name or "" if value is not None else "" for value in node.inputs]
        absent = TypeProto.Tensor()
        types = [self.known_vi_[name].type.tensor_type if name else absent for name in names]
        deciding = [names[i] for i in SHAPED_BY_VALUES.get(node.op_type, ()) if i < len(names)]
        total = [entry for name in deciding for entry in self._entries(name) if _is_number(entry)]
        op = OpSizes(node, tuple(map(_sizes_of, types)), int(total[0]) if total else None)
        for value, made in zip(node.outputs, decoder_sizes(op), strict=False):
            if value.name and made is not None:
                kind = element_type(made, [each.elem_type for each in types])
                self._accept(helper.make_tensor_value_info(value.name, kind, made[1]), set())

    def _rule_of(self, node: ir.Node) -> Callable[[onnx.NodeProto], None] | None:
        trusted = _STANDARD_RULES if node.domain in _STANDARD else frozenset[str]()
        if node.domain == _RUNTIME:
            trusted = _RUNTIME_RULES
        if node.op_type not in trusted or not _is_covered(node):
            return None
        return self.dispatcher_.get(node.op_type)

    def _is_certain(self, node: onnx.NodeProto) -> bool:
        """Return whether the rule is right for the numbers at hand."""
        if node.op_type in ("Squeeze", "Unsqueeze") and len(node.input) > 1:
            return bool(self._entries(node.input[1]))
        if node.op_type == "Squeeze" and not node.attribute:  # takes open sizes for other than one
            sizes = _sizes_of(self.known_vi_[node.input[0]].type.tensor_type)
            return sizes is not None and None not in sizes
        if node.op_type not in ("ConstantOfShape", "Div", "Equal", "Where"):
            return True
        data = [self._entries(name) for name in node.input]
        if node.op_type == "ConstantOfShape":  # the rule makes the tensor
            sizes = [size for size in data[0] if _is_number(size) and size >= 0]
            return len(sizes) == len(data[0]) and math.prod(sizes) * 8 <= MAX_VALUE_BYTES
        if node.op_type == "Where":
            return all(map(_is_number, data[0]))
        pairs = [(a, b) for a in data[0] for b in data[1]]
        if node.op_type == "Div":  # the rule rounds down, the op towards zero
            return all(_is_at_least(a, 0) and _is_at_least(b, 1) for a, b in pairs)
        return all(
            a == b
            or (_is_number(a) and _is_number(b))
            or (_is_at_least(a, 0) and _is_number(b) and b < 0)
            for a, b in pairs
        )

    def _entries(self, name: str) -> list[Any]:
        data = self.sympy_data_.get(name)
        if data is None and name in self.initializers_:
            data = numpy_helper.to_array(self.initializers_[name]).reshape(-1).tolist()
        return data if isinstance(data, list) else [] if data is None else [data]

    def _introduce(self, value: ir.Value) -> None:
        """Makes known a value that is read: its type, and its entries if it is a small constant."""
        name = value.name or ""
        if name not in self.initializers_ and not value.is_graph_input():
            tensor = ir.convenience.get_const_tensor(value)
            if tensor is not None and _takes_part(tensor):
                self.initializers_[name] = numpy_helper.from_array(tensor.numpy(), name)
        if name not in self.known_vi_ and (info := self._told(value)) is not None:
            self.known_vi_[name] = info

    def _told(self, value: ir.Value) -> ValueInfoProto | None:
        """The type of a value as the model has it, with a symbol for each open dimension."""
        if value.type is None or (isinstance(value.type, ir.TensorType) and value.shape is None):
            return None
        info = ValueInfoProto(name=value.name or "")
        info.type.CopyFrom(type_to_proto(value.type))
        if isinstance(value.type, ir.TensorType):
            info.type.tensor_type.shape.SetInParent()
            for dim in value.shape or ():
                self._add_dim(info.type, dim if isinstance(dim, int) else None)
        return info

    def _add_dim(self, kind: TypeProto, size: int | None) -> None:
        dim = kind.tensor_type.shape.dim.add()
        if size is None:
            dim.dim_param = str(self._new_symbolic_dim_from_output(None))
        else:
            dim.dim_value = size

    def _new_symbolic_dim_from_output(self, node: Any, out_idx: int = 0, dim: int = 0) -> Any:
        """A symbol that no other has; the inherited one searches the whole graph for `node`."""
        self._symbols += 1
        return self._new_symbolic_dim(f"u{self._symbols}", 0)

    def _add_suggested_merge(self, symbols: Any, apply: bool = False) -> None:
        """Takes no two dimensions for equal."""

    def _ask_onnx(self, node: onnx.NodeProto, reads: Sequence[ir.Value]) -> None:
        """Infers one op of ONNX, with the numbers that are known of its inputs."""
        inputs = [self.known_vi_[value.name or ""] for value in reads]
        numbers = [n for n in map(self._number, dict.fromkeys(node.input)) if n is not None]
        outputs = [ValueInfoProto(name=name) for name in node.output if name]
        model = onnx.ModelProto()
        model.CopyFrom(self._empty)
        model.graph.CopyFrom(helper.make_graph([node], "op", inputs, outputs, numbers))
        try:
            inferred = onnx.shape_inference.infer_shapes(model)
        except Exception:  # several types; nothing is learnt
            return
        given = {
            dim.dim_param for info in inputs for dim in info.type.tensor_type.shape.dim
        }  # fmt: skip
        for info in inferred.graph.output:
            self._element_types[info.name] = info.type.tensor_type.elem_type
            self._accept(info, given)

    def _number(self, name: str) -> onnx.TensorProto | None:
        """The tensor `name` where its numbers are known."""
        if name in self.initializers_:
            return self.initializers_[name]
        data = self.sympy_data_.get(name)
        if data is None or name not in self.known_vi_:
            return None
        each = data if isinstance(data, list) else [data]
        if not all(_is_number(entry) for entry in each):
            return None
        kind = self.known_vi_[name].type.tensor_type.elem_type
        shape = [len(data)] if isinstance(data, list) else []
        return helper.make_tensor(name, kind, shape, [int(entry) for entry in each])

    def _accept(self, info: ValueInfoProto, given: set[str]) -> None:
        """Takes what was found for an output, unless it contradicts what was known."""
        if not info.name or info.type.WhichOneof("value") is None:
            return
        tensor = info.type.tensor_type
        old = self.known_vi_.get(info.name)
        if info.type.HasField("tensor_type"):
            if tensor.elem_type == onnx.TensorProto.UNDEFINED or not tensor.HasField("shape"):
                return
            dims = tensor.shape.dim
            if any(dim.HasField("dim_value") and dim.dim_value < 0 for dim in dims):
                return
            before = None if old is None else old.type.tensor_type.shape.dim
            if before is not None and len(before) != len(dims):
                return
            for i, dim in enumerate(dims):
                if before is not None and before[i].HasField("dim_value"):
                    dim.dim_value = before[i].dim_value
                elif not dim.HasField("dim_value") and dim.dim_param not in given:
                    dim.dim_param = str(self._new_symbolic_dim_from_output(None))
        elif old is not None:
            return
        self.known_vi_[info.name] = info

    def _apply_rule(self, rule: Callable[[onnx.NodeProto], None], node: onnx.NodeProto) -> None:
        outputs = [name for name in node.output if name]
        before = {name: self.known_vi_.get(name) for name in outputs}
        for name in outputs:
            self.known_vi_[name] = ValueInfoProto(name=name)
            if (known := before[name]) is not None:
                self.known_vi_[name].CopyFrom(known)
            elif kind := self._element_types.get(name):
                self.known_vi_[name].type.tensor_type.elem_type = kind
        try:
            rule(node)
        except Exception:  # rules assert, and reach into lists that may be too short
            for name in outputs:
                self.sympy_data_.pop(name, None)
            found = dict[str, ValueInfoProto]()
        else:
            found = {name: self.known_vi_[name] for name in outputs}
        for name in outputs:
            known = before[name]
            if known is None:
                del self.known_vi_[name]
            else:
                self.known_vi_[name] = known
        for name, info in found.items():
            if node.op_type != "Slice":  # its rule guesses; onnx knows what is certain
                self._accept(info, {d.dim_param for d in info.type.tensor_type.shape.dim} - {""})
            self._keep_numbers(name)

    def _keep_numbers(self, name: str) -> None:
        """Keeps what a rule computed only where it has the form and range of the tensor."""
        data = self.sympy_data_.pop(name, None)
        info = self.known_vi_.get(name)
        if data is None or info is None:
            return
        kind, dims = info.type.tensor_type.elem_type, info.type.tensor_type.shape.dim
        if kind not in _RANGES or len(dims) > 1:
            return
        flat = data.reshape(-1).tolist() if isinstance(data, np.ndarray) else data
        each = list(flat) if isinstance(flat, list | tuple) else [flat]
        if len(each) != (dims[0].dim_value if len(dims) == 1 else 1):
            return
        low, high = _RANGES[kind]
        if any(_is_number(entry) and not low <= entry <= high for entry in each):
            return
        self.sympy_data_[name] = each if len(dims) == 1 else each[0]


def _sizes_of(tensor: TypeProto.Tensor) -> tuple[int | None, ...] | None:
    """The sizes of a tensor, None for each that is open; None where there is no rank."""
    if not tensor.HasField("shape"):
        return None
    dims = tensor.shape.dim
    return tuple(dim.dim_value if dim.HasField("dim_value") else None for dim in dims)


def _is_number(entry: Any) -> bool:
    return isinstance(entry, int | np.integer) or bool(getattr(entry, "is_Integer", False))


def _is_at_least(entry: Any, least: int) -> bool:
    if _is_number(entry):
        return bool(entry >= least)
    known = getattr(entry, "is_positive" if least else "is_nonnegative", False)
    return known is True


def _is_covered(node: ir.Node) -> bool:
    """Return whether the rule knows the form of the op that `node` has."""
    attributes = node.attributes
    match node.op_type:
        case "Max" | "Min":
            return len(node.inputs) == 2
        case "Reshape":
            return not attributes.get_int("allowzero", 0)
        case "Cast":
            return attributes.get_int("to", 0) in _WHOLE
        case "Range":
            return all(v is None or v.dtype in _WHOLE for v in node.inputs)
        case _:
            return True
