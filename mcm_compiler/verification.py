"""The contract of verification: did the chips compute what the model computes?"""

from __future__ import annotations

from dataclasses import dataclass

from mcm_compiler.chips import CHIP_MODELS, WIRES
from mcm_compiler.ir.annotations import AnnotationKey
from mcm_compiler.ir.source import SOURCE
from mcm_compiler.program import PROGRAM


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
        """Whether the outputs agree."""
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
    """

    seeds: tuple[int, ...]
    outputs: tuple[OutputComparison, ...]
    skipped: str | None = None
    constant_outputs: tuple[str, ...] = ()
    data_sets: tuple[str, ...] = ()
    expected: tuple[ExpectedComparison, ...] = ()
    random_outputs: tuple[str, ...] = ()
    remedy: str | None = None

    @property
    def holds(self) -> bool:
        """Whether all outputs agree; True where it was skipped."""
        return all(compared.holds for compared in (*self.outputs, *self.expected))


EMITTED: AnnotationKey[tuple[str, ...]] = AnnotationKey(
    "emitted_files", derived_from=(SOURCE, CHIP_MODELS, WIRES, PROGRAM)
)
"""Names of the files that were written to the staging folder."""

VERIFICATION: AnnotationKey[Verification] = AnnotationKey("verification", derived_from=(EMITTED,))
"""The verdict of onnxruntime on the split model."""
