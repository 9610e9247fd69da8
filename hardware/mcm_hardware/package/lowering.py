"""Lowering: from one model per chip to programs with durations, addresses and transfers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from mcm_compiler.components.op_support import runs_on_host
from mcm_compiler.contracts.cost import CostModel, KnowsHostOps
from mcm_compiler.contracts.program import ChipProgram, Kernel, LoweredProgram, Transfer
from mcm_compiler.contracts.target import ChipModel, Wire
from mcm_compiler.machines.machine import HOST, OFF_PACKAGE, Machine
from mcm_hardware.chip.chip_dataflow import ChipDataflow, KernelNodes, chip_dataflow
from mcm_hardware.chip.chip_spec import ChipSpec
from mcm_hardware.chip.roofline import copy_seconds, launch_seconds
from mcm_hardware.memory import activation_plan, stream_plan
from mcm_hardware.memory.memory_plan import PlannedChip, find_overflows, plan_memory
from mcm_hardware.memory.queue_plan import plan_queues
from mcm_hardware.package.start_times import buffer_times, with_start_times
from mcm_hardware.package.transfer_plan import plan_transfers


def lower(
    target: str,
    machine: Machine,
    specs: Sequence[ChipSpec],
    chips: Sequence[ChipModel],
    wires: Sequence[Wire],
    durations: Sequence[CostModel],
) -> LoweredProgram:
    """Schedules each chip's ops, plans its memory and its transfers.

    A fusion group is one kernel. Kernels run in the order of the chip's model, unless another
    one needs less memory. Where the package can, weights that do not fit are streamed. Elsewhere
    but on rings, tiles and classes share the buffers of a chip that is too full. One that does not
    fit is data in `overflows`. Where everything fits and the program is faster so, it has
    start times, and buffers for them as far as there is memory.

    Args:
        target: name of the package.
        machine: its devices, channels and routes.
        specs: its chips, one for each device.
        chips: one model per used chip, ascending.
        wires: tensors between chips and the host.
        durations: of kernels on a chip of speed 1 of the same kind, one model for each device.

    Raises:
        ValueError: where wires and models contradict each other; a fault of the splitter.
    """
    sizes: dict[str, int] = {}
    for chip in chips:
        storage = specs[chip.chip].storage
        for value in (*chip.model.graph.inputs, *chip.model.graph.outputs):
            # A name means the same tensor on all chips, but its shape may be known on one only.
            name, size = value.name or "", storage.value_bytes(value)
            sizes[name] = max(size, sizes.get(name, 0))
    plan = plan_transfers(wires, sizes, machine)
    transfers = list(plan.transfers)
    programs: list[ChipProgram] = []
    planned: list[_Planned] = []
    for chip in chips:
        numbers, model = specs[chip.chip], durations[chip.chip]
        on_host = _host_kernels(model)
        tensors = chip_dataflow(chip, plan.arriving, plan.leaving, on_host)
        flow = activation_plan.with_body_memory(tensors, numbers, on_host)
        planned.append(_planned(flow, plan.transfers, machine, chip.chip, numbers, model))
        flow, memory, stream = planned[-1].flow, planned[-1].memory, planned[-1].stream
        streamed: Mapping[int, tuple[int, ...]] = {}
        if stream is not None:
            streamed = stream_plan.stream_transfers(stream, chip.chip, numbers, transfers)
        programs.append(
            ChipProgram(
                chip=chip.chip,
                kernels=_kernels(flow, numbers, model, streamed),
                buffers=memory.buffers,
                high_water_bytes=memory.high_water_bytes,
                weight_bytes=memory.bytes_of.get("weight", 0),
                state_bytes=sum(
                    activation_plan.state_buffer_bytes(numbers, state) for state in flow.states
                ),
            )
        )
        for index, brought_by in _passed_on(flow).items():
            transfers[index] = replace(transfers[index], after=brought_by)
    sequences = max((chip.sequences for chip in chips if chip.states), default=0)
    program = LoweredProgram(target, tuple(programs), tuple(transfers), sequences=sequences)
    if not machine.is_ring:
        planned = _with_queues(program, machine, specs, planned)
    overflows = find_overflows(planned, plan.transfers, machine, specs)
    program = replace(_with_plans(program, planned), overflows=overflows)
    return program if overflows else _by_start_times(program, machine, specs, planned)


def _with_queues(
    program: LoweredProgram, machine: Machine, specs: Sequence[ChipSpec], planned: list[_Planned]
) -> list[_Planned]:
    """The chips with shared buffers in those that are too full, as far as these fit so."""
    excess = [one.memory.high_water_bytes - specs[one.chip].sram_bytes for one in planned]
    times = buffer_times(program, machine) if max(excess, default=0) > 0 else None
    if times is None:
        return planned
    found: list[_Planned] = []
    for one, more in zip(planned, excess, strict=True):
        chip, queues = specs[one.chip], ()
        if more > 0 and one.stream is None:
            queues = plan_queues(one.flow, program.transfers, chip, more, times)
        if not queues:
            found.append(one)
            continue
        memory = plan_memory(one.flow, program.transfers, chip, one.activations, queues=queues)
        found.append(replace(one, memory=memory))
    return found


def _with_plans(program: LoweredProgram, planned: Sequence[_Planned]) -> LoweredProgram:
    """The program with the memory plans of its chips."""
    chips = tuple(
        replace(
            chip,
            buffers=one.memory.buffers,
            high_water_bytes=one.memory.high_water_bytes,
            queues=one.memory.queues,
        )
        for chip, one in zip(program.chips, planned, strict=True)
    )
    return replace(program, chips=chips)


def _by_start_times(
    program: LoweredProgram,
    machine: Machine,
    specs: Sequence[ChipSpec],
    planned: Sequence[_Planned],
) -> LoweredProgram:
    """The program with start times, and with the buffers that they need, where it is faster so."""
    size_bytes, sent = [0] * len(program.transfers), [-1] * len(program.transfers)
    for one in planned:
        numbers = specs[one.chip]
        for index in one.flow.arriving.values():
            size = activation_plan.buffer_bytes(numbers, program.transfers[index].size_bytes)
            size_bytes[index] = max(size_bytes[index], size)
        for value, indices in one.flow.leaving.items():
            size = activation_plan.buffer_bytes(numbers, numbers.storage.value_bytes(value))
            for index in indices if value in one.flow.writer else ():
                size_bytes[index], sent[index] = max(size_bytes[index], size), indices[0]
    found = with_start_times(program, machine, size_bytes, sent)
    if found is program:
        return program
    again: list[_Planned] = []
    for one in planned:
        chip, queues = specs[one.chip], one.memory.queues
        memory = plan_memory(one.flow, found.transfers, chip, one.activations, one.stream, queues)
        if memory.high_water_bytes > chip.sram_bytes:
            raise ValueError(f"buffers for start times do not fit into chip {one.chip}")
        again.append(replace(one, memory=memory))
    return _with_plans(found, again)


def _host_kernels(model: CostModel) -> Callable[[KernelNodes], bool] | None:
    """Kernels that the host runs; None where there are none."""
    if not isinstance(model, KnowsHostOps):
        return None
    return lambda kernel: runs_on_host(model, kernel.nodes)


@dataclass(frozen=True)
class _Planned(PlannedChip):
    """A chip with what its memory plan was made from.

    Attributes:
        activations: addresses of its activations.
        stream: weights that come from off-package memory, if any do.
    """

    activations: activation_plan.ActivationPlan
    stream: stream_plan.WeightStream | None = None


def _planned(
    flow: ChipDataflow,
    transfers: Sequence[Transfer],
    machine: Machine,
    device: int,
    chip: ChipSpec,
    durations: CostModel,
) -> _Planned:
    """A chip with its memory plan, and what has to be streamed for it."""
    given, flow = flow, activation_plan.order_for_memory(flow, chip)
    activations = activation_plan.plan_activations(flow, chip)
    memory = plan_memory(flow, transfers, chip, activations)
    excess, stream = memory.high_water_bytes - chip.sram_bytes, None
    if excess > 0 and machine.route(OFF_PACKAGE, device):
        # The evaluator of many partitions of a ring knows stream buffers that stay.
        if not machine.is_ring:
            orders = [
                (one, activation_plan.plan_activations(one, chip))
                for one in (flow, activation_plan.order_by_demand(given, chip))
            ]
            best, least = min(orders, key=lambda order: order[1].high_water_bytes)
            fixed = memory.high_water_bytes - activations.high_water_bytes
            fixed -= memory.bytes_of.get("weight", 0)
            pace = _pace(best, machine, chip, device, durations)
            if found := stream_plan.plan_turns(best, transfers, chip, fixed, least, pace):
                flow, (stream, activations, _) = best, found
        stream = stream or stream_plan.plan_stream(flow, chip, excess)
    if stream is not None:
        memory = plan_memory(flow, transfers, chip, activations, stream)
    return _Planned(device, flow, memory, activations, stream)


def _pace(
    flow: ChipDataflow, machine: Machine, chip: ChipSpec, device: int, model: CostModel
) -> stream_plan.StreamPace:
    """Times of kernels, and of streamed bytes."""
    read = [1.0 / machine.channel_bytes_per_s[c] for c in machine.route(OFF_PACKAGE, device)]
    chips = dict.fromkeys(machine.shared_channels, machine.num_devices)
    sent = [chips.get(c, 1) / machine.channel_bytes_per_s[c] for c in machine.route(HOST, device)]
    seconds = [model.group_cost(kernel.nodes).seconds / chip.speed for kernel in flow.kernels]
    return stream_plan.StreamPace(seconds, *(float(s) for s in (max(read), sum(read), sum(sent))))


def _kernels(
    flow: ChipDataflow, spec: ChipSpec, model: CostModel, streamed: Mapping[int, tuple[int, ...]]
) -> tuple[Kernel, ...]:
    costs = [model.group_cost(kernel.nodes) for kernel in flow.kernels]
    durations = [cost.seconds / spec.speed for cost in costs]
    engines = [str(cost.bound_by) for cost in costs]
    for position, value in flow.copies:
        copy_s = copy_seconds(spec, spec.storage.value_bytes(value))
        kernel_s = costs[position].seconds / spec.speed
        if copy_s > kernel_s:
            # Engines overlap: a kernel is prolonged by what a copy takes longer than its own work.
            durations[position] += copy_s - kernel_s
            engines[position] = "memory"
    reads = [list(streamed.get(position, ())) for position in range(len(flow.kernels))]
    for value, transfer in flow.arriving.items():
        for position in flow.readers.get(value, ()):
            reads[position].append(transfer)
    writes: list[list[int]] = [[] for _ in flow.kernels]
    for value, transfers in flow.leaving.items():
        if value in flow.writer:
            writes[flow.writer[value]].extend(transfers)
    return tuple(
        Kernel(
            name=kernel.name,
            nodes=tuple(node.name or "" for node in kernel.nodes),
            duration_s=duration,
            reads=tuple(sorted(read)),
            writes=tuple(sorted(written)),
            engine=engine,
            launch_s=launch_seconds(spec, duration),
        )
        for kernel, duration, engine, read, written in zip(
            flow.kernels, durations, engines, reads, writes, strict=True
        )
    )


def _passed_on(flow: ChipDataflow) -> dict[int, int]:
    """Transfers that send a tensor on as it came, with the transfer that brought it."""
    return {
        transfer: flow.arriving[value]
        for value, transfers in flow.leaving.items()
        if value in flow.arriving
        for transfer in transfers
    }
