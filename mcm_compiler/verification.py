"""The contract of verification: did the chips compute what the model computes?"""

from __future__ import annotations

from dataclasses import dataclass

from mcm_compiler.ir.annotations import AnnotationKey


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
class Verification:
    """The result of running the chips and the model on the same inputs in onnxruntime.

    Attributes:
        seeds: seeds of the random inputs.
        outputs: one comparison per graph output; empty where it was skipped.
        skipped: why nothing was compared (`shape-only weights`), or None.
        constant_outputs: outputs that did not change with the input, on which equality says
            little.
    """

    seeds: tuple[int, ...]
    outputs: tuple[OutputComparison, ...]
    skipped: str | None = None
    constant_outputs: tuple[str, ...] = ()

    @property
    def holds(self) -> bool:
        """Whether all outputs agree; True where it was skipped."""
        return all(output.holds for output in self.outputs)


VERIFICATION: AnnotationKey[Verification] = AnnotationKey("verification")
"""The verdict of onnxruntime on the split model."""

EMITTED: AnnotationKey[tuple[str, ...]] = AnnotationKey("emitted_files")
"""Names of the files that were written to the staging folder."""
