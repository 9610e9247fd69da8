"""Building rules whose factors depend on the attributes of an op."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from mcm_compiler.contracts.sharding import rules
from mcm_compiler.contracts.sharding.templates import ordered_rule, rule_for_shapes

PASS = rules.FactorKind.PASS
REDUCE = rules.FactorKind.REDUCE
REPLICATE = rules.FactorKind.REPLICATE
HALO = rules.FactorKind.HALO
BLOCKED = rules.FactorKind.BLOCKED

Shape = tuple[int | None, ...]


class OpRule:
    """The rule of one op in the making: what is known of the op, and the factors so far.

    Factors without a name get letters. Shapes of operands and results are `inputs` and `outputs`.
    """

    def __init__(self, facts: rules.OpFacts) -> None:
        self.facts = facts
        self.attributes, self.constants = facts.attributes, facts.constants
        self.inputs, self.outputs = facts.input_shapes, facts.output_shapes
        self._factors: list[rules.Factor] = []

    def dim(
        self,
        size: int | None,
        kind: rules.FactorKind = PASS,
        name: str = "",
        reduction: rules.Reduction | None = None,
    ) -> rules.Dim:
        """A dimension of one new factor; one of size 1 has none."""
        if size == 1:
            return ()
        how = reduction if reduction is not None and kind is REDUCE else "sum"
        self._factors.append(rules.Factor(name, size, kind, how))
        return (len(self._factors) - 1,)

    def needed(self, size: int | None, name: str = "") -> rules.Dim:
        """A dimension of one new factor that the op needs whole."""
        return self.dim(size, REPLICATE, name)

    def dims(self, shape: Shape, needed: Container[int] = ()) -> list[rules.Dim]:
        """New factors for all dimensions of a tensor, of which the axes `needed` are whole."""
        return [self.dim(s, REPLICATE if i in needed else PASS) for i, s in enumerate(shape)]

    def all_needed(self, shape: Shape) -> list[rules.Dim]:
        """New factors for all dimensions of a tensor that the op needs whole."""
        return [self.needed(size) for size in shape]

    def rule(
        self,
        inputs: Sequence[Sequence[rules.Dim] | None],
        outputs: Sequence[Sequence[rules.Dim] | None],
    ) -> rules.ShardingRule:
        """The rule, without the factors that no dimension has; further operands are read whole."""
        rest = [None] * (len(self.inputs) - len(inputs))
        return ordered_rule(self._factors, [*inputs, *rest], outputs)

    def whole(self) -> rules.ShardingRule:
        """Every device runs the whole op."""
        return whole(self.facts)

    def same_shape(self, shape: Shape, needed: Container[int] = ()) -> rules.ShardingRule:
        """Every result has the first operand's dimensions, of which the axes `needed` are whole.

        Other operands are small, or read for their type alone.
        """
        dims = self.dims(shape, needed)
        return self.rule([dims], [dims] * len(self.outputs))

    def spelled(
        self,
        operands: Sequence[str],
        results: Sequence[str],
        sizes: Mapping[str, int | None] | None = None,
    ) -> rules.ShardingRule:
        """The rule of a template with a text for each operand and result.

        Those that the op leaves out at the end are left out. `sizes` are as of `rule_for_shapes`.
        """
        inputs = ", ".join(operands[: len(self.inputs)])
        outputs = ", ".join(results[: len(self.outputs)])
        return rule_for_shapes(f"{inputs} -> {outputs}", self.inputs, self.outputs, sizes)

    def axis(self, default: int, rank: int, name: str = "axis") -> int:
        """The attribute `name` as an index from the front."""
        axis = int(self.attributes.get(name, default))
        return axis + rank if axis < 0 else axis

    def listed(self, operand: int, attribute: str) -> tuple[int, ...] | None:
        """Integers that are an operand in newer opsets and an attribute in older ones.

        Returns:
            None where the op has neither, or the values of the operand are not known (`is_given`
            distinguishes one from the other).
        """
        if operand in self.constants:
            return self.constants[operand]
        found = self.attributes.get(attribute)
        return None if found is None else tuple(int(i) for i in found)

    def is_given(self, operand: int) -> bool:
        """True if the op may have the operand; left out before others, it counts as given."""
        return operand < len(self.inputs)


def whole(facts: rules.OpFacts) -> rules.ShardingRule:
    """Every device runs the whole op."""
    op = OpRule(facts)
    sides = (
        [None if shape is None else op.all_needed(shape) for shape in side]
        for side in (op.inputs, op.outputs)
    )
    return op.rule(*sides)


Made = TypeVar("Made", bound=Callable[..., rules.ShardingRule])


def rule_maker(
    made: Callable[..., rules.ShardingRule], inputs: int = 0, outputs: int = 0, **options: Any
) -> rules.RuleMaker:
    """The maker of rules by a function of an `OpRule`; without shapes it needs, they are `whole`.

    Args:
        made: gets the shapes behind the op, those of operands first.
        inputs: how many operands, from the first on.
        outputs: how many results, from the first on.
        options: further arguments.
    """

    def make(facts: rules.OpFacts) -> rules.ShardingRule:
        shapes = facts.input_shapes[:inputs] + facts.output_shapes[:outputs]
        return whole(facts) if None in shapes else made(OpRule(facts), *shapes, **options)

    return make


class RuleFamily(dict[str, rules.RuleMaker]):
    """Rule makers by operator."""

    def of(
        self, *operators: str, inputs: int = 0, outputs: int = 0, **options: Any
    ) -> Callable[[Made], Made]:
        """Decorator of the function that makes the rules of some operators; see `rule_maker`."""

        def add(made: Made) -> Made:
            self.update(dict.fromkeys(operators, rule_maker(made, inputs, outputs, **options)))
            return made

        return add


MICROSOFT_RULES = RuleFamily()
"""Of operators of onnxruntime's own domain, from several files."""

