"""Figures of a lowered program for one inference: bytes on each channel, and latency.

Both are read off transfers and the routes of the machine alone, and compared with what the problem
of the certificate gives, which knows neither.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from mcm_compiler.certificate.claims import Certificate
from mcm_compiler.certificate.joined import differs
from mcm_compiler.contracts import partition, proofs
from mcm_compiler.contracts.program import LoweredProgram, Transfer
from mcm_compiler.machines.machine import HOST, HOST_ROOT, OFF_PACKAGE, Machine, place_text
from mcm_compiler.registry import PROBLEM_MODELS

_Hops = list[tuple[tuple[int, int, int], int, int]]
"""Of transfers on channels: channel and turn, the transfer, and the place on its route."""

_Turns = dict[int, _Hops]
"""By device."""

ROUNDING = 1e-9
"""Relative space for sums that are taken in another order."""

_ADDED = re.compile(r"/(?:relay|on_chip)_\d+$")
"""Suffix that legalisation adds to a tensor that a chip passes on, or that a relay renames."""

_COPIED = re.compile(r"/on_chip_\d+$")
"""Suffix of the name of a copied op. A relay is named after a tensor, which may have the name of an
op."""


def check_lowered(program: LoweredProgram, machine: Machine, certificate: Certificate) -> str:
    """Compares bytes on channels and the latency of one inference with those of the problem.

    Streamed weights are left out, as a memory plan decides on them, and the latency of problems
    that have some with them.

    Returns:
        What was compared, in a few words; empty where nothing could be.

    Raises:
        CompileError: MCM-V070 where one differs.
    """
    model = PROBLEM_MODELS.get(certificate.problem_model)
    problem, placement = certificate.problem, certificate.placement
    if not isinstance(model, proofs.KnowsChannels):
        return ""
    machine = _of_one_pipeline(machine, certificate.scope.pipelines, problem.num_chips)
    with PROBLEM_MODELS.at_work(certificate.problem_model):
        claimed = model.channel_bytes(problem, placement, machine)
    if claimed is None:
        return ""
    carried = carried_bytes(program, machine)
    for channel in np.flatnonzero(carried != claimed).tolist():
        ends = " to ".join(place_text(p, "chip") for p in machine.channel_ends[channel].tolist())
        raise differs(
            f"the program puts {int(carried[channel]):,} bytes of one inference on the channel "
            f"from {ends}, its placement {int(claimed[channel]):,}",
            "program.json",
        )
    if not machine.is_ring or problem.streams or not isinstance(model, proofs.KnowsValues):
        return "bytes of each channel"
    with PROBLEM_MODELS.at_work(certificate.problem_model):
        latency_s = model.latency_s(problem, placement)
    found_s = None if latency_s is None else answered_s(program, machine, problem)
    if latency_s is None or found_s is None:
        return "bytes of each channel"
    if not math.isclose(found_s, latency_s, rel_tol=ROUNDING):
        raise differs(
            f"the program answers one inference after {found_s!r} s by the rules of the cost model,"
            f" its placement after {latency_s!r} s",
            "program.json",
        )
    return "bytes of each channel and the latency"


def _of_one_pipeline(machine: Machine, pipelines: int, devices_each: int) -> Machine:
    """The machine for the first of several pipelines, with its part of the host's channel.

    Streamed weights are read once for all of them. Its channels delay as much as the slowest ones
    in their place do.
    """
    if pipelines == 1:
        return machine
    rates, delays = machine.channel_bytes_per_s.copy(), machine.channel_latency_s.copy()
    shared = np.array(machine.shared_channels, np.int64)
    to_host = (machine.channel_ends[shared] == HOST_ROOT).any(axis=1)
    rates[shared[to_host]] /= pipelines
    if machine.is_ring:
        links = np.arange(devices_each - 1)
        shares = [machine.channel_latency_s[links + r * devices_each] for r in range(pipelines)]
        delays[links] = np.max(shares, axis=0)
    return replace(machine, channel_bytes_per_s=rates, channel_latency_s=delays)


def carried_bytes(program: LoweredProgram, machine: Machine) -> partition.Longs:
    """`[L]`, bytes of one inference on each channel, but for streamed weights and stored outputs.

    A memory plan decides on what is streamed, and no unit makes what is stored.
    """
    total = np.zeros(machine.num_channels, np.int64)
    for transfer in _between_units(program):
        for channel in machine.route(transfer.source, transfer.destination):
            total[channel] += transfer.size_bytes
    return total


def _between_units(program: LoweredProgram) -> Iterable[Transfer]:
    written = {t for chip in program.chips for kernel in chip.kernels for t in kernel.writes}
    for index, transfer in enumerate(program.transfers):
        made = index in written or transfer.after >= 0 or transfer.source == HOST
        if transfer.source != OFF_PACKAGE and made:
            yield transfer


def answered_s(
    program: LoweredProgram, machine: Machine, problem: partition.PartitionProblem
) -> float | None:
    """When one inference is answered on a ring, by the rules of the page on objectives.

    Units take the time, and run in the order, that the problem gives; what travels which way, in
    how many bytes and over which delays is that of program and machine. Streamed weights are left
    out.

    Args:
        program: of one pipeline, on the first devices.
        machine: its channel c leads from device c to the next.
        problem: of the pipeline.

    Returns:
        Seconds; None where a transfer is of no tensor of the problem.
    """
    tensor_of = _tensors(program, problem)
    return None if tensor_of is None else _Inference(program, machine, problem, tensor_of).end_s


def _tensors(program: LoweredProgram, problem: partition.PartitionProblem) -> list[int] | None:
    """The tensor of the problem that each transfer carries, -1 for none that counts."""
    number = {name: t for t, name in enumerate(problem.tensor_names)}
    counted = set(map(id, _between_units(program)))
    found: list[int] = []
    for transfer in program.transfers:
        name = transfer.tensor
        while name not in number and _ADDED.search(name):
            name = _ADDED.sub("", name)
        if id(transfer) in counted and name not in number:
            return None
        found.append(number[name] if id(transfer) in counted else -1)
    return found


class _Inference:
    """One inference, device after device.

    Attributes:
        end_s: when it is answered.
    """

    def __init__(
        self,
        program: LoweredProgram,
        machine: Machine,
        problem: partition.PartitionProblem,
        tensor_of: Sequence[int],
    ) -> None:
        self._machine, self._problem, self._tensor = machine, problem, tensor_of
        self._transfers = program.transfers
        self._routes = [
            machine.route(t.source, t.destination) if tensor_of[i] >= 0 else ()
            for i, t in enumerate(program.transfers)
        ]
        self._units_on = _units_on(program, problem)
        self._reads, self._made = _ends(problem)
        # When a unit or a relay of a device has made a tensor, when one has come to a device, when
        # each hop began, and when each channel is free.
        self._made_s: dict[tuple[int, int], float] = {}
        self._there_s: dict[tuple[int, int], float] = {}
        self._began_s: dict[tuple[int, int], float] = {}
        self._free_s = defaultdict[int, float](float)
        self.end_s = 0.0
        devices = range(machine.num_devices)
        bundles = [self._bundles(device) for device in devices]
        entering, leaving = self._hops(bundles)
        for device in devices:
            self._serve(entering[device])
            engine_s = self._relay(device)
            for unit, bundle in bundles[device]:
                engine_s = self._run(device, unit, bundle, engine_s)
            self.end_s = max(self.end_s, engine_s)
            self._serve(leaving[device])

    def _bundles(self, device: int) -> list[tuple[int, set[int]]]:
        """The units of a device in their order, each with the copies that it is first to need."""
        have: set[int] = set()
        found: list[tuple[int, set[int]]] = []
        maker, clonable = self._problem.tensor_producer, self._problem.clonable
        for unit in sorted(self._units_on[device]):
            if clonable[unit]:
                continue
            bundle, more = set[int](), [unit]
            while more:
                bundle.add(u := more.pop())
                made = {int(maker[t]) for t in self._reads[u]}
                more += [v for v in made - bundle - have if v >= 0 and clonable[v]]
            have |= bundle
            found.append((unit, bundle))
        return found

    def _hops(self, bundles: Sequence[Sequence[tuple[int, set[int]]]]) -> tuple[_Turns, _Turns]:
        """The hops from the host to each device, and from each device on, in their turn.

        Channels that all devices share are no hops of their own: see `_serve`.
        """
        machine, ends = self._machine, self._machine.channel_ends.tolist()
        through = machine.num_devices > 2 and len(machine.places(HOST, 1)) > 1
        needed: dict[tuple[int, int], int] = {}
        for device, units in enumerate(bundles):
            for place, (_, bundle) in enumerate(units):
                for t in (t for u in bundle for t in self._reads[u]):
                    needed.setdefault((t, device), place)
        entering, leaving = defaultdict[int, _Hops](list), defaultdict[int, _Hops](list)
        for index, route in enumerate(self._routes):
            t, transfer = self._tensor[index], self._transfers[index]
            maker = int(self._problem.tensor_producer[t])
            for place, channel in enumerate(route):
                source, target = ends[channel]
                if channel in machine.shared_channels:
                    continue
                if source == HOST:
                    # What enters at the first device for others comes in the order of tensors.
                    turn = t if through and target == 0 else needed[t, target]
                    entering[target].append(((channel, turn, t), index, place))
                    continue
                own = source == transfer.source and transfer.after < 0
                own = own and maker in self._units_on[source]
                key = (channel, maker if own else -1, t)
                leaving[source].append((key, index, place))
        for found in (*entering.values(), *leaving.values()):
            found.sort()
        return entering, leaving

    def _serve(self, hops: _Hops) -> None:
        """Plays hops in their turn, each with the channel that all devices share next to it."""
        shared = self._machine.shared_channels
        for _, index, place in hops:
            route = self._routes[index]
            for at in (place - 1, place, place + 1):
                if at == place or (0 <= at < len(route) and route[at] in shared):
                    self._cross(index, at)

    def _cross(self, index: int, place: int) -> None:
        """A transfer takes one channel of its route."""
        machine, route, transfer = self._machine, self._routes[index], self._transfers[index]
        channel = route[place]
        busy_s = transfer.size_bytes / float(machine.channel_bytes_per_s[channel])
        before = (index, place - 1)
        if place == 0 and transfer.after >= 0:
            before = (transfer.after, len(self._routes[transfer.after]) - 1)
        if before[1] >= 0:
            came = self._routes[before[0]][before[1]]
            whole_s = transfer.size_bytes / float(machine.channel_bytes_per_s[came])
            if machine.channel_cuts[came] and machine.channel_cuts[channel]:
                whole_s = max(whole_s - busy_s, 0.0)
            ready_s = self._began_s[before] + whole_s + float(machine.channel_latency_s[came])
        else:
            made = (self._tensor[index], transfer.source)
            ready_s = 0.0 if transfer.source == HOST else self._made_s[made]
        begin_s = max(self._free_s[channel], ready_s)
        self._began_s[index, place] = begin_s
        self._free_s[channel] = begin_s + busy_s
        if place + 1 == len(route):
            there_s = begin_s + busy_s + float(machine.channel_latency_s[channel])
            self._there_s[self._tensor[index], transfer.destination] = there_s
            if transfer.destination == HOST:
                self.end_s = max(self.end_s, there_s)

    def _relay(self, device: int) -> float:
        """The engine passes on what it sends and no unit of the device makes; when it is free."""
        engine_s, problem = 0.0, self._problem
        sent = {
            self._tensor[i]
            for i, t in enumerate(self._transfers)
            if t.source == device and self._tensor[i] >= 0 and t.after < 0
        }
        for t in sorted(sent):
            if int(problem.tensor_producer[t]) not in self._units_on[device]:
                relay_s = float(problem.relay_s[t]) / float(problem.chip_speed[device])
                engine_s = max(engine_s, self._there_s[t, device]) + relay_s
                self._made_s[t, device] = engine_s
        return engine_s

    def _run(self, device: int, unit: int, bundle: set[int], engine_s: float) -> float:
        """A unit runs with its copies; when the engine is free again."""
        problem = self._problem
        reads = {(t, device) for u in bundle for t in self._reads[u]}
        ready_s = max([engine_s, *(self._there_s[one] for one in reads & self._there_s.keys())])
        work_s = sum(float(problem.compute_s[u]) for u in bundle)
        done_s = ready_s + work_s / float(problem.chip_speed[device])
        for t in self._made[unit]:
            self._made_s[t, device] = done_s
        return done_s


def _units_on(program: LoweredProgram, problem: partition.PartitionProblem) -> dict[int, set[int]]:
    """The units whose kernels each device runs."""
    unit_of = {name: u for u, names in enumerate(problem.members) for name in names}
    found = defaultdict[int, set[int]](set)
    for chip in program.chips:
        for kernel in chip.kernels:
            names = (node if node in unit_of else _COPIED.sub("", node) for node in kernel.nodes)
            found[chip.chip] |= {unit_of[name] for name in names if name in unit_of}
    return found


def _ends(problem: partition.PartitionProblem) -> tuple[dict[int, list[int]], dict[int, list[int]]]:
    """The tensors that each unit reads, and those that it makes."""
    reads, made = defaultdict[int, list[int]](list), defaultdict[int, list[int]](list)
    for t, maker in enumerate(problem.tensor_producer.tolist()):
        made[maker].append(t)
        for u in problem.tensor_consumers[problem.tensor_ptr[t] : problem.tensor_ptr[t + 1]]:
            reads[int(u)].append(t)
    return reads, made
