"""Numbers of values: equal where the same op reads the same.

A key is what a value is made of; its number is the place of the key in one table for all graphs
that are compared. Constants whose content is computed are one with weights of that content.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import onnx_ir as ir

from mcm_compiler.equivalence.values.followed_passes import MAX_CONSTANT_BYTES
from mcm_compiler.equivalence.values.weight_contents import WeightContents


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
