"""Numbers of values: equal where the same op reads the same.

A key is what a value is made of; its number is the place of the key in one table for all graphs
that are compared. Constants whose content is computed are one with weights of that content.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import onnx
import onnx_ir as ir

from mcm_compiler.equivalence.values.followed_passes import MAX_CONSTANT_BYTES
from mcm_compiler.equivalence.values.weight_contents import WeightContents
from mcm_compiler.graph.static_shapes import static_dims
from mcm_compiler.graph.structure import onnx_domain, schema_of, since_version

GRAPHS = (ir.AttributeType.GRAPH, ir.AttributeType.GRAPHS)

ONNX_DOMAIN = ""


def domain_of(node: ir.Node) -> str:
    """The domain, with one name for ONNX's own."""
    return onnx_domain(node.domain)


def definition_version(domain: str, op_type: str, version: int) -> int:
    """The version in which an op got the meaning that it has in `version` of its domain."""
    return since_version(op_type, version, domain) or version


@lru_cache(maxsize=4096)
def default_attributes(domain: str, op_type: str, version: int) -> Mapping[str, Hashable]:
    """Keys of the values that attributes have where a node leaves them out."""
    schema = schema_of(op_type, version, domain)
    if schema is None:
        return {}
    contents = WeightContents()
    found: dict[str, Hashable] = {}
    for name, attribute in schema.attributes.items():
        value = attribute.default_value
        if value.type != onnx.AttributeProto.UNDEFINED:
            # The schema's own value has no name.
            named = onnx.AttributeProto()
            named.CopyFrom(value)
            named.name = name
            found[name] = attribute_key(ir.serde.deserialize_attribute(named), contents)
    return found


def attribute_key(attribute: ir.Attr, contents: WeightContents) -> Hashable:
    """The value of an attribute other than a graph, equal only where all its bits are."""
    value: Any = attribute.value
    match attribute.type:
        case ir.AttributeType.FLOAT:
            return ("f", np.float32(value).tobytes())
        case ir.AttributeType.FLOATS:
            return ("fs", np.array(list(value), np.float32).tobytes())
        case ir.AttributeType.INT:
            return ("i", int(value))
        case ir.AttributeType.INTS:
            return ("is", tuple(int(item) for item in value))
        case ir.AttributeType.STRING:
            return ("s", _text(value))
        case ir.AttributeType.STRINGS:
            return ("ss", tuple(map(_text, value)))
        case ir.AttributeType.TENSOR:
            return ("t", _tensor_key(value, contents))
        case ir.AttributeType.TENSORS:
            return ("ts", tuple(_tensor_key(item, contents) for item in value))
        case _:
            return ("p", ir.serde.serialize_attribute(attribute).SerializeToString())


def _text(value: Any) -> bytes:
    return value.encode("utf-8", "surrogateescape") if isinstance(value, str) else bytes(value)


def _tensor_key(tensor: ir.TensorProtocol, contents: WeightContents) -> Hashable:
    if tensor.dtype is not ir.DataType.STRING and tensor.nbytes <= 64:
        return (tensor.dtype, tuple(tensor.shape.numpy()), tensor.tobytes())
    return contents.content(tensor)


@dataclass
class NodeScope:
    """Where a node stands.

    Attributes:
        opsets: versions by domain.
        attributes: of the call, within the body of a function.
        depth: how many bodies of ops it is in.
        draws: number of ops like no other that the body has so far.
    """

    opsets: Mapping[str, int]
    attributes: Mapping[str, ir.Attr] = field(default_factory=dict[str, ir.Attr])
    depth: int = 0
    draws: int = 0


def static_shape(value: ir.Value) -> tuple[int, ...] | None:
    """The shape of a tensor where it is declared and fully known."""
    return static_dims(value.shape) if isinstance(value.type, ir.TensorType) else None


