"""Slices of weights that are read only when they are written out."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import BinaryIO

import numpy as np
import onnx_ir as ir

from mcm_compiler.graph.constants import add_initializer
from mcm_compiler.ir.rewriting.naming import UnusedNames
from mcm_compiler.ir.rewriting.writer import release, whole_array
from mcm_passes.parallelism.oversized.graph_edits import fixed_shape, op_like

BLOCK_BYTES = 1 << 18
"""Of a weight, about what is copied at once while a part is written."""

_SAME_AXES = frozenset({"Cast", "Identity"})


@dataclass(frozen=True)
class Slice:
    """A part of a weight along one of its axes.

    Attributes:
        axis: index of the axis, not negative.
        start: first element of each run.
        stop: one past the last.
        runs: in how many runs of equal extent the axis is cut before; the part has the same
            elements of each, one run after the other.
    """

    axis: int
    start: int
    stop: int
    runs: int = 1

    @property
    def extent(self) -> int:
        """Elements along the axis."""
        return self.runs * (self.stop - self.start)

    def of_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Shape of the part of something of `shape`."""
        return (*shape[: self.axis], self.extent, *shape[self.axis + 1 :])

    def of_value(self, value: ir.Value, name: str) -> ir.Value:
        """A new value in place of the part of one of static shape."""
        return ir.val(name, shape=self.of_shape(fixed_shape(value)), type=value.type)

    def of_array(self, array: np.ndarray) -> np.ndarray:
        """A copy of the part of `array`, in C order."""
        part = np.array(self.within(array), order="C")
        return part.reshape(self.of_shape(array.shape))

    def within(self, array: np.ndarray) -> np.ndarray:
        """The part as a view of `array`, of which runs are an axis of their own."""
        before, after = array.shape[: self.axis], array.shape[self.axis + 1 :]
        run = array.shape[self.axis] // self.runs
        index = (slice(None),) * (self.axis + 1) + (slice(self.start, self.stop),)
        return array.reshape(*before, self.runs, run, *after)[index]


def can_slice(value: ir.Value, axis: int | None = None, unit: int = 1) -> bool:
    """True where `WeightSlicer.part` can cut the constant `value`.

    Args:
        value: of the graph.
        axis: along which; None for any.
        unit: parts along it begin and end at multiples of this.
    """
    while (node := value.producer()) is not None:
        source = node.inputs[0] if node.inputs else None
        static = value.shape is not None and value.shape.is_static()
        if source is None or not static or node.domain not in ("", "ai.onnx"):
            return False
        if node.op_type == "ConstantOfShape":
            return True
        if node.op_type == "DequantizeLinear":
            if not _can_slice_scales(node, axis, unit):
                return False
        elif node.op_type == "Transpose":
            axis = None if axis is None else _permutation(node)[axis]
        elif node.op_type not in _SAME_AXES:
            return False
        value = source
    return value.const_value is not None and value.const_value.dtype is not ir.DataType.STRING


