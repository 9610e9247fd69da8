"""Which passes change ops only in ways that the proof by structure has rules for."""

from __future__ import annotations

from collections.abc import Sequence

from mcm_compiler.diagnostics import CompileError
from mcm_compiler.registry import PASSES
from mcm_compiler.text import spec_text

DISTRIBUTION = "mcm-compiler"

FOLLOWED = frozenset(
    {"simplify", "fuse", "annotate_cost", "shard_oversized", "parallelize", "partition",
     "legalize", "split", "map_chips", "lower", "simulate", "emit", "verify"}
)  # fmt: skip
"""Built-in passes; what any other pass did to an op is left to runs."""

PLANNED = frozenset({"apply_plan"})
"""Built-in passes that divide ops in more ways than there are rules for."""

MAX_CONSTANT_BYTES = 1 << 22
"""Operands and results of ops that the proof computes, unless a pass is set to compute more."""

_MOST_CONSTANT_BYTES = 1 << 30

_FOLDING_OPTION = "max_fold_bytes"


def constant_bytes(pipeline: str) -> int:
    """Up to which size the passes of a pipeline may have computed constants.

    Args:
        pipeline: of a manifest; anything but a pipeline counts as one without options.
    """
    given = [str(dict(spec.options).get(_FOLDING_OPTION, "")) for spec in _specs(pipeline)]
    asked = [int(text) for text in given if text.isdecimal() and len(text) < 20]
    return min(max([MAX_CONSTANT_BYTES, *asked]), _MOST_CONSTANT_BYTES)


def pass_names(pipeline: str) -> set[str]:
    """Names of the passes of a pipeline; none of what is no pipeline."""
    return {spec.name for spec in _specs(pipeline)}


def _specs(pipeline: str) -> Sequence[spec_text.Spec]:
    try:
        return spec_text.parse_list(pipeline)
    except CompileError:
        return ()


def unfollowed_passes(pipeline: str) -> tuple[str, ...]:
    """The passes of a pipeline text that may have changed ops in ways without a rule.

    A pass counts as built in by where it is registered, so that a plug-in does not pass for one by
    its name.
    """
    names = dict.fromkeys(spec.name for spec in spec_text.parse_list(pipeline))
    return tuple(
        name
        for name in names
        if name not in FOLLOWED or PASSES.origin_of(name).split(" ")[0] != DISTRIBUTION
    )
