"""Gradients of losses and other ops that ONNX defines by functions.

Those of losses are written out; the others go in reverse mode through the body of the function.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import onnx
import onnx_ir as ir
from onnx import helper

from mcm_compiler.contracts.gradients import GradientRequest, GradientRule, NotDifferentiable
from mcm_passes.differentiation.composition import composed
from mcm_passes.differentiation.rules import operands

Array = npt.NDArray[Any]
_Slot = ir.Value | Array | None
"""Meaning of a name in a body: a value of the graph, or an array that is known by now."""

_DATA_FREE = frozenset({"Shape", "Size"})
"""Ops that read the shape of their operand alone."""


class _Body:
    """One body on its way into the graph.

    What depends on constants and shapes alone is computed here, so that shapes stay static and
    branches are decided.
    """

    def __init__(self, request: GradientRequest, opset_imports: Mapping[str, int]) -> None:
        self._request = request
        self._ops = request.ops
        self._opset_imports = opset_imports

    def run(
        self, nodes: Sequence[onnx.NodeProto], slots: dict[str, _Slot], attributes: _Attributes
    ) -> None:
        """Emits nodes; `slots` gets what they make."""
        for node in nodes:
            self._emit(node, slots, attributes)

    def value(self, slot: _Slot) -> ir.Value | None:
        """A value of the graph for what a name stands for."""
        return self._ops.constant(slot) if isinstance(slot, np.ndarray) else slot

    def _emit(self, node: onnx.NodeProto, slots: dict[str, _Slot], attributes: _Attributes) -> None:
        given = [slots[name] if name else None for name in node.input]
        found = _resolved(node, attributes)
        if node.op_type == "If":
            self._decide(node, given[0], found, slots, attributes)
            return
        if node.op_type == "Scan":
            made = self._unrolled(found, [self.value(slot) for slot in given], slots, attributes)
            slots.update(zip(node.output, made, strict=False))
            return
        known = self._known(node, given, found)
        if known is not None:
            slots.update(zip(node.output, known, strict=True))
            return
        inputs = [self.value(slot) for slot in given]
        while inputs and inputs[-1] is None:
            inputs.pop()
        values = {a.name: ir.from_proto(a).value for a in found}
        made = self._ops.ops(len(node.output), node.op_type, *inputs, **values)
        slots.update(zip(node.output, made, strict=True))

    def _decide(
        self,
        node: onnx.NodeProto,
        condition: _Slot,
        found: Sequence[onnx.AttributeProto],
        slots: dict[str, _Slot],
        attributes: _Attributes,
    ) -> None:
        if not isinstance(condition, np.ndarray):
            raise NotDifferentiable("its body branches on a value that is computed")
        name = "then_branch" if condition.item() else "else_branch"
        branch = next(attribute.g for attribute in found if attribute.name == name)
        inner = dict(slots)
        for tensor in branch.initializer:
            inner[tensor.name] = onnx.numpy_helper.to_array(tensor)
        self.run(branch.node, inner, attributes)
        for name, value in zip(node.output, branch.output, strict=True):
            slots[name] = inner[value.name]

    def _unrolled(
        self,
        found: Sequence[onnx.AttributeProto],
        given: Sequence[ir.Value | None],
        slots: Mapping[str, _Slot],
        attributes: _Attributes,
    ) -> list[_Slot]:
        """The outputs of a `Scan`, step by step: last states, then what the steps gave."""
        ops = self._ops
        values: dict[str, Any] = {a.name: helper.get_attribute_value(a) for a in found}
        body: onnx.GraphProto = values["body"]
        scanned = [value for value in given[-values["num_scan_inputs"] :] if value is not None]
        states: list[_Slot] = list(given[: len(given) - len(scanned)])
        gives = len(body.output) - len(states)
        axes = values.get("scan_input_axes", [0] * len(scanned))
        turned = values.get("scan_input_directions", [0] * len(scanned))
        steps = self._request.shape(scanned[0])[axes[0]]
        rows = [
            self._rows(value, axis, steps)[:: -1 if back else 1]
            for value, axis, back in zip(scanned, axes, turned, strict=True)
        ]
        collected: list[list[ir.Value]] = [[] for _ in range(gives)]
        for step in range(steps):
            inner = dict(slots)
            for tensor in body.initializer:
                inner[tensor.name] = onnx.numpy_helper.to_array(tensor)
            parts: list[_Slot] = [*states, *(row[step] for row in rows)]
            inner.update((v.name, part) for v, part in zip(body.input, parts, strict=True))
            self.run(body.node, inner, attributes)
            made = [inner[value.name] for value in body.output]
            states = made[: len(states)]
            for place, slot in enumerate(made[len(states) :]):
                value = self.value(slot)
                assert value is not None
                collected[place].append(value)
        to_axes = values.get("scan_output_axes", [0] * gives)
        backwards = values.get("scan_output_directions", [0] * gives)
        stacked: list[_Slot] = []
        for parts_of, axis, back in zip(collected, to_axes, backwards, strict=True):
            wide = [
                ops.op("Unsqueeze", part, ops.constant(np.array([axis], np.int64)))
                for part in parts_of[:: -1 if back else 1]
            ]
            stacked.append(ops.op("Concat", *wide, axis=axis))
        return [*states, *stacked]

    def _rows(self, value: ir.Value, axis: int, steps: int) -> list[ir.Value]:
        """Slices of a value along an axis, without that axis."""
        sizes = self._ops.constant(np.ones(steps, np.int64))
        parts = self._ops.ops(steps, "Split", value, sizes, axis=axis)
        along = self._ops.constant(np.array([axis], np.int64))
        return [self._ops.op("Squeeze", part, along) for part in parts]

    def _known(
        self, node: onnx.NodeProto, given: Sequence[_Slot], found: Sequence[onnx.AttributeProto]
    ) -> list[Array] | None:
        """The outputs of a node as arrays, where they are known."""
        if node.op_type == "CastLike" and isinstance(given[0], np.ndarray):
            target = given[1]
            if isinstance(target, ir.Value) and target.dtype is not None:
                return [given[0].astype(target.dtype.numpy())]
        if node.op_type in _DATA_FREE and isinstance(given[0], ir.Value):
            shape = self._request.shape(given[0])
            given = [operands.of_shape(shape)]
        if not all(slot is None or isinstance(slot, np.ndarray) for slot in given):
            return None
        plain = onnx.NodeProto()
        plain.CopyFrom(node)
        del plain.attribute[:]
        plain.attribute.extend(found)
        return operands.computed(
            plain, cast("list[Array | None]", list(given)), self._opset_imports
        )


_Attributes = Mapping[str, onnx.AttributeProto]
"""The attributes of the op, which its body refers to."""


def _resolved(node: onnx.NodeProto, attributes: _Attributes) -> list[onnx.AttributeProto]:
    """The attributes of a node of a body, with those of the op where it refers to them."""
    found: list[onnx.AttributeProto] = []
    for attribute in node.attribute:
        if not attribute.ref_attr_name:
            found.append(attribute)
            continue
        meant = attributes.get(attribute.ref_attr_name)
        if meant is not None:
            named = onnx.AttributeProto()
            named.CopyFrom(meant)
            named.name = attribute.name
            found.append(named)
    return found


def _attributes_of(node: ir.Node, schema: onnx.defs.OpSchema) -> dict[str, onnx.AttributeProto]:
    found = {
        name: attribute.default_value
        for name, attribute in schema.attributes.items()
        if attribute.default_value.name
    }
    found.update({name: ir.to_proto(attribute) for name, attribute in node.attributes.items()})
    return found


@lru_cache(maxsize=256)
def _body(
    op_type: str, domain: str, version: int, node_bytes: bytes, types: tuple[bytes, ...]
) -> onnx.FunctionProto | None:
    """The body that ONNX gives an op of these attributes and operands, or None."""
    # onnx's stubs leave out what its schemas tell of functions.
    schema: Any = onnx.defs.get_schema(op_type, version, domain)
    if schema.has_function:
        suited = [v for v in schema.function_opset_versions if v <= version]
        opset = max(suited, default=max(schema.function_opset_versions))
        text = schema.get_function_with_opset_version(opset)
    elif schema.has_context_dependent_function:
        versions = schema.context_dependent_function_opset_versions
        opset = max((v for v in versions if v <= version), default=max(versions))
        text = schema.get_context_dependent_function_with_opset_version(
            opset, node_bytes, list(types)
        )
    else:
        return None
    function = onnx.FunctionProto()
    function.ParseFromString(text)
    return function


def through_body(request: GradientRequest) -> Sequence[ir.Value | None]:
    """Emits the body of an op; see `Forward`.

    Raises:
        NotDifferentiable: for one without a body, or whose body branches on what is computed.
    """
    node = request.node
    proto = ir.to_proto(node)
    types = tuple(
        b"" if value is None else _type_of(request, value).SerializeToString()
        for value in node.inputs
    )
    own = node.domain not in ("", "ai.onnx")
    version = 1 if own else request.version
    proto.name = ""
    function = _body(
        node.op_type, node.domain if own else "", version, proto.SerializeToString(), types
    )
    if function is None or not function.node:
        raise NotDifferentiable("onnx defines it by no other ops in this form")
    imports = {one.domain: one.version for one in function.opset_import}
    imports[""] = request.version
    slots: dict[str, _Slot] = {}
    for name, value in zip(function.input, node.inputs, strict=False):
        slots[name] = _known_or_itself(value)
    for name in function.input:
        slots.setdefault(name, None)
    schema = onnx.defs.get_schema(node.op_type, version, node.domain if own else "")
    body = _Body(request, imports)
    body.run(function.node, slots, _attributes_of(node, schema))
    return [body.value(slots.get(name)) for name in function.output]


def _known_or_itself(value: ir.Value | None) -> _Slot:
    """Whole numbers and truths that are known by their elements, which may decide shapes."""
    if value is None or value.dtype is None or value.dtype.is_floating_point():
        return value
    known = operands.known_value(value)
    return value if known is None else known


def _type_of(request: GradientRequest, value: ir.Value) -> onnx.TypeProto:
    if value.dtype is None:
        raise ValueError(f"the type of {value.name!r} is unknown")
    return helper.make_tensor_type_proto(int(value.dtype), request.shape(value))


def _scan_forward(request: GradientRequest) -> Sequence[ir.Value | None]:
    """A `Scan` written out: the length of what it scans is static."""
    body = _Body(request, {"": request.version})
    proto = ir.to_proto(request.node)
    slots: dict[str, _Slot] = {}
    names = [f"{index}" for index in range(len(request.node.outputs))]
    del proto.input[:], proto.output[:]
    proto.input.extend(f"scanned/{index}" for index in range(len(request.node.inputs)))
    proto.output.extend(names)
    slots.update(zip(proto.input, request.node.inputs, strict=True))
    body.run([proto], slots, {})
    return [body.value(slots[name]) for name in names]


DEFINED_BY_ONNX = (
    "AffineGrid", "Attention", "CausalConvWithState", "Celu", "CenterCropPad",
    "Gelu", "HardSwish", "LinearAttention", "MeanVarianceNormalization",
    "Mish", "RotaryEmbedding", "SwiGLU", "Swish", "ai.onnx.preview::FlexAttention",
)  # fmt: skip


def _hits_and_shares(request: GradientRequest) -> tuple[ir.Value, ir.Value]:
    """Where the labels stand, `[N, C, d...]`, and what arrives at each label, `[N, 1, d...]`.

    Labels that are to be ignored have no hit and get nothing.
    """
    ops, scores, labels = request.ops, operands.given(request, 0), operands.given(request, 1)
    weights = operands.operand(request, 2)
    kind = operands.numpy_type(scores)
    factors: ir.Value | None = None
    ignored = request.attribute("ignore_index", None)
    if ignored is not None:
        label = ops.constant(np.array(int(ignored), operands.numpy_type(labels)))
        skipped = ops.op("Equal", labels, label)
        nothing = ops.constant(np.array(0, operands.numpy_type(labels)))
        labels = ops.op("Where", skipped, nothing, labels)
        factors = ops.op("Where", skipped, ops.like(scores, 0.0), ops.like(scores, 1.0))
    if weights is not None:
        own = ops.op("Gather", weights, labels, axis=0)
        factors = own if factors is None else ops.op("Mul", factors, own)
    classes = ops.constant(np.array(request.shape(scores)[1], np.int64))
    hits = ops.op("OneHot", labels, classes, ops.constant(np.array([0, 1], kind)), axis=1)
    share = operands.arriving(request)
    count = int(np.prod(request.shape(labels), dtype=np.int64))
    if request.attribute("reduction", "mean") in ("mean", b"mean"):
        total = ops.like(scores, float(count))
        if factors is not None:
            total = ops.op("ReduceSum", factors, keepdims=0)
        share = ops.op("Div", share, total)
    if factors is not None:
        share = ops.op("Mul", share, factors)
    rank = len(request.shape(labels))
    shared = share.shape is not None and len(share.shape) == rank
    return hits, ops.op("Unsqueeze", share, operands.ints(ops, [1])) if shared else share


def _softmax_cross_entropy(request: GradientRequest) -> operands.Gradients:
    """`(softmax - hit) share`; what arrives at the logarithms comes on top."""
    if len(request.wanted) > 2 and request.wanted[2]:
        return composed(through_body)(request)
    ops, scores = request.ops, operands.given(request, 0)
    found: ir.Value | None = None
    chances = ops.op("Softmax", scores, axis=1)
    if request.gradients[0] is not None:
        hits, share = _hits_and_shares(request)
        found = ops.op("Mul", ops.op("Sub", chances, hits), share)
    if len(request.gradients) > 1 and request.gradients[1] is not None:
        logs = request.gradients[1]
        total = ops.op("ReduceSum", logs, operands.ints(ops, [1]), keepdims=1)
        more = ops.op("Sub", logs, ops.op("Mul", chances, total))
        found = more if found is None else ops.op("Add", found, more)
    return operands.placed(found, request)


def _negative_log_likelihood(request: GradientRequest) -> operands.Gradients:
    if len(request.wanted) > 2 and request.wanted[2]:
        return composed(through_body)(request)
    hits, share = _hits_and_shares(request)
    return operands.placed(request.ops.op("Neg", request.ops.op("Mul", hits, share)), request)


RULES: dict[str, GradientRule] = {
    **dict.fromkeys(DEFINED_BY_ONNX, composed(through_body)),
    "Scan": composed(_scan_forward),
    "SoftmaxCrossEntropyLoss": _softmax_cross_entropy,
    "NegativeLogLikelihoodLoss": _negative_log_likelihood,
}
