"""The contract of verification: did the chips compute what the model computes?"""

from __future__ import annotations

from dataclasses import dataclass

from mcm_compiler.contracts.chips import CHIP_MODELS, WIRES
from mcm_compiler.contracts.program import PROGRAM
from mcm_compiler.graph.annotations import AnnotationKey
from mcm_compiler.graph.source import SOURCE


@dataclass(frozen=True)
class OutputComparison:
    """One graph output, compared over all seeds.

    Attributes:
        output: its name.
        bit_equal: whether every element had the same bits (NaN equals NaN).
        max_abs_error: largest absolute difference, 0 where the bits agree.
        tolerance: what was allowed; 0 where only equal bits pass.
    """

    output: str
    bit_equal: bool
    max_abs_error: float
    tolerance: float

    @property
    def holds(self) -> bool:
        """True if the outputs agree."""
        return self.bit_equal or self.max_abs_error <= self.tolerance


@dataclass(frozen=True)
class ExpectedComparison:
    """One output of the chips against what the user expects.

    Attributes:
        data_set: name of the user's data.
        output: graph output.
        holds: whether type and shape are equal and all elements close.
        max_abs_error: largest absolute difference; infinite where type or shape differ.
    """

    data_set: str
    output: str
    holds: bool
    max_abs_error: float


@dataclass(frozen=True)
class WeakOutput:
    """An output whose comparison shows little.

    Attributes:
        output: its name.
        why: what it is in every run: empty, NaN, infinite or one number.
    """

    output: str
    why: str


@dataclass(frozen=True)
class UnprovenOp:
    """An op of a chip that is not known to be one of the model.

    Attributes:
        chip: the chip.
        node: its name.
        op_type: its type.
        origin: the op of the model that it says it comes from, or "".
        what: how it differs.
    """

    chip: int
    node: str
    op_type: str
    origin: str
    what: str


@dataclass(frozen=True)
class ClassRuns:
    """Which classes of a round run, so that each op runs that is unlike all others.

    Attributes:
        classes: the classes; the others have the same ops on the same values.
        tensors: what travels between chips and to and from the host for them, by sender.
    """

    classes: tuple[int, ...]
    tensors: frozenset[tuple[int, str]]


@dataclass(frozen=True)
class StructureProof:
    """Proof without a run: each op, attribute, weight and wire against the source graph.

    Attributes:
        ops: ops on all chips, constants left out, clones and relays counted.
        unproven: ops that are not the model's, in the order of the chips; an op after one of them
            is compared as if that one were proven.
        outputs: graph outputs with another value than the model's.
        unfollowed_passes: passes of the pipeline whose changes have no rule.
        model: name of the user's model that was read again, or None if `annotated.onnx` was
            taken as the model.
        reordered: whether onnxruntime may add in another order in some part of an op.
        runs: of the classes of a round that is proven whole; None where all are to run.
    """

    ops: int
    unproven: tuple[UnprovenOp, ...] = ()
    outputs: tuple[str, ...] = ()
    unfollowed_passes: tuple[str, ...] = ()
    model: str | None = None
    reordered: bool = False
    runs: ClassRuns | None = None

    @property
    def proven(self) -> int:
        """How many ops are proven."""
        return self.ops - len(self.unproven)

    @property
    def whole(self) -> bool:
        """True if nothing is left to runs."""
        return not self.unproven and not self.outputs


@dataclass(frozen=True)
class Verification:
    """The result of running the chips and the model on the same inputs in onnxruntime.

    Attributes:
        seeds: seeds of the random inputs that were compared.
        outputs: one comparison per graph output; empty where it was skipped.
        skipped: why nothing was compared (`shape-only weights`), or None.
        constant_outputs: outputs that did not change with the input, on which equality says
            little.
        data_sets: names of the user's data that were compared as well.
        expected: the chips' outputs on the user's data against those that the data expects.
        random_outputs: outputs that were not compared, because they depend on ops that draw
            random numbers.
        remedy: what would make a comparison possible that was skipped, or None.
        structure: what is proven without a run, or None where nothing was looked at.
        weak: outputs on which equality says nothing.
        redraws: sizes of random inputs that were tried in addition to standard normal ones.
        stock: the same comparison under onnxruntime's own session options; empty where it was not
            made.
        stock_skipped: why that was not made where it was asked for, or empty.
        stock_died: whether that is because onnxruntime ended the process that ran the models.
        steps: steps of a sequence that were compared, each with the states that the one before
            left on the chips; 0 where there are none.
        classes: of inferences in a round, all of which were compared.
    """

    seeds: tuple[int, ...]
    outputs: tuple[OutputComparison, ...]
    skipped: str | None = None
    constant_outputs: tuple[str, ...] = ()
    data_sets: tuple[str, ...] = ()
    expected: tuple[ExpectedComparison, ...] = ()
    random_outputs: tuple[str, ...] = ()
    remedy: str | None = None
    structure: StructureProof | None = None
    weak: tuple[WeakOutput, ...] = ()
    redraws: tuple[str, ...] = ()
    stock: tuple[OutputComparison, ...] = ()
    stock_skipped: str = ""
    stock_died: bool = False
    steps: int = 0
    classes: int = 1

    @property
    def holds(self) -> bool:
        """True if all outputs agree, or the comparison was skipped."""
        return all(compared.holds for compared in (*self.outputs, *self.expected))


EMITTED: AnnotationKey[tuple[str, ...]] = AnnotationKey(
    "emitted_files", derived_from=(SOURCE, CHIP_MODELS, WIRES, PROGRAM)
)
"""Names of the files that were written to the staging folder."""

VERIFICATION: AnnotationKey[Verification] = AnnotationKey("verification", derived_from=(EMITTED,))
"""How the split model compares with the source model in onnxruntime."""
