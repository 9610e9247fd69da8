"""Builds an `onnx_ir` model node by node, with names of torch's exporters and seeded weights."""

from __future__ import annotations

import dataclasses
import hashlib
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from mcm_compiler.contracts.zoo import SHAPE_ONLY, WEIGHTS_KEY

_BLOCK_ELEMENTS = 1 << 16
"""Elements made at a time: small enough that scaling them hits the cache, not the memory bus."""


RELU_GAIN = math.sqrt(2.0 / (1.0 - 1.0 / math.pi))
"""Keeps the variance through a ReLU and a layer of centred weights (Brock et al. 2021, NFNets)."""


@dataclass(frozen=True)
class Uniform:
    """Values drawn uniformly from `[low, high)`.

    Attributes:
        low: the lower bound.
        high: the upper bound.
        centered: subtract the mean along all axes but the first, which are the output channels.
    """

    low: float
    high: float
    centered: bool = False


def spread(std: float) -> Uniform:
    """Zero mean and standard deviation `std`."""
    bound = std * math.sqrt(3.0)
    return Uniform(-bound, bound)


def around(center: float, distance: float) -> Uniform:
    """At most `distance` from `center`: for scales, shifts and statistics of normalisations."""
    return Uniform(center - distance, center + distance)


def keeps_variance(fan_in: int, gain: float = 1.0) -> Uniform:
    """Output variance is `gain**2` times the input's second moment (Glorot and Bengio 2010)."""
    return spread(gain / math.sqrt(fan_in))


def before_relu(fan_in: int) -> Uniform:
    """Makes up for the half that a ReLU cuts off (He et al. 2015, equation 10)."""
    return keeps_variance(fan_in, math.sqrt(2.0))


def after_relu(fan_in: int, gain: float = 1.0) -> Uniform:
    """Weights of mean zero per output channel, for inputs that are all positive.

    The mean that a ReLU leaves would otherwise grow from layer to layer until the outputs hardly
    distinguish one image from another (Brock et al. 2021, *Characterizing signal propagation*).
    """
    values = keeps_variance(fan_in, gain * RELU_GAIN)
    return Uniform(values.low, values.high, centered=True)


def random_tensor(
    name: str,
    shape: Sequence[int],
    values: Uniform,
    seed: int,
    dtype: ir.DataType = ir.DataType.FLOAT,
) -> ir.LazyTensor:
    """A tensor that is generated at every access and never kept.

    Args:
        name: name of the weight; part of its random key.
        shape: its shape.
        values: the distribution.
        seed: the model's seed, `>= 0`.
        dtype: its type; whole numbers are rounded down.
    """

    def generate() -> ir.TensorProtocol:
        drawn = _generate(name, shape, values, seed)
        array = np.floor(drawn) if dtype.is_integer() else drawn
        return ir.tensor(array.astype(dtype.numpy(), copy=False), name=name)

    return ir.LazyTensor(generate, dtype, ir.Shape(shape), cache=False, name=name)


