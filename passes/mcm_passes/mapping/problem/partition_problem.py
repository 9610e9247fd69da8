"""From an annotated model to a `PartitionProblem`: the one place where partitioning sees ONNX."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import onnx_ir as ir

from mcm_compiler.arrays.rows import rows_of
from mcm_compiler.components.op_support import runs_on_host
from mcm_compiler.contracts.cost import (
    NODE_COST,
    CopiesViews,
    CostModel,
    NodeCost,
    costs_in,
    relay_costs,
)
from mcm_compiler.contracts.fusion import FusionPlan
from mcm_compiler.contracts.partition import Bools, Floats, Ints, Longs, PartitionProblem
from mcm_compiler.contracts.replication import COPIED_FOR, CopiedFor
from mcm_compiler.contracts.target import HasChipKinds, Routing, Target, kind_names_of, machine_of
from mcm_compiler.graph.constants import (
    attribute_weights,
    constant_values,
    consumed_values,
    is_deterministic,
    memory_of,
)
from mcm_compiler.machines.kind_costs import KindCosts
from mcm_passes.mapping.problem.contraction import Unit
from mcm_passes.mapping.problem.kind_prices import best_prices
from mcm_passes.mapping.problem.shared_memory import (
    shared_memory,
    view_copies,
    views_of,
    with_states,
)
from mcm_passes.mapping.problem.state_units import units_with_states


@dataclass(frozen=True)
class CloningLimits:
    """Limits on the cost of a unit that may be cloned.

    Attributes:
        work_share: most seconds of a unit and all clonable units behind it, as a share of the
            ideal period (total work over chips).
        sram_share: most bytes that one such chain holds on a chip (inputs, weights and outputs),
            as a share of its SRAM.
        max_chain: most units in a chain.
    """

    work_share: float = 0.02
    sram_share: float = 1 / 16
    max_chain: int = 16


@dataclass(frozen=True)
class CloneFacts:
    """Facts for the choice of clones. Lists are by unit, in topological order.

    Attributes:
        compute_s: `[N]`.
        held_bytes: `[N]`, bytes of graph inputs, weights and outputs of each unit.
        allowed: `[N]`, False for units that draw random numbers, make a graph output, make
            nothing at all, or are pinned.
        producers: `[N]`, distinct units that each unit reads.
    """

    compute_s: Floats
    held_bytes: Longs
    allowed: Bools
    producers: list[list[int]]


def choose_clonable(
    facts: CloneFacts, num_chips: int, sram_bytes: int, limits: CloningLimits
) -> Bools:
    """`[N]`, True for units that are copied to each chip that reads them.

    A unit qualifies if all it reads comes from the host, from constants or from other clonable
    units, and if its chain is within `limits`. At least two units that are not clonable must read
    it in the end: with a single reader there is nothing to copy.
    """
    num_units = len(facts.producers)
    work_limit = limits.work_share * float(facts.compute_s.sum()) / max(num_chips, 1)
    bytes_limit = int(limits.sram_share * sram_bytes)
    seconds = facts.compute_s.tolist()
    held = facts.held_bytes.tolist()
    length = [1] * num_units
    candidate = [False] * num_units
    for u in range(num_units):
        if not facts.allowed[u] or not all(candidate[p] for p in facts.producers[u]):
            continue
        # Shared ancestors are counted once per path: an upper bound, and linear to compute.
        for p in facts.producers[u]:
            seconds[u] += seconds[p]
            held[u] += held[p]
            length[u] += length[p]
        candidate[u] = (
            seconds[u] <= work_limit and held[u] <= bytes_limit and length[u] <= limits.max_chain
        )
    # At most two readers are remembered: whether there are two is all that matters.
    readers: list[set[int]] = [set() for _ in range(num_units)]
    for u in range(num_units - 1, -1, -1):
        candidate[u] = candidate[u] and len(readers[u]) >= 2
        passed_on = readers[u] if candidate[u] else {u}
        for p in facts.producers[u]:
            for reader in passed_on:
                if len(readers[p]) < 2:
                    readers[p].add(reader)
    return np.array(candidate, dtype=np.bool_)


def build_problem(
    model: ir.Model,
    target: Target,
    routing: Routing,
    plan: FusionPlan,
    *,
    pins: Mapping[str, int] | None = None,
    cloning: CloningLimits | None = None,
    keep_states: bool = True,
) -> PartitionProblem:
    """The partitioning problem of a model.

    Units are fusion groups and single ops, joined where a value without a type is between them
    (`contraction`) or where they share a state (`state_units`). Tensors are the values that
    cross a unit's boundary or the host's. Weights are the constant values that ops read:
    initializers, and outputs of constant nodes, each at its storage bytes and once for all that
    share its memory (`memory_of`). States that stay on their chips are weights by the names of
    their pasts, at the bytes of all sequences that a chip must have space for.

    Args:
        model: with `NODE_COST` on its nodes.
        target: gives the package's numbers and the cost model.
        routing: the rule for long dependencies.
        plan: the fusion plan.
        pins: chip by name of a node or group that the user wants there.
        cloning: what may be cloned; defaults where None.
        keep_states: whether `STATES` of the model stay on their chips where that is possible.

    Raises:
        CompileError: MCM-P001 if the plan's groups form a cycle.
    """
    cost_model = target.cost_model()
    contracted = units_with_states(model, target, plan, pins, keep=keep_states)
    units, held = contracted.units, {state.past: state for state in contracted.held}
    constants = constant_values(model.graph) | held.keys()
    tensors = _Tensors(model.graph, units, constants, {s.present for s in contracted.held})
    weights = _Weights(units, constants, held, cost_model)
    weight_bytes = np.array(
        [held[v].room_bytes if v in held else _bytes_of(v, cost_model) for v in weights.values],
        dtype=np.int64,
    )
    tensor_bytes = np.array([_bytes_of(v, cost_model) for v in tensors.values], dtype=np.int64)
    seconds = _Seconds(cost_model, model.graph)
    compute_s, off_s = seconds.of_units(units)
    relay_s = np.array(
        [cost.seconds for cost in relay_costs(tensors.values, cost_model.node_cost)], float
    )
    kinds, off_s = _kind_costs(target, model.graph, units, tensors.values) or (None, off_s)
    if kinds is not None:
        compute_s, relay_s = kinds.units.min(axis=0), kinds.relays.min(axis=0)
    pinned = _pins(units, pins or {})
    readers, users = rows_of(tensors.consumers), rows_of(weights.users)
    facts = _clone_facts(units, tensors, tensor_bytes, weights, weight_bytes, compute_s, pinned)
    # The host would run each copy anew.
    facts.allowed[[u for u, unit in enumerate(units) if runs_on_host(cost_model, unit.nodes)]] = (
        False
    )
    if kinds is not None:
        facts.allowed[:] &= kinds.can_run.all(axis=0)
    for past in held:
        facts.allowed[weights.users[weights.values.index(past)]] = False
    limits = target.limits
    machine = machine_of(target)
    shared = shared_memory(
        units,
        list(zip(tensors.values, tensors.consumers, strict=True)),
        list(zip(weights.values, weights.users, strict=True)),
        constants,
        views_of(cost_model),
    )
    copied_for = COPIED_FOR.find(model) or CopiedFor()
    chips = min(copied_for.chips or limits.num_chips, limits.num_chips)
    sram_bytes = min(copied_for.sram_bytes or max(limits.sram_bytes), *limits.sram_bytes)
    cloning = cloning or CloningLimits()
    cloning = replace(cloning, work_share=cloning.work_share / copied_for.classes)
    clonable = choose_clonable(facts, chips, sram_bytes, cloning)
    copying = [(cost_model, seconds)]
    if kinds is not None and isinstance(target, HasChipKinds):
        models = [target.cost_model_of(kind) for kind in range(len(kinds.names))]
        copying = [(costs, _Seconds(costs, model.graph, annotated=False)) for costs in models]
    copies = view_copies(
        tensors.values,
        tensors.producer,
        shared.tensor_alias,
        clonable,
        [_copy_times(costs, units, times) for costs, times in copying],
    )
    if held:
        shared = with_states(shared, tensors.values, weights.values, users.ptr, contracted.held)
    return PartitionProblem(
        names=tuple(unit.name for unit in units),
        members=tuple(tuple(node.name or "" for node in unit.nodes) for unit in units),
        compute_s=compute_s,
        clonable=clonable,
        pinned_chip=pinned,
        tensor_names=tuple(value.name or "" for value in tensors.values),
        tensor_bytes=tensor_bytes,
        tensor_producer=np.array(tensors.producer, dtype=np.int32),
        tensor_ptr=readers.ptr,
        tensor_consumers=readers.entries.astype(np.int32),
        tensor_to_host=np.array(tensors.to_host, dtype=np.bool_),
        relay_s=relay_s,
        weight_names=tuple(value.name or "" for value in weights.values),
        weight_bytes=weight_bytes,
        weight_ptr=users.ptr,
        weight_users=users.entries.astype(np.int32),
        limits=limits,
        routing=routing if machine.is_ring else "strict",
        given_machine=None if machine.is_ring else machine,
        kinds=kinds,
        op_types=tuple(_op_type(unit, seconds) for unit in units),
        copies=copies,
        deviation_s=off_s if off_s.any() else None,
        **shared._asdict(),
    )


def _kind_costs(
    target: Target, graph: ir.Graph, units: Sequence[Unit], tensors: Sequence[ir.Value]
) -> tuple[KindCosts, Floats] | None:
    """Costs of units and tensors on each kind of chip, and by how much times of units may be off.

    None where all chips are of one kind.
    """
    names, machine = kind_names_of(target), machine_of(target)
    if not isinstance(target, HasChipKinds) or machine.device_kind is None:
        return None
    unit_s: list[Floats] = []
    off_s: list[Floats] = []
    relay_s: list[list[float]] = []
    runs: list[list[bool]] = []
    for kind in range(len(names)):
        cost_model = target.cost_model_of(kind)
        units_s = _Seconds(cost_model, graph, annotated=False).of_units(units)
        unit_s.append(units_s[0])
        off_s.append(units_s[1])
        relay_s.append([cost.seconds for cost in relay_costs(tensors, cost_model.node_cost)])
        runs.append([all(target.runs(kind, node) for node in unit.nodes) for unit in units])
    times, can_run = np.array(unit_s), np.array(runs)
    speeds = np.bincount(machine.device_kind, target.limits.chip_speed, len(names))
    room = np.array(speeds, np.float64)
    somewhere = can_run.any(axis=0)
    price = best_prices(np.where(can_run, times, np.inf).T[somewhere], room)
    kinds = KindCosts.of(tuple(names), times, np.array(relay_s), can_run, price)
    return kinds, np.max(off_s, axis=0)


class _Tensors:
    """The values that cross a boundary: graph inputs first, then by producer."""

    def __init__(
        self, graph: ir.Graph, units: Sequence[Unit], constants: set[ir.Value], held: set[ir.Value]
    ) -> None:
        readers: dict[ir.Value, list[int]] = {}
        for u, unit in enumerate(units):
            for value in unit.reads:
                if value not in constants:
                    readers.setdefault(value, []).append(u)
        outputs = set(graph.outputs) - held
        made = [(-1, value) for value in dict.fromkeys(graph.inputs) if value not in constants]
        for u, unit in enumerate(units):
            for node in unit.nodes:
                made += [(u, v) for v in node.outputs if v in readers or v in outputs]
        self.values = [value for _, value in made]
        self.producer = [u for u, _ in made]
        self.consumers = [readers.get(value, []) for value in self.values]
        self.to_host = [value in outputs for value in self.values]


class _Weights:
    """The constant values that units read, in order of first use."""

    def __init__(
        self,
        units: Sequence[Unit],
        constants: set[ir.Value],
        held: Collection[ir.Value],
        cost_model: CostModel,
    ) -> None:
        users: dict[ir.Value, list[int]] = {}
        for u, unit in enumerate(units):
            kernels = [ops for ops in unit.kernels if not runs_on_host(cost_model, ops)]
            here = None
            if len(kernels) < len(unit.kernels):  # the host has the weights of the others
                read = (value for ops in kernels for op in ops for value in consumed_values(op))
                here = {*held, *read}
            for value in unit.reads:
                if value in constants and (here is None or value in here):
                    readers = users.setdefault(memory_of(value), [])
                    if u not in readers[-1:]:
                        readers.append(u)
            for node in (op for ops in kernels for op in ops):
                for value in attribute_weights(node):
                    users.setdefault(value, []).append(u)
        self.values = list(users)
        self.users = list(users.values())


def _bytes_of(value: ir.Value, cost_model: CostModel) -> int:
    return max(0, cost_model.storage_bytes(value))


class _Seconds:
    """Times of kernels as parts of a graph.

    Args:
        cost_model: of the target.
        graph: that the kernels are in.
        annotated: whether the costs that ops carry are of this model.
    """

    def __init__(self, cost_model: CostModel, graph: ir.Graph, *, annotated: bool = True) -> None:
        self._costs = costs_in(graph, cost_model)
        # Where it matters what becomes of results, what ops carry may be of an earlier graph.
        self._annotated = annotated and self._costs is cost_model

    def of_units(self, units: Sequence[Unit]) -> tuple[Floats, Floats]:
        """Seconds of each unit, and by how much they may be off."""
        costs = [[self._cost(kernel) for kernel in unit.kernels] for unit in units]
        seconds = [math.fsum(cost.seconds for cost in each) for each in costs]
        off_s = [math.fsum(cost.deviation_s for cost in each) for each in costs]
        return np.array(seconds, np.float64), np.array(off_s, np.float64)

    def of_kernel(self, nodes: Sequence[ir.Node]) -> float:
        return self._cost(nodes).seconds

    def _cost(self, nodes: Sequence[ir.Node]) -> NodeCost:
        if len(nodes) > 1:
            return self._costs.group_cost(nodes)
        cost = NODE_COST.find(nodes[0]) if self._annotated else None
        return cost if cost is not None else self._costs.node_cost(nodes[0])


def _copy_times(
    cost_model: CostModel, units: Sequence[Unit], seconds: _Seconds
) -> Callable[[ir.Value], float]:
    """Seconds by which a copy of a view prolongs the kernel that makes it."""
    kernel_of = {node: kernel for unit in units for kernel in unit.kernels for node in kernel}

    def prolonged_s(view: ir.Value) -> float:
        maker = view.producer()
        if maker is None or not isinstance(cost_model, CopiesViews):
            return 0.0
        # Engines overlap: what a kernel does besides takes part of the time of the copy.
        return max(cost_model.copy_s(view) - seconds.of_kernel(kernel_of[maker]), 0.0)

    return prolonged_s


def _op_type(unit: Unit, seconds: _Seconds) -> str:
    if len(unit.nodes) == 1:
        return unit.nodes[0].op_type
    return max(unit.nodes, key=lambda node: seconds.of_kernel([node])).op_type


def _pins(units: Sequence[Unit], pins: Mapping[str, int]) -> Ints:
    pinned = np.full(len(units), -1, dtype=np.int32)
    for u, unit in enumerate(units if pins else ()):
        for name in (unit.name, *(node.name or "" for node in unit.nodes)):
            if name in pins:
                pinned[u] = pins[name]
    return pinned


def _clone_facts(
    units: Sequence[Unit],
    tensors: _Tensors,
    tensor_bytes: Longs,
    weights: _Weights,
    weight_bytes: Longs,
    compute_s: np.ndarray,
    pinned: Ints,
) -> CloneFacts:
    held = np.zeros(len(units), dtype=np.int64)
    producers: list[dict[int, None]] = [{} for _ in units]
    makes = np.zeros(len(units), dtype=np.bool_)
    outputs = np.zeros(len(units), dtype=np.bool_)
    for t, producer in enumerate(tensors.producer):
        if producer >= 0:
            makes[producer] = True
            outputs[producer] |= tensors.to_host[t]
            held[producer] += tensor_bytes[t]
        for u in tensors.consumers[t]:
            if producer < 0:
                held[u] += tensor_bytes[t]
            else:
                producers[u][producer] = None
    for w, users in enumerate(weights.users):
        held[users] += weight_bytes[w]
    steady: Bools = np.array(
        [all(is_deterministic(node) for node in unit.nodes) for unit in units], dtype=np.bool_
    )
    allowed = steady & makes & ~outputs & (pinned < 0)
    return CloneFacts(compute_s, held, allowed, [list(p) for p in producers])
