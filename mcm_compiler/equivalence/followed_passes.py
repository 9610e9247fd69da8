"""Which passes change ops only in ways that the proof by structure has rules for."""

from __future__ import annotations

from mcm_compiler import spec_text
from mcm_compiler.registry import PASSES

DISTRIBUTION = "mcm-compiler"

FOLLOWED = frozenset(
    {"simplify", "fuse", "annotate_cost", "shard_oversized", "parallelize", "partition",
     "legalize", "split", "lower", "simulate", "emit", "verify"}
)  # fmt: skip
"""Built-in passes; what any other pass did to an op is left to runs."""


def unfollowed_passes(pipeline: str) -> tuple[str, ...]:
    """The passes of a pipeline text that may have changed ops in ways without a rule.

    A pass counts as built in by where it is registered, so that a plug-in does not pass for one by
    its name.
    """
    origins = {r.name: r.origin for r in PASSES.registrations()}
    names = dict.fromkeys(spec.name for spec in spec_text.parse_list(pipeline))
    return tuple(
        name
        for name in names
        if name not in FOLLOWED or origins.get(name, "").split(" ")[0] != DISTRIBUTION
    )
