"""Changes of one model: another op, attribute, weight or edge. Each tells what it did, or None."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import onnx
from numpy.random import Generator
from onnx import numpy_helper

Edit = Callable[[onnx.ModelProto, Generator], str | None]

_UNARY = ("Relu", "Tanh", "Sigmoid", "Neg", "Abs", "Exp", "Sqrt", "Erf", "Softplus", "Floor")
_BINARY = ("Add", "Sub", "Mul", "Div", "Pow")
_POOLS = ("GlobalAveragePool", "GlobalMaxPool")
_REDUCTIONS = ("ReduceMean", "ReduceMax", "ReduceMin", "ReduceSum", "ReduceProd")
_FAMILIES = (_UNARY, _BINARY, _POOLS, _REDUCTIONS, ("Less", "Greater", "Equal"), ("And", "Or"))
_COMMUTATIVE = frozenset({"Add", "Mul", "And", "Or", "Equal", "Max", "Min", "Sum", "Mean", "Xor"})


def nodes_of(graph: onnx.GraphProto) -> Iterator[onnx.NodeProto]:
    """Nodes of a graph and of its bodies."""
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield from nodes_of(attribute.g)


def other_op(model: onnx.ModelProto, rng: Generator) -> str | None:
    """An op of the same form in the place of another."""
    found = [n for n in nodes_of(model.graph) if any(n.op_type in f for f in _FAMILIES)]
    if not found:
        return None
    node = found[rng.integers(len(found))]
    family = next(f for f in _FAMILIES if node.op_type in f)
    before = node.op_type
    node.op_type = str(rng.choice([op for op in family if op != before]))
    return f"{node.name}: {before} becomes {node.op_type}"


def other_attribute(model: onnx.ModelProto, rng: Generator) -> str | None:
    """Another number or text in an attribute."""
    found = [
        (node, attribute)
        for node in nodes_of(model.graph)
        for attribute in node.attribute
        if not attribute.HasField("g") and not attribute.ref_attr_name
    ]
    if not found:
        return None
    node, attribute = found[rng.integers(len(found))]
    kinds = onnx.AttributeProto
    match attribute.type:
        case kinds.INT:
            attribute.i += int(rng.choice([-1, 1, 2]))
        case kinds.FLOAT:
            attribute.f = attribute.f * 1.5 + 0.25
        case kinds.STRING:
            attribute.s = attribute.s + b"x"
        case kinds.INTS if attribute.ints:
            attribute.ints[int(rng.integers(len(attribute.ints)))] += 1
        case kinds.FLOATS if attribute.floats:
            attribute.floats[int(rng.integers(len(attribute.floats)))] += 0.5
        case kinds.STRINGS if attribute.strings:
            attribute.strings[0] = attribute.strings[0] + b"x"
        case kinds.TENSOR:
            changed = _changed(attribute.t, rng)
            if changed is None:
                return None
            attribute.t.CopyFrom(changed)
        case _:
            return None
    return f"{node.name}: attribute {attribute.name}"


def dropped_attribute(model: onnx.ModelProto, rng: Generator) -> str | None:
    """An attribute falls back to its default, where that is another value."""
    found = []
    for node in nodes_of(model.graph):
        for attribute in node.attribute:
            default = _default(model, node, attribute.name)
            if default is not None and default != onnx.helper.get_attribute_value(attribute):
                found.append((node, attribute))
    if not found:
        return None
    node, attribute = found[rng.integers(len(found))]
    name = attribute.name
    node.attribute.remove(attribute)
    return f"{node.name}: attribute {name} left away"


def other_weight(model: onnx.ModelProto, rng: Generator) -> str | None:
    """One element of a weight that is stored in the model itself."""
    inline = [
        t
        for t in model.graph.initializer
        if t.data_location != onnx.TensorProto.EXTERNAL and _is_read(model.graph, t.name)
    ]
    if not inline:
        return None
    tensor = inline[rng.integers(len(inline))]
    changed = _changed(tensor, rng)
    if changed is None:
        return None
    tensor.CopyFrom(changed)
    return f"weight {tensor.name}"


def swapped_weights(model: onnx.ModelProto, rng: Generator) -> str | None:
    """Two weights of the same form change places."""
    groups: dict[object, list[onnx.TensorProto]] = {}
    for tensor in model.graph.initializer:
        if _is_read(model.graph, tensor.name):
            groups.setdefault((tensor.data_type, tuple(tensor.dims)), []).append(tensor)
    pairs = [group for group in groups.values() if len(group) > 1]
    if not pairs:
        return None
    group = pairs[rng.integers(len(pairs))]
    first, second = rng.choice(len(group), 2, replace=False).tolist()
    left, right = group[first], group[second]
    if _content(left) == _content(right):
        return None
    left.name, right.name = right.name, left.name
    return f"weights {left.name} and {right.name} swapped"


def other_place(model: onnx.ModelProto, rng: Generator) -> str | None:
    """A weight is read from another place of its data file."""
    found = [
        t
        for t in model.graph.initializer
        if t.data_location == onnx.TensorProto.EXTERNAL and _is_read(model.graph, t.name)
    ]
    places = [{e.key: e.value for e in t.external_data} for t in found]
    pairs = [
        (i, j)
        for i, left in enumerate(places)
        for j, right in enumerate(places)
        if i != j
        and left["length"] == right["length"]
        and left["offset"] != right["offset"]
        and left["location"] == right["location"]
    ]
    if not pairs:
        return None
    i, j = pairs[rng.integers(len(pairs))]
    for entry in found[i].external_data:
        if entry.key == "offset":
            entry.value = places[j]["offset"]
    return f"weight {found[i].name} is read where {found[j].name} lies"


def other_operand(model: onnx.ModelProto, rng: Generator) -> str | None:
    """An op reads another value of its graph that is there before it."""
    graph = model.graph
    made = [value.name for value in graph.input] + [t.name for t in graph.initializer]
    places: list[tuple[onnx.NodeProto, int, int]] = []
    before: dict[int, int] = {}
    for at, node in enumerate(graph.node):
        before[at] = len(made)
        places += [(node, i, at) for i, name in enumerate(node.input) if name]
        made += [name for name in node.output if name]
    if not places:
        return None
    node, index, at = places[rng.integers(len(places))]
    choice = [name for name in made[: before[at]] if name != node.input[index]]
    if not choice:
        return None
    name = choice[rng.integers(len(choice))]
    old, node.input[index] = node.input[index], name
    return f"{node.name}: reads {name} instead of {old}"


def swapped_operands(model: onnx.ModelProto, rng: Generator) -> str | None:
    """Two operands of an op for which their order matters change places."""
    found = [
        node
        for node in nodes_of(model.graph)
        if len(node.input) > 1
        and node.op_type not in _COMMUTATIVE
        and node.input[0] != node.input[1]
    ]
    if not found:
        return None
    node = found[rng.integers(len(found))]
    node.input[0], node.input[1] = node.input[1], node.input[0]
    return f"{node.name}: operands swapped"


def bypassed_op(model: onnx.ModelProto, rng: Generator) -> str | None:
    """An op hands on what it reads."""
    found = [n for n in nodes_of(model.graph) if n.op_type not in ("Identity", "Dropout")
             and n.input and n.input[0] and len(n.output) == 1]  # fmt: skip
    if not found:
        return None
    node = found[rng.integers(len(found))]
    was = node.op_type
    node.op_type, node.domain = "Identity", ""
    del node.input[1:]
    del node.attribute[:]
    return f"{node.name}: {was} bypassed"


def other_ends(model: onnx.ModelProto, rng: Generator) -> str | None:
    """Two inputs of the model change names, so that wires bring them each other's values."""
    infos = list(model.graph.input)
    pairs = [(a, b) for i, a in enumerate(infos) for b in infos[i + 1 :] if a.type == b.type]
    if not pairs:
        return None
    a, b = pairs[rng.integers(len(pairs))]
    swap = {a.name: b.name, b.name: a.name}
    for node in nodes_of(model.graph):
        for index, name in enumerate(node.input):
            node.input[index] = swap.get(name, name)
    return f"inputs {a.name} and {b.name} swapped"


