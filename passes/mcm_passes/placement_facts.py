"""What no longer holds once the graph has changed under a placement."""

from __future__ import annotations

from mcm_compiler.chips import CHIP_MODELS, WIRES
from mcm_compiler.partition import CHIP, LEGALIZATION, PARTITION, PARTITION_PROBLEM
from mcm_compiler.passes import AnyKey
from mcm_compiler.program import PROGRAM
from mcm_compiler.replication import PACKAGE_JUDGE, PACKAGE_PROBLEM
from mcm_compiler.simulation import SIMULATION
from mcm_compiler.verification import EMITTED, VERIFICATION

PLACEMENT_FACTS: tuple[AnyKey, ...] = (
    PACKAGE_PROBLEM,
    PACKAGE_JUDGE,
    PARTITION_PROBLEM,
    PARTITION,
    CHIP,
    LEGALIZATION,
    CHIP_MODELS,
    WIRES,
    PROGRAM,
    SIMULATION,
    EMITTED,
    VERIFICATION,
)
"""Everything from the partition problem on. A pass that changes ops invalidates all of it: without
that, the relays of a legal graph could be removed and the graph still be split."""