class WeightSlicer:
    """Makes parts of the weights of one graph; equal parts are made once.

    A part of a computed weight (`Transpose`, `Cast`, `ConstantOfShape`) is computed from a part of
    what the weight is computed from.

    Args:
        graph: where new initializers are registered.
        names: gives the names of new nodes and weights.
    """

    def __init__(self, graph: ir.Graph, names: UnusedNames) -> None:
        self._graph = graph
        self._names = names
        self._parts: dict[tuple[ir.Value, Slice], ir.Value] = {}

    def part(self, value: ir.Value, cut: Slice, before: ir.Node) -> ir.Value:
        """The part `cut` of `value`, for which `can_slice` holds.

        Args:
            value: an initializer or a computed weight, of static shape.
            cut: which part.
            before: the node before which new nodes go.
        """
        known = self._parts.get((value, cut))
        if known is not None:
            return known
        node = value.producer()
        part = self._initializer(value, cut) if node is None else self._computed(node, cut, before)
        self._parts[value, cut] = part
        return part

    def _computed(self, node: ir.Node, cut: Slice, before: ir.Node) -> ir.Value:
        source = node.inputs[0]
        assert source is not None
        if node.op_type == "ConstantOfShape":
            part = self._extents(node, cut)
        elif node.op_type == "Transpose":
            axis = _permutation(node)[cut.axis]
            part = self.part(source, replace(cut, axis=axis), before)
        else:
            part = self.part(source, cut, before)
        rest = list(node.inputs[1:])
        if node.op_type == "DequantizeLinear":
            blocks = node.attributes.get_int("block_size", 0)
            for at, scale in enumerate(rest):
                if scale is None or fixed_shape(scale) in ((), (1,)):
                    continue
                if blocks:
                    each = blocks if cut.axis == _quantised_axis(node) else 1
                    own = replace(cut, start=cut.start // each, stop=cut.stop // each)
                    rest[at] = self.part(scale, own, before)
                elif cut.axis == _quantised_axis(node):
                    rest[at] = self.part(scale, replace(cut, axis=0), before)
        result = node.outputs[0]
        made = cut.of_value(result, self._part_name(result, cut))
        name = self._part_name(node, cut)
        copy = op_like(node, [part, *rest], [made], name)
        self._graph.insert_before(before, copy)
        return copy.outputs[0]

    def _extents(self, node: ir.Node, cut: Slice) -> ir.Value:
        extents = np.array(cut.of_shape(fixed_shape(node.outputs[0])), dtype=np.int64)
        name = self._part_name(node, cut, "/shape")
        return add_initializer(self._graph, ir.Tensor(extents, name=name))

    def _initializer(self, value: ir.Value, cut: Slice) -> ir.Value:
        tensor = value.const_value
        assert tensor is not None
        part = slice_tensor(tensor, cut, self._part_name(value, cut))
        return add_initializer(self._graph, part)

    def _part_name(self, whole: ir.Value | ir.Node, cut: Slice, suffix: str = "") -> str:
        of_runs = f"_of_{cut.runs}_runs" if cut.runs > 1 else ""
        place = f"{cut.axis}_{cut.start}_{cut.stop}{of_runs}"
        return self._names.take(f"{whole.name}/{place}{suffix}")


def slice_tensor(tensor: ir.TensorProtocol, cut: Slice, name: str) -> ir.TensorProtocol:
    """A part of `tensor` as a tensor that takes no memory until it is read.

    Rows of a file are a place in the same file; everything else is copied when asked for.
    """
    shape = ir.Shape(cut.of_shape(tuple(tensor.shape.numpy())))
    is_one_place = cut.axis == 0 and cut.runs == 1 and tensor.dtype.bitwidth % 8 == 0
    if isinstance(tensor, ir.ExternalTensor) and is_one_place:
        row_bytes = tensor.nbytes // max(1, tensor.shape.numpy()[0])
        return ir.ExternalTensor(
            tensor.location,
            (tensor.offset or 0) + cut.start * row_bytes,
            cut.extent * row_bytes,
            tensor.dtype,
            shape=shape,
            name=name,
            base_dir=tensor.base_dir,
        )

    def read() -> ir.TensorProtocol:
        part = cut.of_array(whole_array(tensor))
        release(tensor)
        return ir.Tensor(part, dtype=tensor.dtype, name=name)

    part = _Part(read, tensor.dtype, shape, cache=False, name=name)
    part.whole, part.cut = tensor, cut
    return part


class _Part(ir.LazyTensor):
    """A part that is written block by block: the kernel clears no memory for copies of it."""

    whole: ir.TensorProtocol
    cut: Slice

    def tofile(self, file: BinaryIO) -> None:
        if self.dtype.bitwidth % 8:
            super().tofile(file)
            return
        self._write_blocks(file)
        release(self.whole)  # once no view of it is left

    def _write_blocks(self, file: BinaryIO) -> None:
        view = self.cut.within(whole_array(self.whole))
        rows = view.reshape(-1, *view.shape[self.cut.axis :]) if self.cut.axis else view[None]
        step = max(1, BLOCK_BYTES * len(rows) // max(1, self.nbytes))
        for start in range(0, len(rows), step):
            block = np.ascontiguousarray(rows[start : start + step])
            file.write(block.reshape(-1).view(np.uint8).data)


def block_along(value: ir.Value, axis: int) -> int:
    """Elements of a constant along an axis that share a scale and are not cut apart."""
    while (node := value.producer()) is not None and node.inputs and node.inputs[0] is not None:
        if node.op_type == "DequantizeLinear" and axis == _quantised_axis(node):
            return node.attributes.get_int("block_size", 0) or 1
        if node.op_type == "Transpose":
            axis = _permutation(node)[axis]
        elif node.op_type not in _SAME_AXES:
            break
        value = node.inputs[0]
    return 1


def _can_slice_scales(node: ir.Node, axis: int | None, unit: int) -> bool:
    """Return whether scales and zeros can be cut with a tensor, of which blocks stay whole."""
    scales = [scale for scale in node.inputs[1:] if scale is not None]
    if any(scale.shape is None or not scale.shape.is_static() for scale in scales):
        return False
    if block := node.attributes.get_int("block_size", 0):
        if axis is None or (axis == _quantised_axis(node) and unit % block):
            return False
    elif any(len(fixed_shape(scale)) > 1 for scale in scales):
        return False
    return all(map(can_slice, scales))


def _quantised_axis(node: ir.Node) -> int:
    return node.attributes.get_int("axis", 1) % len(fixed_shape(node.outputs[0]))


def _permutation(node: ir.Node) -> tuple[int, ...]:
    rank = len(fixed_shape(node.outputs[0]))
    return tuple(node.attributes.get_ints("perm", range(rank)[::-1]))