EDITS: tuple[Edit, ...] = (
    other_op, other_attribute, dropped_attribute, other_weight, swapped_weights, other_place,
    other_operand, swapped_operands, bypassed_op, other_ends,
)  # fmt: skip


def _is_read(graph: onnx.GraphProto, name: str) -> bool:
    return any(name in node.input for node in nodes_of(graph))


def _default(model: onnx.ModelProto, node: onnx.NodeProto, name: str) -> object:
    version = next((o.version for o in model.opset_import if o.domain == node.domain), 1)
    try:
        schema = onnx.defs.get_schema(node.op_type, version, node.domain)
    except onnx.defs.SchemaError:
        return None
    attribute = schema.attributes.get(name)
    if attribute is None or attribute.default_value.type == onnx.AttributeProto.UNDEFINED:
        return None
    return onnx.helper.get_attribute_value(attribute.default_value)


def _changed(tensor: onnx.TensorProto, rng: Generator) -> onnx.TensorProto | None:
    """A tensor with one element changed."""
    if tensor.data_type == onnx.TensorProto.STRING:
        return None
    array = np.array(numpy_helper.to_array(tensor))
    if array.size == 0 or array.dtype.kind not in "fiub":
        return None
    flat = array.reshape(-1)
    at = int(rng.integers(flat.size))
    old = flat[at]
    if array.dtype.kind == "b":
        flat[at] = not old
    elif array.dtype.kind == "f":
        flat[at] = array.dtype.type(old * 1.25 + 0.5)
    else:
        flat[at] = old + 1 if old < np.iinfo(array.dtype).max else old - 1
    if flat[at] == old:
        return None
    return numpy_helper.from_array(array, tensor.name)


def _content(tensor: onnx.TensorProto) -> object:
    if tensor.data_location == onnx.TensorProto.EXTERNAL:
        return tuple(sorted((e.key, e.value) for e in tensor.external_data))
    return numpy_helper.to_array(tensor).tobytes()
