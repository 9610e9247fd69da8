"""Whether the wires of an output folder obey the rules of the ring."""

from __future__ import annotations

import numpy as np

from mcm_compiler.artifact.manifest import Manifest
from mcm_compiler.diagnostics import CompileError, Diagnostic
from mcm_compiler.ring_rules import find_violations
from mcm_compiler.target import HOST, Target


def check_constraints(manifest: Manifest, target: Target) -> str:
    """Checks the graph whose nodes are chips and whose edges are wires.

    Clones and relays are in that graph already, so that the paper's rule (MCM, Eq. 2 to 4) has to
    hold as it stands, whatever routing the model was compiled with.

    Returns:
        A summary.

    Raises:
        CompileError: MCM-V050, one diagnostic per violation.
    """
    index = {chip.chip: i for i, chip in enumerate(manifest.chips)}
    edges = [
        (index[wire.source], index[chip])
        for wire in manifest.wires
        if wire.source != HOST
        for chip in wire.destinations
        if chip != HOST
    ]
    pairs = np.array(edges, dtype=np.int32).reshape(-1, 2)
    violations = find_violations(
        np.array(list(index), dtype=np.int32),
        np.ascontiguousarray(pairs[:, 0]),
        np.ascontiguousarray(pairs[:, 1]),
        num_chips=target.limits.num_chips,
        routing="strict",
        names=[f"chip {chip}" for chip in index],
    )
    if violations:
        raise CompileError([Diagnostic("MCM-V050", v.message) for v in violations])
    return f"acyclic, no chip skipped, {manifest.routing} routing"
