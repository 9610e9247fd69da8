"""The fabrics, lowering and simulator that a fitted mapping model holds for."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass

from mcm_compiler.contracts.fabrics.fabric import Fabric

MAKE = (
    "macs_per_cycle",
    "lanes",
    "flit_elements",
    "element_bytes",
    "banks",
    "hop_cycles",
    "fifo_flits",
    "window_flits",
    "output_flits",
)
"""Numbers of a fabric that decide how it behaves, whatever its size."""


@dataclass(frozen=True)
class Learned:
    """The source of a model's labels, as hashes.

    Attributes:
        make: `make_of` the fabric.
        lowering: `MapsChips.lowering_hash`.
        physics: `MappingJudge.physics`.
    """

    make: str
    lowering: str
    physics: str


def make_of(fabric: Fabric) -> str:
    """A hash of the numbers of `MAKE`.

    Rows, columns, the number of memory channels, the clock and the bytes of memory units are not in
    it: features are over the bound and over the sides of the mesh.
    """
    numbers = {name: getattr(fabric, name) for name in MAKE}
    return hashlib.sha256(json.dumps(numbers, sort_keys=True).encode()).hexdigest()[:16]