def _generate(
    name: str, shape: Sequence[int], values: Uniform, seed: int
) -> npt.NDArray[np.float32]:
    # `hash()` of a string differs from process to process; this digest never does.
    digest = hashlib.blake2b(name.encode(), digest_size=16).digest()
    key = np.random.SeedSequence([seed, int.from_bytes(digest, "little")])
    rng = np.random.Generator(np.random.SFC64(key))
    flat = np.empty(math.prod(shape), dtype=np.float32)
    width, low = np.float32(values.high - values.low), np.float32(values.low)
    row_elements = flat.size // shape[0]
    block_elements = max(1, _BLOCK_ELEMENTS // row_elements) * row_elements
    for start in range(0, flat.size, block_elements):
        block = flat[start : start + block_elements]
        rng.random(out=block, dtype=np.float32)
        if values.centered:
            rows = block.reshape(-1, row_elements)
            # Multiples of 2**-24 add up exactly in float64, so the order, which differs between
            # processors, cannot change the bytes.
            rows -= rows.mean(axis=1, keepdims=True, dtype=np.float64).astype(np.float32)
            block *= width
        else:
            block *= width
            block += low
    return flat.reshape(tuple(shape))


def require_sizes(model: Any, *or_zero: str) -> None:
    """Refuses whole numbers of a model below 1; of its seed and of the named options, below 0.

    Raises:
        ValueError: names every option that is too small, with its value.
    """
    sizes = [
        field.name
        for field in dataclasses.fields(model)
        if type(getattr(model, field.name)) is int and field.name not in (*or_zero, "seed")
    ]
    require_at_least(1, model, *sizes)
    require_at_least(0, model, *or_zero, "seed")


def require_at_least(minimum: int, model: object, *options: str) -> None:
    """Refuses options of a model below `minimum`.

    Raises:
        ValueError: names every option that is too small, with its value.
    """
    _refuse(model, options, lambda value: value < minimum, f"must be at least {minimum}")


def require_at_most(maximum: int, reason: str, **options: int) -> None:
    """Refuses options above `maximum`; `reason` says what sets the limit.

    Raises:
        ValueError: names every option that is too large, with its value.
    """
    too_large = [f"{name}={value}" for name, value in options.items() if value > maximum]
    if too_large:
        raise ValueError(f"must be at most {maximum} ({reason}): {', '.join(too_large)}")


def require_heads_divide(hidden: int, heads: int) -> None:
    """Refuses a hidden size that cannot be split into equal heads.

    Raises:
        ValueError: with both numbers.
    """
    if hidden % heads:
        raise ValueError(f"hidden={hidden} is not a multiple of heads={heads}")


def require_odd(model: object, *options: str) -> None:
    """Refuses even kernel sizes: only an odd kernel keeps the image's size by equal padding.

    Raises:
        ValueError: names every option that is even, with its value.
    """
    _refuse(model, options, lambda value: value % 2 == 0, "must be odd")


def require_factor(model: object, *options: str) -> None:
    """Refuses factors between stages that are not between 1 and 16, and NaN.

    Raises:
        ValueError: names every option out of range, with its value.
    """
    _refuse(model, options, lambda value: not 1.0 <= value <= 16.0, "must be between 1 and 16")


def _refuse(
    model: object, options: Sequence[str], is_wrong: Callable[[float], bool], rule: str
) -> None:
    values = {name: getattr(model, name) for name in options}
    if wrong := [f"{name}={value}" for name, value in values.items() if is_wrong(value)]:
        raise ValueError(f"{rule}: {', '.join(wrong)}")


Attribute = int | float | str | Sequence[int] | Sequence[float] | ir.TensorProtocol
Array = npt.NDArray[np.bool_] | npt.NDArray[np.int64] | npt.NDArray[np.floating]

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


class Sized(Protocol):
    """Options that all models of the zoo have."""

    name: ClassVar[str]

    @property
    def seed(self) -> int: ...

    @property
    def shape_only(self) -> bool: ...


class GraphBuilder:
    """Collects the nodes and weights of one model.

    Args:
        name: name of the graph.
        opset: version of the standard operator set.
        ir_version: version of the file format.
        seed: seed of the random weights, `>= 0`.
        shape_only: large weights become `ConstantOfShape` nodes.

    Attributes:
        inputs: of the graph so far.
    """

    def __init__(
        self, name: str, *, opset: int, ir_version: int, seed: int, shape_only: bool
    ) -> None:
        self._name = name
        self._opset = opset
        self._ir_version = ir_version
        self._seed = seed
        self._shape_only = shape_only
        self.inputs: list[ir.Value] = []
        self._outputs: list[ir.Value] = []
        self._initializers: list[ir.Value] = []
        self._nodes: list[ir.Node] = []
        self._uses_of_name: dict[str, int] = {}

    @classmethod
    def of(cls, model: Sized, opset: int, ir_version: int = 8) -> GraphBuilder:
        """For the options that all models of the zoo have."""
        return cls(
            model.name,
            opset=opset,
            ir_version=ir_version,
            seed=model.seed,
            shape_only=model.shape_only,
        )

    @property
    def root(self) -> Scope:
        """The scope of the whole model."""
        return Scope(self, "")

    def input(self, name: str, dtype: ir.DataType, shape: Sequence[int | str]) -> ir.Value:
        """Adds a graph input; a string in `shape` is a symbolic dimension."""
        value = declare(ir.Value(name=name), dtype, shape)
        self.inputs.append(value)
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
        """Appends a node named `<scope_path>/<op_type>`, numbered when the name is taken.

        A domain may stand before the type, with a dot.
        """
        domain, _, op_type = op_type.rpartition(".")
        name = self._unused(f"{scope_path}/{op_type}")
        outputs = [ir.Value(name=f"{name}_output_{i}") for i in range(num_outputs)]
        self._nodes.append(
            ir.node(op_type, inputs, attributes, domain=domain, outputs=outputs, name=name)
        )
        return outputs

    def weight(
        self,
        scope_path: str,
        name: str,
        shape: Sequence[int],
        values: Uniform,
        dtype: ir.DataType = ir.DataType.FLOAT,
    ) -> ir.Value:
        """Adds a random weight that is generated when it is written."""
        if self._shape_only and math.prod(shape) > _KEPT_ELEMENTS:
            return self._filled(scope_path, name, shape, np.array([_FILL]).astype(dtype.numpy()))
        return self._initializer(name, random_tensor(name, shape, values, self._seed, dtype))

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
            self.inputs,
            self._outputs,
            nodes=self._nodes,
            initializers=self._initializers,
            opset_imports={"": self._opset}
            | {node.domain: 1 for node in self._nodes if node.domain},
            name=self._name,
        )
        properties = {WEIGHTS_KEY: SHAPE_ONLY} if self._shape_only else {}
        return ir.Model(
            graph, ir_version=self._ir_version, producer_name=_PRODUCER, metadata_props=properties
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

    def weight(
        self,
        name: str,
        shape: Sequence[int],
        values: Uniform,
        dtype: ir.DataType = ir.DataType.FLOAT,
    ) -> ir.Value:
        """Adds the weight `<path>.<name>`."""
        return self.graph.weight(self._node_path, self.sub(name).path, shape, values, dtype)

    def bias(self, width: int, name: str = "bias") -> ir.Value:
        """Adds the weight `<path>.<name>` of a shift."""
        return self.weight(name, [width], around(0.0, 0.1))

    def linear(self, x: ir.Value, fan_in: int, fan_out: int) -> ir.Value:
        """A product with `<path>.weight`, stored `[fan_in, fan_out]`, and a shift."""
        weight = self.weight("weight", [fan_in, fan_out], keeps_variance(fan_in))
        bias = self.bias(fan_out)
        return self.op("Add", self.op("MatMul", x, weight), bias)

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