_NAMES = {1: "x", 2: "yx", 3: "zyx"}


@dataclass(frozen=True)
class Window:
    """How a window slides along one dimension, all sizes known.

    Attributes:
        extent: elements that it spans, holes of a dilation included.
        stride: elements between two places.
        before: padding in front.
        size: extent of the operand.
        places: extent of the result.
    """

    extent: int
    stride: int
    before: int
    size: int
    places: int

    def reads(self, start: int, stop: int) -> tuple[int, int]:
        """Elements that the places `start` to `stop` read; outside 0 to `size` is padding."""
        first = start * self.stride - self.before
        return first, (stop - 1) * self.stride - self.before + self.extent

    def after(self) -> int:
        """Padding behind that the last place reads."""
        return max(0, self.reads(0, self.places)[1] - self.size)


def windows(
    facts: rules.OpFacts, image: Shape, kernel: Shape, out: Shape
) -> list[Window | tuple[int | None, int | None]]:
    """One per spatial dimension, from the attributes that convolutions and pools share.

    Returns:
        Of a dimension with a size that is unknown, or whose windows cannot be cut apart, the
        extents of operand and result instead.
    """
    rank = len(image)
    strides = facts.attributes.get("strides") or (1,) * rank
    dilations = facts.attributes.get("dilations") or (1,) * rank
    pads: Sequence[int] = facts.attributes.get("pads") or (0,) * (2 * rank)
    auto = facts.attributes.get("auto_pad", "NOTSET")
    auto = auto.decode() if isinstance(auto, bytes) else auto
    found: list[Window | tuple[int | None, int | None]] = []
    for axis in range(rank):
        size, places, taps = image[axis], out[axis], kernel[axis]
        found.append((size, places))
        if size is None or places is None or taps is None:
            continue
        extent, stride = (taps - 1) * int(dilations[axis]) + 1, int(strides[axis])
        before, after = int(pads[axis]), int(pads[axis + rank])
        if auto != "NOTSET":
            padding = 0 if auto == "VALID" else max((places - 1) * stride + extent - size, 0)
            before = padding // 2 if auto != "SAME_LOWER" else (padding + 1) // 2
            after = padding - before
        window = Window(extent, stride, before, size, places)
        # A window of padding alone has nothing to read, and one that hangs over the padding
        # (`ceil_mode`) is counted in another way.
        real = before < extent and window.reads(places - 1, places)[0] < size
        if real and window.after() <= after:
            found[-1] = window
    return found


def window_dims(
    op: OpRule, places: Sequence[Window | tuple[int | None, int | None]]
) -> tuple[list[rules.Dim], list[rules.Dim]]:
    """Spatial dimensions of operand and result.

    Windows that do not overlap are a minor factor that is needed whole, if they fill the operand
    with what they skip; others have a halo. Where there is one place only,
    there is nothing to divide.
    """
    names = _NAMES.get(len(places), "")
    before: list[rules.Dim] = []
    after: list[rules.Dim] = []
    for axis, window in enumerate(places):
        name = names[axis] if names else f"s{axis}"
        if not isinstance(window, Window) or window.places == 1:
            size, made = (window.size, 1) if isinstance(window, Window) else window
            before.append(op.needed(size, name))
            after.append(op.needed(made))
        elif (
            window.before == 0
            and window.extent <= window.stride
            and window.size == window.places * window.stride
        ):
            major = op.dim(window.places, name=name)
            before.append(major + op.needed(window.stride))
            after.append(major)
        else:
            slid = op.dim(window.places, HALO, name)
            before.append(slid if window.size != 1 else ())
            after.append(slid)
    return before, after
