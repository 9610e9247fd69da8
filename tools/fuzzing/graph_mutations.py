"""Mutations that keep a model a model: wiring, ops, attributes, shapes, types, names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from fuzzing.field_mutations import NAMES

DIMENSIONS = (0, 1, 2, 3, 4, 5, 8, 1000, 2**20, 2**31, 2**40, -1)
INDICES = (0, 1, -1, 2, 3, 5, 64, 1000, 2**31 - 1, 2**31, 2**40, 2**62, -(2**63))


def mutate_graph(model: onnx.ModelProto, other: onnx.ModelProto, rng: np.random.Generator) -> None:
    """One to four edits of `model` in place; nodes and tensors may come from `other`."""
    for _ in range(int(rng.integers(1, 5))):
        graph = _some_graph(model, rng)
        if not graph.node:
            continue
        mutation = MUTATIONS[int(rng.integers(0, len(MUTATIONS)))]
        mutation(graph, other, rng)


def _pick(items: Any, rng: np.random.Generator) -> Any:
    return items[int(rng.integers(0, len(items)))]


def _some_graph(model: onnx.ModelProto, rng: np.random.Generator) -> onnx.GraphProto:
    inner = [
        attribute.g
        for node in model.graph.node
        for attribute in node.attribute
        if attribute.HasField("g")
    ]
    return _pick(inner, rng) if inner and rng.random() < 0.5 else model.graph


def _values(graph: onnx.GraphProto) -> list[str]:
    names = [v.name for v in graph.input] + [t.name for t in graph.initializer]
    return names + [name for node in graph.node for name in node.output]


def _swap_inputs(graph: onnx.GraphProto, _other: onnx.ModelProto, rng: np.random.Generator) -> None:
    one, two = _pick(graph.node, rng), _pick(graph.node, rng)
    if one.input and two.input:
        i, j = int(rng.integers(0, len(one.input))), int(rng.integers(0, len(two.input)))
        one.input[i], two.input[j] = two.input[j], one.input[i]


def _rewire(graph: onnx.GraphProto, _other: onnx.ModelProto, rng: np.random.Generator) -> None:
    node = _pick(graph.node, rng)
    name = _pick([*_values(graph), ""], rng)
    if node.input and rng.random() < 0.8:
        node.input[int(rng.integers(0, len(node.input)))] = name
    else:
        node.input.append(name)


def _drop_node(graph: onnx.GraphProto, _other: onnx.ModelProto, rng: np.random.Generator) -> None:
    """Drops an op; what read it reads one of the op's inputs instead, most of the time."""
    at = int(rng.integers(0, len(graph.node)))
    node = graph.node[at]
    if node.input and node.output and rng.random() < 0.7:
        replaced, by = node.output[0], _pick(node.input, rng)
        for reader in graph.node:
            for i, name in enumerate(reader.input):
                if name == replaced:
                    reader.input[i] = by
    del graph.node[at]


def _change_op(graph: onnx.GraphProto, other: onnx.ModelProto, rng: np.random.Generator) -> None:
    node = _pick(graph.node, rng)
    donors = [*graph.node, *other.graph.node]
    donor = _pick(donors, rng)
    node.op_type, node.domain = donor.op_type, donor.domain
    if rng.random() < 0.5:
        del node.attribute[:]
        node.attribute.extend(donor.attribute)


def _insert_node(graph: onnx.GraphProto, other: onnx.ModelProto, rng: np.random.Generator) -> None:
    """Copies an op of `other` behind a value of this graph."""
    if not other.graph.node:
        return
    at = int(rng.integers(0, len(graph.node)))
    copy = onnx.NodeProto()
    copy.CopyFrom(_pick(other.graph.node, rng))
    before = [v.name for v in graph.input] + [t.name for t in graph.initializer]
    before += [name for node in graph.node[:at] for name in node.output]
    if not before or not copy.output or not graph.node[at].input:
        return
    for i in range(len(copy.input)):
        copy.input[i] = _pick(before, rng)
    for i in range(len(copy.output)):
        copy.output[i] = f"inserted_{at}_{i}_{len(graph.node)}"
    reader = graph.node[at]
    reader.input[int(rng.integers(0, len(reader.input)))] = copy.output[0]
    graph.node.insert(at, copy)


def _change_attribute(
    graph: onnx.GraphProto, _other: onnx.ModelProto, rng: np.random.Generator
) -> None:
    node = _pick(graph.node, rng)
    if not node.attribute:
        return
    at = int(rng.integers(0, len(node.attribute)))
    attribute = node.attribute[at]
    number = int(_pick(INDICES, rng))
    match int(rng.integers(0, 5)):
        case 0:
            del node.attribute[at]
        case 1 if attribute.ints:
            attribute.ints[int(rng.integers(0, len(attribute.ints)))] = number
        case 1 if attribute.type == onnx.AttributeProto.INT:
            attribute.i = number
        case 2:
            values: list[Any] = [number, 0.5, "text", [number, 1], [0.5], ["a", "b"]]
            attribute.CopyFrom(helper.make_attribute(attribute.name, _pick(values, rng)))
        case 3:
            attribute.name = _pick(NAMES, rng)
        case 4 if attribute.ints:
            del attribute.ints[int(rng.integers(0, len(attribute.ints)))]
        case _:
            node.attribute.add().CopyFrom(attribute)


