"""The unit that needs most memory along some orders, for a message where none can be cut."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mcm_compiler.contracts.partition import PartitionProblem
from mcm_compiler.diagnostics import quote
from mcm_compiler.text.units import bytes_text
from mcm_passes.families.ring.contiguous.contiguous_windows import windows_along
from mcm_passes.mapping.problem.topological_orders import Order


def tightest_unit(problem: PartitionProblem, orders: Sequence[Order]) -> str:
    """The unit that needs most memory with a chip to itself, in the best for it of some orders.

    Beside its weights a chip holds all slots of what crosses its two cuts, be it for this unit or
    only passed on; that is what makes a unit tight whose weights would fit.
    """
    problem = problem.at_need()
    least = np.full(problem.num_units, np.iinfo(np.int64).max)
    own = np.zeros(problem.num_units, dtype=np.int64)
    for order in orders:
        w = windows_along(problem, order.units, count_live=False)
        n = order.units.size
        held = w.outputs.held.copy()
        np.add.at(held, np.repeat(np.arange(n), np.diff(w.items.ptr)), w.items.held)
        crossing = w.cuts.arriving[:-1] + w.cuts.leaving[1:]
        least[order.units] = np.minimum(least[order.units], held + crossing)
        own[order.units] = held
    need = np.where(problem.clonable, -1, least)
    unit = int(need.argmax())
    buffers = int(need[unit] - own[unit])
    least_sram, most_sram = min(problem.limits.sram_bytes), max(problem.limits.sram_bytes)
    # Which of several sizes a chip has decides whether that is too much.
    sram = bytes_text(most_sram)
    if least_sram < most_sram:
        sram = f"{bytes_text(least_sram)} to {sram}"
    return (
        f"along them {quote(problem.names[unit])} alone needs {bytes_text(int(need[unit]))} on a "
        f"chip of {sram}, {bytes_text(buffers)} of it for "
        "tensors that arrive and leave there"
    )