def constant_tensor(attribute: ir.Attr) -> ir.TensorProtocol | None:
    """The tensor that an attribute of a `Constant` gives, or None for a kind without one."""
    value = attribute.value
    match attribute.name:
        case "value":
            return attribute.as_tensor()
        case "value_int" | "value_ints":
            return ir.Tensor(np.array(value, np.int64))
        case "value_float" | "value_floats":
            return ir.Tensor(np.array(value, np.float32))
        case "value_string" | "value_strings":
            words = [value] if attribute.name == "value_string" else list(value)
            texts = [w.encode() if isinstance(w, str) else bytes(w) for w in words]
            shape = () if attribute.name == "value_string" else (len(texts),)
            return ir.StringTensor(texts, shape=ir.Shape(shape))
        case _:
            return None


def existing_outputs(node: ir.Node, attributes: Iterable[ir.Attr]) -> tuple[bool, ...]:
    """Which outputs have a name; those at the end that have none are left away.

    A `BatchNormalization` in training makes all of its statistics, whether or not somebody wants
    them: an import names those that are left away, because onnxruntime crashes where one is.

    Args:
        node: the op.
        attributes: of it, with those of a call in place of references.
    """
    if node.op_type == "BatchNormalization" and node.domain in ("", "ai.onnx"):
        for attribute in attributes:
            if attribute.name == "training_mode" and attribute.value:
                return (True, True, True)
    found = [bool(value.name) for value in node.outputs]
    while found and not found[-1]:
        found.pop()
    return tuple(found)


class OpKey(NamedTuple):
    """Identity of an op.

    Attributes:
        domain: of the op.
        op_type: its type.
        overload: of the op.
        version: in which the op got its meaning.
        attributes: `(name, key)` of those that differ from their default, by name.
        inputs: numbers of what it reads, None for an input that is left out.
        outputs: which outputs it has; one without a name does not exist.
        bodies: `(name, key)` of its subgraphs.
        identity: of an op that is like no other, such as one that draws random numbers.
    """

    domain: str
    op_type: str
    overload: str
    version: int
    attributes: tuple[tuple[str, Hashable], ...]
    inputs: tuple[int | None, ...]
    outputs: tuple[bool, ...]
    bodies: tuple[tuple[str, Hashable], ...] = ()
    identity: Hashable = None

    def attribute(self, name: str) -> Hashable:
        """The key of an attribute, or None where it is left out."""
        return next((key for own, key in self.attributes if own == name), None)

    def number(self, name: str, default: int) -> int:
        """An integer attribute."""
        found = self.attribute(name)
        return int(found[1]) if isinstance(found, tuple) and found[0] == "i" else default

    def numbers(self, name: str) -> tuple[int, ...] | None:
        """An attribute of integers."""
        found = self.attribute(name)
        return found[1] if isinstance(found, tuple) and found[0] == "is" else None

    def reads(self, position: int) -> int | None:
        """The number of an operand, or None where it is left out."""
        return self.inputs[position] if position < len(self.inputs) else None


class OutputKey(NamedTuple):
    """One output of an op.

    Attributes:
        op: number of the op.
        position: which output.
    """

    op: int
    position: int


class InputKey(NamedTuple):
    """An input of the model, or of the body of an op.

    Attributes:
        name: of an input of the model; "" within a body.
        kind: its type in words.
        depth: how deep the body is.
        position: which input of the body.
    """

    name: str
    kind: str
    depth: int = 0
    position: int = 0


class WeightKey(NamedTuple):
    """A constant.

    Attributes:
        content: as `WeightContents` numbers it.
    """

    content: int


class PlaceholderKey(NamedTuple):
    """A weight of which only name, type and shape are known.

    Attributes:
        name: of the value.
        fill: key of its fill, which gives the type.
        extents: content of its shape.
    """

    name: str
    fill: Hashable
    extents: int


