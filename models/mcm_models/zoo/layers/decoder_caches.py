"""Keys and values of earlier tokens: what decoders read, and what they give back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import onnx_ir as ir

from mcm_models.graph_builder import GraphBuilder

Cache = tuple[ir.Value, ir.Value]
"""Keys and values of a layer."""

_PARTS = ("key", "value")


@dataclass(frozen=True)
class Caches:
    """Inputs `past_key_values.N.key` and `.value`, and outputs `present.N.key` and `.value`.

    Attributes:
        graph: that has them.
        layers: that have one.
        sizes: of either part: batch, heads, earlier tokens, width of a head.
        dtype: of all.
    """

    graph: GraphBuilder
    layers: int
    sizes: Sequence[int]
    dtype: ir.DataType = ir.DataType.FLOAT

    def past(self) -> list[Cache]:
        """Inputs of all layers."""

        def given(layer: int, part: str) -> ir.Value:
            return self.graph.input(f"past_key_values.{layer}.{part}", self.dtype, self.sizes)

        return [(given(layer, "key"), given(layer, "value")) for layer in range(self.layers)]

    def present(self, caches: Sequence[Cache], until: int) -> None:
        """Makes the caches of all layers outputs, with `until` tokens."""
        batch, heads, _, width = self.sizes
        for layer, cache in enumerate(caches):
            for part, value in zip(_PARTS, cache, strict=True):
                sizes = [batch, heads, until, width]
                self.graph.output(value, f"present.{layer}.{part}", self.dtype, sizes)
