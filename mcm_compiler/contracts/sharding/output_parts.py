"""The contract of outputs that leave in pieces: which part of a graph output a tensor is.

If no chip has enough memory to assemble a graph output from its pieces, each piece goes to the host
from the chip that makes it, and the host writes it to its place. Pieces along the first axis are
contiguous. Along any other axis a piece is written in strides, a run of elements for each index
before that axis.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
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
        within: the place of `output`, where that is itself only a piece of a graph output: one that
            was divided by columns and then by rows.
    """

    output: str
    axis: Index
    start: Size
    stop: Size
    shape: tuple[Size, ...]
    within: OutputPart | None = None

    @property
    def depth(self) -> int:
        """How many joins lead to the graph output."""
        return 1 if self.within is None else 1 + self.within.depth

    @property
    def graph_output(self) -> str:
        """The graph output that it is a piece of."""
        return self.output if self.within is None else self.within.graph_output

    @property
    def piece_shape(self) -> tuple[int, ...]:
        """Shape of the piece in its place; what travels may have the same elements in another."""
        before, after = self.shape[: self.axis], self.shape[self.axis + 1 :]
        return (*before, self.stop - self.start, *after)

    @property
    def strided(self) -> bool:
        """True if the piece is not contiguous in the output's memory."""
        return any(extent != 1 for extent in self.shape[: self.axis])


@dataclass(frozen=True)
class HostJoin:
    """Pieces that the host puts together.

    Attributes:
        output: what they make: a graph output, or a piece of one.
        pieces: tensors and their places, by where they begin.
    """

    output: str
    pieces: tuple[tuple[str, OutputPart], ...]


def host_joins(pieces: Iterable[tuple[str, OutputPart]]) -> list[HostJoin]:
    """The joins of the host, in an order in which all inputs of a join are there.

    Args:
        pieces: tensors that arrive, with their places.
    """
    pending = list(pieces)
    joins: list[HostJoin] = []
    while pending:
        deepest = max(part.depth for _, part in pending)
        groups: dict[str, list[tuple[str, OutputPart]]] = {}
        for tensor, part in pending:
            if part.depth == deepest:
                groups.setdefault(part.output, []).append((tensor, part))
        pending = [pair for pair in pending if pair[1].depth < deepest]
        for output, found in groups.items():
            joins.append(HostJoin(output, tuple(sorted(found, key=lambda pair: pair[1].start))))
            if (within := found[0][1].within) is not None:
                pending.append((output, within))
    return joins


OUTPUT_PARTS: AnnotationKey[Mapping[str, OutputPart]] = AnnotationKey(
    "output_parts", derived_from=()
)
"""Graph outputs of the compiled model that are pieces of the source's, by name: a record."""
