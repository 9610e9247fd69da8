"""From a model to the units and streams that it is laid out on."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from mcm_compiler.contracts.fabrics.fabric import COMPUTE, MEMORY, Fabric, MappingProblem
from mcm_compiler.contracts.fabrics.target import UnitChoice
from mcm_compiler.diagnostics import CompileError, Diagnostic, quote
from mcm_hardware.families.fabric.layout.emission import Emitter
from mcm_hardware.families.fabric.layout.rules import RULES, LayoutRules, lowering_hash
from mcm_hardware.families.fabric.layout.shares import Balance, Shares
from mcm_hardware.families.fabric.layout.stage_builder import APART, FUSINGS, StageBuilder
from mcm_hardware.families.fabric.layout.stages import Demand, unit_times

LOWERING_HASH = lowering_hash()
"""Of the rules in use; see `rules`."""

MAX_FAULTS = 20
"""Values of unknown size that are listed."""

_LARGEST_SIDE = 64


def mapping_problem(
    model: ir.Model, fabric: Fabric, choice: UnitChoice, rules: LayoutRules = RULES
) -> MappingProblem:
    """The units and streams of a subgraph.

    Ops become stages; each is divided over compute units so that all stages take about as long,
    in the shortest period for which there are enough units of all kinds. Memory units between
    stages hold as many samples as stages lie between who makes a value and who reads it last.
    Weights lie in memory units; where those are too few, they come from outside for each sample.

    Args:
        model: with static shapes, in topological order.
        fabric: what it is laid out on.
        choice: how many compute units may be used, and a seed for shares around the balance.
        rules: of the lowering.

    Raises:
        CompileError: MCM-M001 more stages than compute units, MCM-M002 too little memory, MCM-M003
            values of unknown size, MCM-M004 nothing to lay out, MCM-M005 compute units that the
            fabric does not have.
    """
    there = len(fabric.of_kind(COMPUTE))
    most = there if choice.compute_units is None else choice.compute_units
    if not 1 <= most <= there:
        raise CompileError(_no_such_units(most, there, fabric))
    balance, streamed, period = _fused_as_needed(model, fabric, rules, most)
    count = len(balance.demands)
    if choice.seed is None:
        shares = balance.shares(np.full(count, period), streamed)
    else:
        shares = balance.drawn(period, streamed, most, choice.seed)
    return Emitter(model.graph.name or "", balance.demands, shares, fabric, rules).problem()


def demands_of(model: ir.Model, fabric: Fabric, fusing: int = APART) -> Sequence[Demand]:
    """The stages of a model as numbers, the inputs first.

    Raises:
        CompileError: MCM-M003, MCM-M004.
    """
    builder = StageBuilder(fabric, fusing)
    builder.add_graph(model.graph)
    _check_sizes(builder.unknown)
    demands = builder.demands(model.graph.outputs)
    if len(demands) == 1 and not demands[0].kept:
        raise CompileError(_nothing(model))
    return demands


def _fused_as_needed(
    model: ir.Model, fabric: Fabric, rules: LayoutRules, most: int
) -> tuple[Balance, frozenset[int], float]:
    """Stages, those of them whose weights are streamed, and the shortest period.

    What is between the parts of an attention takes much memory. They are put together only where
    weights would not be resident otherwise, or there are too many stages.

    Raises:
        CompileError: as `mapping_problem`.
    """
    balance, stages = None, 0
    for fusing in FUSINGS:
        demands = demands_of(model, fabric, fusing)
        stages = len(demands) - 1
        if stages > most:
            continue
        widest = most - max(stages - 1, 0)
        times = [unit_times(demand, fabric, rules, widest) for demand in demands[1:]]
        balance = Balance(demands, times, fabric, rules)
        period = balance.shortest(most, frozenset())
        if period is not None:
            return balance, frozenset(), period
    if balance is None:
        raise CompileError(_too_many_stages(stages, most, fabric))
    return balance, *_streamed(balance, most)


def _streamed(balance: Balance, most: int) -> tuple[frozenset[int], float]:
    """Stages whose weights are streamed, as few as need be, and the shortest period.

    Those with the most space per flit that is read of them are streamed first.

    Raises:
        CompileError: MCM-M002.
    """
    sets: dict[int, list[int]] = {}
    for k, demand in enumerate(balance.demands):
        if demand.weight_set >= 0:
            sets.setdefault(demand.weight_set, []).append(k)
    order = sorted(sets.values(), key=lambda stages: _traffic(balance.demands, stages))

    def first(count: int) -> frozenset[int]:
        return frozenset(k for stages in order[:count] for k in stages)

    low, high = 0, len(order)
    period = balance.shortest(most, first(high))
    if period is None:
        raise CompileError(_too_little_memory(balance, first(high)))
    while high - low > 1:
        middle = (low + high) // 2
        with_fewer = balance.shortest(most, first(middle))
        if with_fewer is None:
            low = middle
        else:
            high, period = middle, with_fewer
    return first(high), period


def _traffic(demands: Sequence[Demand], stages: Sequence[int]) -> float:
    """Elements read from outside per element of space, if weights of these stages are streamed."""
    read = sum(demands[k].weight_reads + demands[k].table_reads for k in stages)
    return read / (demands[stages[0]].weights + demands[stages[0]].tables)


def _check_sizes(unknown: Sequence[ir.Value]) -> None:
    if not unknown:
        return
    faults = [
        Diagnostic(
            "MCM-M003",
            f"the size of {quote(value.name or '')} is not known",
            at=f"value {quote(value.name or '')}",
        )
        for value in unknown[:MAX_FAULTS]
    ]
    if (rest := len(unknown) - len(faults)) > 0:
        faults.append(Diagnostic("MCM-M003", f"{rest} more values are of unknown size"))
    raise CompileError(faults)


def _nothing(model: ir.Model) -> Diagnostic:
    return Diagnostic(
        "MCM-M004",
        f"nothing of {quote(model.graph.name or 'the model')} depends on its inputs, so there is "
        "nothing to lay out",
    )


def _no_such_units(most: int, there: int, fabric: Fabric) -> Diagnostic:
    return Diagnostic(
        "MCM-M005",
        f"{most} compute units are asked for, and {fabric.name} has {there}",
        hint=f"ask for 1 to {there}",
    )


def _too_many_stages(stages: int, most: int, fabric: Fabric) -> Diagnostic:
    chips = -(-stages // most)
    message = f"the subgraph has {stages} stages, and there are {most} compute units for them"
    return Diagnostic(
        "MCM-M001", message, hint=_remedy(chips, stages, fabric, "one compute unit per stage")
    )


def _too_little_memory(balance: Balance, streamed: frozenset[int]) -> Diagnostic:
    fabric = balance.fabric
    there = len(fabric.of_kind(MEMORY))
    least = _least(balance, streamed)
    needed = least.memory_units
    kib = fabric.memory_bytes // 1024
    message = (
        f"what lies between the stages takes {needed} memory units of {kib} KiB, and "
        f"{fabric.name} has {there}; weights would be streamed"
    )
    chips = -(-needed // there)
    return Diagnostic(
        "MCM-M002", message, hint=_remedy(chips, needed, fabric, f"{needed} memory units")
    )


def _least(balance: Balance, streamed: frozenset[int]) -> Shares:
    """As few memory units as there can be: a period so long that only space counts."""
    return balance.shares(np.full(len(balance.demands), 1e18), streamed)


def _remedy(chips: int, units: int, fabric: Fabric, what: str) -> str:
    """How many chips or which fabric would do."""
    side = math.isqrt(2 * units - 1) + 1
    side += side % 2
    larger = f", or a fabric of {side} x {side} switches" if side <= _LARGEST_SIDE else ""
    return f"split it over {chips} chips or more like {fabric.name}{larger} ({what})"
