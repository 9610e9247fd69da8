"""Ops on constants, computed by onnxruntime: what a compiler may put in their place."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence

import numpy as np
import onnx
import onnx_ir as ir

from mcm_compiler.diagnostics import CompileError
from mcm_compiler.equivalence.values.value_numbers import ConstantOp, OutputKey, ValueNumbers
from mcm_compiler.execution.runner import run_model

MAX_ROUND_BYTES = 1 << 28
"""Operands that one session gets."""

MAX_SESSIONS = 200
"""Sessions that are opened to get around ops that onnxruntime refuses."""

_IR_VERSION = 10

_TYPES = frozenset(
    {
        ir.DataType.FLOAT, ir.DataType.DOUBLE, ir.DataType.BOOL,
        ir.DataType.INT8, ir.DataType.INT16, ir.DataType.INT32, ir.DataType.INT64,
        ir.DataType.UINT8, ir.DataType.UINT16, ir.DataType.UINT32, ir.DataType.UINT64,
    }
)  # fmt: skip
"""Of operands and results. Floats of 16 bits are rounded or not depending on their neighbours."""

_NUMPY_TYPES = frozenset(dtype.numpy() for dtype in _TYPES)


def evaluate_pending(numbers: ValueNumbers) -> int:
    """Computes what is pending, as far as limits and onnxruntime allow.

    Returns:
        How many values became constants of known content.
    """
    ops = list(numbers.pending.values())
    numbers.pending.clear()
    by_opsets: dict[Hashable, list[ConstantOp]] = {}
    for op in ops:
        by_opsets.setdefault(op.opsets, []).append(op)
    work = _Evaluation(numbers)
    for group in by_opsets.values():
        work.evaluate(_within_limits(group, numbers))
    return work.found


def _within_limits(ops: Sequence[ConstantOp], numbers: ValueNumbers) -> list[ConstantOp]:
    """Ops whose operands are small, or made by ops before them that have small results."""
    sizes: dict[int, int] = {}
    kept: list[ConstantOp] = []
    total = 0
    for op in ops:
        result = _declared_bytes(op.node)
        if result is None:
            result = _bound(op, numbers, sizes)
        if result is None or result > numbers.max_constant_bytes:
            continue
        operands = {n for n in op.key.inputs if n is not None}
        needed = 0
        for operand in operands - sizes.keys():
            content = numbers.known_content(operand)
            tensor = None if content is None else numbers.contents.tensor(content)
            if (
                tensor is None
                or tensor.dtype not in _TYPES
                or tensor.nbytes > numbers.max_constant_bytes
            ):
                break
            needed += tensor.nbytes
        else:
            if total + needed > MAX_ROUND_BYTES:
                continue
            total += needed
            kept.append(op)
            for index in range(len(op.key.outputs)):
                sizes[numbers.raw(OutputKey(op.number, index))] = result
    return kept


_SHAPED_BY_VALUES = frozenset(
    {"CenterCropPad", "ConstantOfShape", "Expand", "EyeLike", "OneHot", "Pad", "Resize", "Tile",
     "Upsample"}
)  # fmt: skip
"""Ops whose results may be of any size, whatever the size of their operands."""

_WIDEST_ELEMENT = 8


def _bound(op: ConstantOp, numbers: ValueNumbers, made: Mapping[int, int]) -> int | None:
    """Bound on the results of an op without a declared shape, or None.

    Elements of operands multiply where an op broadcasts or multiplies them; few ops make more.

    Args:
        op: the op.
        numbers: the table.
        made: bytes of results of ops before it, by number.
    """
    inputs = [n for n in op.key.inputs if n is not None]
    if op.key.op_type == "Range" and not op.key.domain:
        return _range_bytes(inputs, numbers)
    if op.key.op_type in _SHAPED_BY_VALUES or op.key.domain:
        return None
    elements = 1
    for number in inputs:
        content = numbers.known_content(number)
        count = made.get(number) if content is None else numbers.contents.tensor(content).size
        if count is None:
            return None
        elements *= max(1, count)
    return elements * _WIDEST_ELEMENT


def _range_bytes(inputs: Sequence[int], numbers: ValueNumbers) -> int | None:
    ends: list[float] = []
    for number in inputs:
        content = numbers.known_content(number)
        if content is None or numbers.contents.tensor(content).size != 1:
            return None
        ends.append(float(numbers.contents.array(content).reshape(-1)[0]))
    if len(ends) < 3 or not all(map(math.isfinite, ends)) or ends[2] == 0.0:
        return None
    start, limit, step = ends
    return max(0, math.ceil((limit - start) / step)) * _WIDEST_ELEMENT


def _declared_bytes(node: ir.Node) -> int | None:
    """Size of the largest result, or None where a shape is not known."""
    largest = 0
    for value in node.outputs:
        if not value.name:
            continue
        if not isinstance(value.type, ir.TensorType) or value.shape is None:
            return None
        if not value.shape.is_static() or value.type.dtype is ir.DataType.STRING:
            return None
        nbytes = math.prod(value.shape.numpy()) * max(value.type.dtype.itemsize, 1)
        largest = max(largest, math.ceil(nbytes))
    return largest


class _Evaluation:
    def __init__(self, numbers: ValueNumbers) -> None:
        self._numbers = numbers
        self._sessions = 0
        self.found = 0

    def evaluate(self, ops: Sequence[ConstantOp]) -> None:
        """Ops that onnxruntime refuses are found by halving."""
        computable = self._computable(ops)
        if not computable or self._sessions >= MAX_SESSIONS:
            return
        self._sessions += 1
        try:
            self._run(computable)
        except CompileError:
            if len(computable) > 1:
                middle = len(computable) // 2
                self.evaluate(computable[:middle])
                self.evaluate(computable[middle:])

    def _computable(self, ops: Sequence[ConstantOp]) -> list[ConstantOp]:
        made: set[int] = set()
        found: list[ConstantOp] = []
        for op in ops:
            inputs = self._numbers.canonical(op.key.inputs)
            done = all(self._numbers.known(number) is not None for number in self._raw(op))
            if not done and all(
                n is None or n in made or self._numbers.known_content(n) is not None for n in inputs
            ):
                found.append(op)
                made.update(self._raw(op))
        return found

    def _raw(self, op: ConstantOp) -> list[int]:
        raw = self._numbers.raw
        return [raw(OutputKey(op.number, index)) for index in range(len(op.key.outputs))]

    def _run(self, ops: Sequence[ConstantOp]) -> None:
        numbers = self._numbers
        graph = onnx.GraphProto(name="constants")
        given: set[int] = set()
        outputs: list[int] = []
        for op in ops:
            node = graph.node.add(
                op_type=op.key.op_type, domain=op.key.domain, overload=op.key.overload
            )
            for number in numbers.canonical(op.key.inputs):
                node.input.append("" if number is None else f"v{number}")
                content = numbers.known_content(number)
                if number is None or content is None or number in given:
                    continue
                given.add(number)
                array = numbers.contents.array(content)
                graph.initializer.append(_tensor_proto(array, f"v{number}"))
            node.attribute.extend(ir.serde.serialize_attribute(a) for a in op.attributes)
            raw = self._raw(op)
            for number, exists in zip(raw, op.key.outputs, strict=True):
                node.output.append(f"v{number}" if exists else "")
                if exists:
                    outputs.append(number)
                    graph.output.add(name=f"v{number}")
        model = onnx.ModelProto(ir_version=_IR_VERSION, graph=graph)
        for domain, version in ops[0].opsets:
            model.opset_import.add(domain=domain, version=version)
        results = run_model(model, {})
        for number in outputs:
            array = results[f"v{number}"]
            if isinstance(array, np.ndarray) and _is_computed(array, numbers.max_constant_bytes):
                numbers.equate(number, numbers.weight_of_array(array))
                self.found += 1
        for op in ops:
            self._enter_again(op)

    def _enter_again(self, op: ConstantOp) -> None:
        """The op over computed constants is the same op."""
        numbers = self._numbers
        inputs = numbers.canonical(op.key.inputs)
        if inputs == op.key.inputs:
            return
        again = numbers.of(op.key._replace(inputs=inputs))
        for index, number in enumerate(self._raw(op)):
            known = numbers.known(number)
            if known is not None:
                numbers.equate(numbers.raw(OutputKey(again, index)), known)


def _is_computed(array: np.ndarray, limit: int) -> bool:
    return array.dtype in _NUMPY_TYPES and array.nbytes <= limit


def _tensor_proto(array: np.ndarray, name: str) -> onnx.TensorProto:
    proto = ir.serde.serialize_tensor(ir.Tensor(array))
    proto.name = name
    return proto