def _change_shape(
    graph: onnx.GraphProto, _other: onnx.ModelProto, rng: np.random.Generator
) -> None:
    values = [*graph.input, *graph.output, *graph.value_info]
    if not values:
        return
    shape = _pick(values, rng).type.tensor_type.shape
    size = int(_pick(DIMENSIONS, rng))
    if shape.dim and rng.random() < 0.7:
        shape.dim[int(rng.integers(0, len(shape.dim)))].dim_value = size
    elif shape.dim and rng.random() < 0.5:
        del shape.dim[-1]
    else:
        shape.dim.add().dim_value = size


def _change_type(graph: onnx.GraphProto, _other: onnx.ModelProto, rng: np.random.Generator) -> None:
    values = [*graph.input, *graph.output, *graph.value_info]
    if values:
        _pick(values, rng).type.tensor_type.elem_type = int(rng.integers(0, 27))


def _change_integers(
    graph: onnx.GraphProto, _other: onnx.ModelProto, rng: np.random.Generator
) -> None:
    """Changes an integer tensor: shapes, axes, indices, repeats."""
    tensors = [t for t in graph.initializer if t.data_type == TensorProto.INT64]
    tensors += [a.t for n in graph.node for a in n.attribute if a.t.data_type == TensorProto.INT64]
    if not tensors:
        return
    tensor = _pick(tensors, rng)
    try:
        array = numpy_helper.to_array(tensor).copy()
    except (ValueError, TypeError):
        return
    if array.size:
        array.flat[int(rng.integers(0, array.size))] = int(_pick(INDICES, rng))
        tensor.CopyFrom(numpy_helper.from_array(array, tensor.name))


def _change_tensor(
    graph: onnx.GraphProto, _other: onnx.ModelProto, rng: np.random.Generator
) -> None:
    if not graph.initializer:
        return
    tensor = _pick(graph.initializer, rng)
    match int(rng.integers(0, 5)):
        case 0 if tensor.dims:
            tensor.dims[int(rng.integers(0, len(tensor.dims)))] = int(_pick(DIMENSIONS, rng))
        case 1:
            tensor.dims.append(int(_pick(DIMENSIONS, rng)))
        case 2:
            tensor.data_type = int(rng.integers(0, 27))
        case 3:
            graph.sparse_initializer.add().values.CopyFrom(tensor)
        case _:
            name = tensor.name
            shape = [int(rng.integers(0, 5)) for _ in range(int(rng.integers(0, 4)))]
            array = rng.standard_normal(shape).astype(np.float32)
            tensor.CopyFrom(numpy_helper.from_array(array, name))


def _rename(graph: onnx.GraphProto, _other: onnx.ModelProto, rng: np.random.Generator) -> None:
    """Gives one value another name, everywhere or at one place only."""
    old, new = _pick([*_values(graph), ""], rng), _pick([*NAMES, *_values(graph)], rng)
    everywhere = rng.random() < 0.8
    for node in graph.node:
        for names in (node.input, node.output):
            for i, name in enumerate(names):
                if name == old and (everywhere or rng.random() < 0.5):
                    names[i] = new
    if everywhere:
        for entry in (*graph.input, *graph.output, *graph.value_info, *graph.initializer):
            if entry.name == old:
                entry.name = new


def _rename_node(graph: onnx.GraphProto, _other: onnx.ModelProto, rng: np.random.Generator) -> None:
    _pick(graph.node, rng).name = _pick([*NAMES, *(n.name for n in graph.node)], rng)


def _move_node(graph: onnx.GraphProto, _other: onnx.ModelProto, rng: np.random.Generator) -> None:
    node = onnx.NodeProto()
    at = int(rng.integers(0, len(graph.node)))
    node.CopyFrom(graph.node[at])
    del graph.node[at]
    graph.node.insert(int(rng.integers(0, len(graph.node) + 1)), node)


def _change_outputs(
    graph: onnx.GraphProto, _other: onnx.ModelProto, rng: np.random.Generator
) -> None:
    if graph.output and rng.random() < 0.3:
        del graph.output[int(rng.integers(0, len(graph.output)))]
    elif graph.output and rng.random() < 0.2:
        graph.output.add().CopyFrom(_pick(graph.output, rng))
    else:
        name = _pick(_values(graph), rng)
        graph.output.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, None))


def _wrap_in_if(graph: onnx.GraphProto, _other: onnx.ModelProto, rng: np.random.Generator) -> None:
    """Puts an op into both branches of an `If` on a constant or on a computed condition."""
    at = int(rng.integers(0, len(graph.node)))
    node = graph.node[at]
    if not node.output:
        return
    branches: list[onnx.GraphProto] = []
    for _ in range(2):
        branch = onnx.GraphProto(name="branch")
        branch.node.add().CopyFrom(node)
        for name in node.output:
            branch.output.add().name = name
        branches.append(branch)
    condition = f"condition_{at}_{len(graph.node)}"
    true = numpy_helper.from_array(np.array(True), condition)
    graph.initializer.append(true)
    outer = helper.make_node(
        "If", [condition], list(node.output), then_branch=branches[0], else_branch=branches[1]
    )
    graph.node[at].CopyFrom(outer)


MUTATIONS: tuple[
    Callable[[onnx.GraphProto, onnx.ModelProto, np.random.Generator], None], ...
] = (
    _swap_inputs, _rewire, _drop_node, _change_op, _insert_node, _change_attribute, _change_shape,
    _change_type, _change_integers, _change_tensor, _rename, _rename_node, _move_node,
    _change_outputs, _wrap_in_if,
)  # fmt: skip
