"""Facts about the per-chip models, once the graph is split."""

from __future__ import annotations

from mcm_compiler.ir.annotations import GRAPH, AnnotationKey
from mcm_compiler.partition import CHIP
from mcm_compiler.target import ChipModel, Wire

CHIP_MODELS: AnnotationKey[tuple[ChipModel, ...]] = AnnotationKey(
    "chip_models", derived_from=(GRAPH, CHIP)
)
"""One model per used chip, ascending."""

WIRES: AnnotationKey[tuple[Wire, ...]] = AnnotationKey("wires", derived_from=(GRAPH, CHIP))
"""All tensors that travel between chips and the host, in order of first use."""

GROUP_PROPERTY = "mcm.group"
"""Key in a node's `metadata_props`: its fusion group."""

ORIGIN_PROPERTY = "mcm.origin"
"""Key in a node's `metadata_props`: the node of the source model that it comes from."""

PLANNED_PROPERTY = "mcm.plan"
"""Key in the `metadata_props` of an annotated model whose ops a plan divides."""

CHIP_PROPERTY = "mcm.chip"
"""Key in a node's `metadata_props`: its chip."""
