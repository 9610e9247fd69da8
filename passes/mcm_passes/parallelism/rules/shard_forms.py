"""How one device computes its part of an op: what a divided factor changes of the op itself.

A rule says which parts of operands and results belong together. That is all for most ops; some
also name an extent in an attribute or a constant operand, count a bias in once only, or need
elements beyond their part.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from mcm_compiler.contracts.sharding.rules import Dim, Dims, FactorKind, OpFacts, ShardingRule
from mcm_passes.parallelism.rules.operators.composing import OpRule, Window, windows
from mcm_passes.parallelism.rules.operators.extents import sliced_pieces


@dataclass(frozen=True)
class ShardForm:
    """One device's op, where it differs from the whole one.

    Attributes:
        attributes: those that change.
        constants: values of operands that change, by operand; one that the op did not have is
            added.
        first_only: operands that only the first device counts in (others: zeros, or left out).
        reads: for a factor with a halo, `(axis, first, last)` of operand 0.
        runs: `(axis, first, last)` of operand 0 for each of the first operands of the part, which
            the whole op reads side by side in it.
        index_offset: for a divided table that is looked up: row 0 of this part, within each run of
            its rows if there are several. An index outside of the part gives zeros.
    """

    attributes: Mapping[str, Any] = field(default_factory=dict)
    constants: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    first_only: tuple[int, ...] = ()
    reads: tuple[int, int, int] | None = None
    runs: tuple[tuple[int, int, int], ...] = ()
    index_offset: int | None = None


@dataclass(frozen=True)
class Share:
    """A part of a factor.

    Attributes:
        facts: the whole op.
        rule: its rule.
        factor: which factor is divided, by index.
        start, stop: the part, `0 <= start < stop <= size`.
    """

    facts: OpFacts
    rule: ShardingRule
    factor: int
    start: int
    stop: int

    def extent(self, dim: Dim, size: int | None) -> int:
        """Size of a dimension of `size` on the device."""
        if self.factor not in dim:
            assert size is not None
            return size
        sizes = [self.rule.factors[f].size or 1 for f in dim if f != self.factor]
        return math.prod(sizes) * (self.stop - self.start)

    def result_shape(self, index: int = 0) -> tuple[int, ...]:
        """Shape of a result on the device."""
        return self._local(self.rule.outputs[index], self.facts.output_shapes[index])

    def operand_shape(self, index: int = 0) -> tuple[int, ...]:
        """Shape of an operand on the device, without halo."""
        return self._local(self.rule.inputs[index], self.facts.input_shapes[index])

    def _local(self, dims: Dims | None, shape: tuple[int | None, ...] | None) -> tuple[int, ...]:
        assert dims is not None
        assert shape is not None
        return tuple(self.extent(dim, size) for dim, size in zip(dims, shape, strict=True))


def shard_form(facts: OpFacts, rule: ShardingRule, factor: int, start: int, stop: int) -> ShardForm:
    """Changes of an op when a device has the part `start` to `stop` of a factor.

    Args:
        facts: the op, with its sizes known.
        rule: its rule.
        factor: one that passes, is reduced or has a halo.
        start: first unit of the part.
        stop: one past the last.
    """
    name = facts.op_type if facts.domain in ("", "ai.onnx") else f"{facts.domain}::{facts.op_type}"
    form = _FORMS.get(name)
    return form(Share(facts, rule, factor, start, stop)) if form else ShardForm()


def _to_shape(share: Share) -> ShardForm:
    """Reshape, Expand: the target shape is that of the part."""
    return ShardForm(constants={1: share.result_shape()})


def _filled(share: Share) -> ShardForm:
    return ShardForm(constants={0: share.result_shape()})


def _tile(share: Share) -> ShardForm:
    pairs = zip(share.result_shape(), share.operand_shape(), strict=True)
    return ShardForm(constants={1: tuple(made // size for made, size in pairs)})


def _squeeze(share: Share) -> ShardForm:
    """Without axes, parts of size 1 would be dropped too."""
    facts = share.facts
    shape = facts.input_shapes[0]
    assert shape is not None
    if len(facts.input_shapes) > 1 or "axes" in facts.attributes:
        return ShardForm()
    axes = tuple(axis for axis, size in enumerate(shape) if size == 1)
    return ShardForm(constants={1: axes}) if facts.version >= 13 else ShardForm({"axes": axes})


def _crop_or_pad(share: Share) -> ShardForm:
    made = share.result_shape()
    axes = share.facts.attributes.get("axes", tuple(range(len(made))))
    return ShardForm(constants={1: tuple(made[axis] for axis in axes)})


def _resize(share: Share) -> ShardForm:
    if 3 not in share.facts.constants:
        return ShardForm()
    made = share.result_shape()
    axes = share.facts.attributes.get("axes", tuple(range(len(made))))
    return ShardForm(constants={3: tuple(made[axis] for axis in axes)})


def _split(share: Share) -> ShardForm:
    """Extents of the results, where they are given, become those of their parts."""
    facts = share.facts
    shape = facts.input_shapes[0]
    assert shape is not None
    axis = int(facts.attributes.get("axis", 0)) % len(shape)
    made = tuple(share.result_shape(index)[axis] for index in range(len(facts.output_shapes)))
    if made == tuple((out or ())[axis] for out in facts.output_shapes):
        return ShardForm()
    if "split" in facts.attributes:
        return ShardForm({"split": made})
    given = len(facts.input_shapes) > 1 and facts.input_shapes[1] is not None
    return ShardForm(constants={1: made}) if given else ShardForm()


def _slice(share: Share) -> ShardForm:
    """Ends of a piece of which a part is taken count what is there of the pieces before it."""
    facts, rule = share.facts, share.rule
    dims = rule.inputs[0]
    assert dims is not None
    op = OpRule(facts)
    pieces = sliced_pieces(op)
    axis = next((at for at, dim in enumerate(dims) if share.factor in dim), None)
    if axis is None or axis not in pieces or pieces[axis][:2] == (0, pieces[axis][2]):
        return ShardForm()
    local, size = share.operand_shape()[axis], pieces[axis][2]
    axes = op.listed(3, "axes") or tuple(range(len(dims)))
    at = [other % len(dims) for other in axes].index(axis)
    made: list[tuple[int, ...]] = []
    for operand, name in ((1, "starts"), (2, "ends")):
        given = list(op.listed(operand, name) or ())
        given[at] = pieces[axis][operand - 1] * local // size
        made.append(tuple(given))
    if "starts" in facts.attributes:
        return ShardForm({"starts": made[0], "ends": made[1]})
    return ShardForm(constants={1: made[0], 2: made[1]})


def _affine_grid(share: Share) -> ShardForm:
    size = share.facts.constants[1]
    return ShardForm(constants={1: (share.operand_shape()[0], *size[1:])})


def _gather(share: Share) -> ShardForm:
    reduced = share.rule.factors[share.factor].kind is FactorKind.REDUCE
    return ShardForm(index_offset=share.start if reduced else None)


def _gemm(share: Share) -> ShardForm:
    return ShardForm(first_only=_bias(share, 2))


def _blocked_matmul(share: Share) -> ShardForm:
    return ShardForm({"N": share.result_shape()[-1]})


def _bias(share: Share, operand: int) -> tuple[int, ...]:
    reduced = share.rule.factors[share.factor].kind is FactorKind.REDUCE
    inputs = share.rule.inputs
    return (operand,) if reduced and operand < len(inputs) and inputs[operand] is not None else ()


def _conv(share: Share) -> ShardForm:
    facts = share.facts
    weight = 3 if facts.op_type == "QLinearConv" else 1
    bias = 8 if facts.op_type == "QLinearConv" else 2
    kernel = (facts.input_shapes[weight] or ())[2:]
    channels = (share.rule.inputs[weight] or ())[:1]
    form = _slid(share, kernel)
    attributes = dict(form.attributes)
    if "group" in facts.attributes and channels and share.factor in channels[0]:
        attributes["group"] = _groups(share)
    counted = () if facts.op_type == "ConvInteger" else _bias(share, bias)
    return ShardForm(attributes, first_only=counted, reads=form.reads)


def _conv_transpose(share: Share) -> ShardForm:
    attributes = {"group": _groups(share)} if "group" in share.facts.attributes else {}
    return ShardForm(attributes, first_only=_bias(share, 2))


def _groups(share: Share) -> int:
    divided = share.rule.factors[share.factor].name == "g"
    return share.stop - share.start if divided else int(share.facts.attributes["group"])


def _pool(share: Share) -> ShardForm:
    return _slid(share, tuple(share.facts.attributes["kernel_shape"]))


def _slid(share: Share, kernel: tuple[int | None, ...]) -> ShardForm:
    """The elements under the windows of the part, and the padding that is left for it."""
    facts = share.facts
    image, out = facts.input_shapes[0], facts.output_shapes[0]
    dims = share.rule.outputs[0]
    assert image is not None
    assert out is not None
    assert dims is not None
    if share.rule.factors[share.factor].kind is not FactorKind.HALO:
        return ShardForm()
    axis = next(i for i, dim in enumerate(dims) if share.factor in dim)
    places = windows(facts, image[2:], kernel, out[2:])
    window = places[axis - 2]
    assert isinstance(window, Window)
    # A window that hangs over along another dimension has all of it, so its padding stays.
    pads = [*share.facts.attributes.get("pads", (0,) * (2 * len(places)))]
    for i, other in enumerate(places):
        if isinstance(other, Window):
            pads[i], pads[i + len(places)] = other.before, other.after()
    first, last = window.reads(share.start, share.stop)
    pads[axis - 2] = max(0, -first)
    pads[axis - 2 + len(places)] = max(0, last - window.size)
    attributes = {"pads": tuple(pads), "auto_pad": "NOTSET"}
    return ShardForm(attributes, reads=(axis, max(first, 0), min(last, window.size)))


def _group_normalization(share: Share) -> ShardForm:
    if share.rule.factors[share.factor].name != "g":
        return ShardForm()
    return ShardForm({"num_groups": share.stop - share.start})


def _heads(share: Share) -> ShardForm:
    sizes = {f.name: f.size or 1 for f in share.rule.factors}
    sizes[share.rule.factors[share.factor].name] = share.stop - share.start
    heads = sizes.get("h", 1)
    queries = heads * sizes.get("g", 1)
    counts = {"kv_num_heads": heads, "q_num_heads": queries, "num_heads": queries}
    return ShardForm({n: count for n, count in counts.items() if n in share.facts.attributes})


def _grouped_heads(share: Share) -> ShardForm:
    """Queries, keys and values in one operand become operands of their own."""
    form, (row, key, *_) = _heads(share), share.facts.input_shapes
    if row is None or key is not None:
        return form
    queries, heads = (int(share.facts.attributes[n]) for n in ("num_heads", "kv_num_heads"))
    width = (row[2] or 0) // (queries + 2 * heads)
    runs = [(0, queries // heads), (queries, 1), (queries + heads, 1)]
    ends = [
        [(first + at * each) * width for at in (share.start, share.stop)] for first, each in runs
    ]
    return replace(form, runs=tuple((2, start, stop) for start, stop in ends))


def _direction(share: Share) -> ShardForm:
    """One of two directions runs forward, the other in reverse, with its own activations."""
    if share.rule.factors[share.factor].name != "d":
        return ShardForm()
    changes: dict[str, Any] = {"direction": "reverse" if share.start else "forward"}
    activations = tuple(share.facts.attributes.get("activations", ()))
    if activations:
        each = len(activations) // 2
        changes["activations"] = activations[share.start * each : share.stop * each]
    return ShardForm(changes)


_FORMS: Mapping[str, Callable[[Share], ShardForm]] = {
    **dict.fromkeys(("Attention", "LinearAttention", "RotaryEmbedding"), _heads),
    **dict.fromkeys(("AveragePool", "LpPool", "MaxPool"), _pool),
    **dict.fromkeys(("Conv", "ConvInteger", "QLinearConv"), _conv),
    **dict.fromkeys(("Expand", "Reshape"), _to_shape),
    **dict.fromkeys(("GRU", "LSTM", "RNN"), _direction),
    "AffineGrid": _affine_grid,
    "com.microsoft::GroupQueryAttention": _grouped_heads,
    "com.microsoft::MatMulNBits": _blocked_matmul,
    "com.microsoft::MultiHeadAttention": _heads,
    "CenterCropPad": _crop_or_pad,
    "ConstantOfShape": _filled,
    "ConvTranspose": _conv_transpose,
    "Gather": _gather,
    "Gemm": _gemm,
    "GroupNormalization": _group_normalization,
    "Resize": _resize,
    "Slice": _slice,
    "Split": _split,
    "Squeeze": _squeeze,
    "Tile": _tile,
}
"""Ops that change with the part; others are the same on every device."""
