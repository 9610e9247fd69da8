"""The contract of outputs that leave in pieces: which part of a graph output a tensor is.

Where a graph output is put together from pieces, and no chip has room for the whole, each piece
goes to the host from the chip that makes it, and the host puts it in its place. Pieces along the
first axis are one stretch of memory each; along any other axis a piece is written in strides, a run
of elements for each index before that axis.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from mcm_compiler.graph.annotations import AnnotationKey
from mcm_compiler.text.bounded_numbers import Index, Size


@dataclass(frozen=True)
class OutputPart:
    """The place of a piece in a graph output.

    Attributes:
        output: the graph output.
        axis: along which its pieces lie side by side.
        start: where this one begins.
        stop: one past its end.
        shape: of the whole output.
    """

    output: str
    axis: Index
    start: Size
    stop: Size
    shape: tuple[Size, ...]

    @property
    def piece_shape(self) -> tuple[int, ...]:
        """Shape of the piece in its place; what travels may have the same elements in another."""
        before, after = self.shape[: self.axis], self.shape[self.axis + 1 :]
        return (*before, self.stop - self.start, *after)

    @property
    def strided(self) -> bool:
        """Whether the piece is no single stretch of the output's memory."""
        return any(extent != 1 for extent in self.shape[: self.axis])


OUTPUT_PARTS: AnnotationKey[Mapping[str, OutputPart]] = AnnotationKey(
    "output_parts", derived_from=()
)
"""Graph outputs of the compiled model that are pieces of the source's, by name: a record."""