@dataclass(frozen=True, eq=False)
class ConstantOp:
    """An op on constants that can be computed.

    Attributes:
        number: of the op.
        key: its key.
        node: an op with that key.
        attributes: its attributes, those of a function's call filled in.
        opsets: versions by domain that it means.
    """

    number: int
    key: OpKey
    node: ir.Node
    attributes: tuple[ir.Attr, ...]
    opsets: tuple[tuple[str, int], ...]


class ValueNumbers:
    """The table of all keys.

    Args:
        contents: of weights, where another table has looked at them already.
        max_constant_bytes: operands and results of ops on constants that are computed.

    Attributes:
        contents: of weights.
        constant: numbers of constants.
        shapes: static shapes of values of the source model.
        pending: ops on constants that are not computed yet, in the order in which they were met.
    """

    def __init__(
        self, contents: WeightContents | None = None, max_constant_bytes: int = MAX_CONSTANT_BYTES
    ) -> None:
        self.contents = contents or WeightContents()
        self.max_constant_bytes = max_constant_bytes
        self.constant: set[int] = set()
        self.shapes: dict[int, tuple[int, ...]] = {}
        self.pending: dict[int, ConstantOp] = {}
        self._keys: list[Hashable] = []
        self._number_of: dict[Hashable, int] = {}
        self._same: dict[int, int] = {}

    def __len__(self) -> int:
        return len(self._keys)

    def of(self, key: Hashable) -> int:
        """The number of a key."""
        number = self._number_of.get(key)
        if number is None:
            number = self._number_of[key] = len(self._keys)
            self._keys.append(key)
        return self._same.get(number, number) if self._same else number

    def unknown(self) -> int:
        """A number that no other value has."""
        return self.of(("unknown", len(self._keys)))

    def raw(self, key: Hashable) -> int:
        """The number of a key, also where it was computed since."""
        number = self._number_of.get(key)
        return self.of(key) if number is None else number

    def known(self, number: int) -> int | None:
        """The constant that a raw number is, once it was computed."""
        return self._same.get(number)

    def key(self, number: int) -> Hashable:
        """Key that a number stands for."""
        return self._keys[number]

    def weight(self, tensor: ir.TensorProtocol) -> int:
        """The number of a constant of known content."""
        number = self.of(WeightKey(self.contents.content(tensor)))
        self.constant.add(number)
        return number

    def weight_of_array(self, array: np.ndarray) -> int:
        """The number of a constant with these elements."""
        held = np.ascontiguousarray(array).reshape(array.shape)
        number = self.of(WeightKey(self.contents.content_of_new(ir.Tensor(held))))
        self.constant.add(number)
        return number

    def outputs(self, op: OpKey) -> tuple[int, ...]:
        """The numbers of an op's outputs, of those too that have no name."""
        number = self.of(op)
        if len(op.outputs) == 1:
            return (self.of(OutputKey(number, 0)),)
        return tuple([self.of(OutputKey(number, index)) for index in range(len(op.outputs))])

    def known_content(self, number: int | None) -> int | None:
        """The content of a constant, or None where it is not known."""
        key = self._keys[number] if number is not None else None
        return key.content if isinstance(key, WeightKey) else None

    def made_by(self, number: int) -> tuple[OutputKey, OpKey] | None:
        """The output of an op that a value is, with the key of the op."""
        key = self._keys[number]
        op = self._keys[key.op] if isinstance(key, OutputKey) else None
        return (key, op) if isinstance(key, OutputKey) and isinstance(op, OpKey) else None

    def maker(self, number: int) -> OpKey | None:
        """The op that makes a value as its first output."""
        made = self.made_by(number)
        return None if made is None or made[0].position else made[1]

    def equate(self, number: int, constant: int) -> None:
        """From now on the first number is the second: a constant that was computed."""
        if number != constant:
            self._same[number] = constant

    def canonical(self, inputs: Sequence[int | None]) -> tuple[int | None, ...]:
        """The inputs with computed constants in their place."""
        return tuple(None if n is None else self._same.get(n, n) for n in inputs)
