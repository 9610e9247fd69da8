"""A routing for meshes: west first, then along the column, then east.

No tensor turns to the west, so that none block each other: Glass and Ni 1992, *The Turn Model for
Adaptive Routing* (ISCA). For `--plugin`, or installed; a description names it:

    [topology]
    kind = "mesh"
    size = [4, 4]
    routing = "acme_west_first"
"""

from __future__ import annotations

from collections.abc import Iterator

from mcm_compiler import register
from mcm_hardware.families.package.routings import Hop, hop_by_hop
from mcm_hardware.families.package.topologies import Grid


@register("routing", "acme_west_first")
@hop_by_hop
def west_first(mesh: Grid, source: int, destination: int) -> Iterator[Hop]:
    """The hops from one chip to another."""
    if not isinstance(mesh, Grid) or len(mesh.size) != 2 or mesh.closed:
        raise ValueError("it is for meshes")
    row, column = mesh.place(source)
    last_row, last_column = mesh.place(destination)
    while column > last_column:
        column -= 1
        yield Hop(mesh.chip((row, column)))
    while row != last_row:
        row += 1 if last_row > row else -1
        yield Hop(mesh.chip((row, column)))
    while column < last_column:
        column += 1
        yield Hop(mesh.chip((row, column)))
