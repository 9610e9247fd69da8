"""Times of the kernels of a compiled folder, measured in place: in the sessions of its chips."""

from __future__ import annotations

import hashlib
import math
import pickle
import signal
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir

from mcm_compiler.artifact import chain
from mcm_compiler.checking.entry.gate import OpenedFolder
from mcm_compiler.contracts.chips import is_relay, kernels_of, name_before_copying
from mcm_compiler.contracts.cost import CostModel
from mcm_compiler.contracts.target import Target, cost_model_on
from mcm_compiler.diagnostics import CompileError, Diagnostic, quote
from mcm_compiler.execution.inputs import random_batches
from mcm_compiler.execution.runner import run_batches
from mcm_compiler.graph.rounds import class_of
from mcm_compiler.measuring.attempts import Attempts
from mcm_compiler.measuring.devices import MeasuringDevice, Profile
from mcm_compiler.measuring.executed_nodes import ExecutedNodes, seconds_of_kernels
from mcm_compiler.measuring.lone_kernels import KernelBudget, kernel_model, scaled_to_chip
from mcm_compiler.plugin_files import FILE_MODULE, load_plugin
from mcm_compiler.processes import bounded_child
from mcm_compiler.processes.bounded_child import ChildDiedError, answer_of_child
from mcm_compiler.processes.crash_journal import doing
from mcm_compiler.processes.run_limits import MAX_RUN_GROWTH_BYTES, quiet_onnxruntime
from mcm_compiler.text.units import percent_text

PASSES = 3
"""Sessions of each chip. Other work on the machine disturbs a whole session, so three of fewer
inferences repeat better than two."""

MOST_UNMAPPED = 0.03
"""Share of a chip's time that may be in nodes of no known op."""

SESSION_LIMIT_S = 900
"""Elapsed time after which a session is ended."""

IN_PLACE = "in place"
ALONE = "alone"

Record = Callable[[str], None]


@dataclass(frozen=True)
class KernelTime:
    """Measured time of one kernel.

    Attributes:
        kernel: name of its last op, the same for all classes of a round and for copies.
        seconds: mean of all sessions.
        spread: difference to expect between two such measurements, as a share of `seconds`.
        count: inferences that were timed.
        how: `in place` for times in the sessions of chips; `alone` for kernels that ran by
            themselves, scaled to the times of their chips.
    """

    kernel: str
    seconds: float
    spread: float
    count: int
    how: str = IN_PLACE


@dataclass(frozen=True)
class MeasuredFolder:
    """Result of measuring a folder.

    Attributes:
        kernels: by the order of the chips and of their graphs.
        chip_s: computing time of one run of its model by chip.
        unmapped_share: share of the time of nodes that belong to no kernel.
        diagnostics: about chips and kernels without a time.
    """

    kernels: tuple[KernelTime, ...]
    chip_s: Mapping[int, float]
    unmapped_share: float
    diagnostics: tuple[Diagnostic, ...] = ()


@dataclass
class _Found:
    samples: defaultdict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    counts: defaultdict[str, int] = field(default_factory=lambda: defaultdict(int))
    chip_s: dict[int, float] = field(default_factory=dict[int, float])
    nodes_s: float = 0.0
    unmapped_s: float = 0.0
    how: str = IN_PLACE
    diagnostics: list[Diagnostic] = field(default_factory=list[Diagnostic])


def measure_folder(
    opened: OpenedFolder,
    device: MeasuringDevice,
    inputs: Sequence[Mapping[str, Any]] | None = None,
    record: Record = lambda attempt: None,
    passes: int = PASSES,
    budget: KernelBudget | None = None,
    kept: Path | None = None,
) -> MeasuredFolder:
    """Measures each chip's model in sessions of its own, in child processes.

    Args:
        opened: the compiled folder.
        device: runs and times the models.
        inputs: arrays by model input; random ones by default.
        record: is given each attempt before it begins.
        passes: sessions of each chip.
        budget: of kernels that are timed alone; None for all.
        kept: folder that records sessions until the measurement is done; see `Attempts`.

    Raises:
        CompileError: MCM-C010 where more than `MOST_UNMAPPED` of the time of a chip belongs to no
            kernel, MCM-C014 where no chip can be measured; as `run_chain` for damaged folders.
    """
    quiet_onnxruntime()  # once for all children
    batches = inputs or random_batches(opened.source)
    found = _Found()
    attempts = Attempts(kept, _identity(opened, device, batches))
    graphs = {chip.chip: chip.model.graph for chip in opened.chips}

    def run(chip: int, model: Path, feeds: list[dict[str, Any]]) -> Sequence[Mapping[str, Any]]:
        profiles: list[Profile] = []
        for number in range(passes):
            attempt = f"chip {chip}, session {number + 1} of {passes}"
            record(attempt)
            with doing(f"measuring {attempt} on {device.name}"):
                session = partial(_profile, device, model, feeds)
                try:
                    profiles.append(attempts.profile(attempt, session))
                except ChildDiedError as error:
                    found.diagnostics.append(_died(attempt, device, error))
        if not profiles:
            return run_batches(model, feeds)
        if profiles[0].node_s:
            costs = cost_model_on(opened.target, chip)
            _take(found, chip, graphs[chip], costs, profiles)
        else:
            chip_s = min(profile.seconds for profile in profiles)
            found.how, found.chip_s[chip] = ALONE, chip_s
            _take_alone(found, chip, graphs[chip], device, record, opened.target, budget, attempts)
        return profiles[0].outputs

    manifest = opened.manifest
    chips = [chip.chip for chip in manifest.chips]
    names = [entry.name for entry in manifest.outputs]
    chain.run_chain(
        opened.path, chips, manifest.run_wires, names, batches, stock=run, classes=manifest.round
    )
    kernels = tuple(
        KernelTime(name, _mean(each), _spread(each), found.counts[name], found.how)
        for name, each in found.samples.items()
    )
    if not kernels:
        raise CompileError(
            [*found.diagnostics, Diagnostic("MCM-C014", "no kernel has a measured time")]
        )
    share = found.unmapped_s / found.nodes_s if found.nodes_s else 0.0
    attempts.done()
    return MeasuredFolder(kernels, found.chip_s, share, tuple(found.diagnostics))


def _identity(
    opened: OpenedFolder, device: MeasuringDevice, batches: Sequence[Mapping[str, Any]]
) -> object:
    given = [
        {
            name: hashlib.sha256(np.asarray(array).tobytes()).hexdigest()
            for name, array in one.items()
        }
        for one in batches
    ]
    return [dict(opened.manifest.files), device.name, dict(device.facts()), given]


def kernel_name(nodes: Sequence[ir.Node]) -> str:
    """The name that a row of measured times has for a kernel."""
    name = name_before_copying(nodes[-1])
    found = class_of(name)
    return name if found is None else found[0]


def _profile(device: MeasuringDevice, model: Path, feeds: list[dict[str, Any]]) -> Profile:
    """The answer of a child.

    Raises:
        ChildDiedError: if it died, or took longer than `SESSION_LIMIT_S`.
        CompileError: MCM-C021, and what the device raises.
    """
    make = _sent(device) if not bounded_child.may_fork() else lambda: device
    work = partial(_profile_in_child, make, model, feeds, SESSION_LIMIT_S)
    growth = MAX_RUN_GROWTH_BYTES + 8 * sum(f.stat().st_size for f in model.parent.iterdir())
    answer = pickle.loads(answer_of_child(work, growth))  # noqa: S301 - from our own child
    if isinstance(answer, tuple):
        raise CompileError(answer)
    return answer


def _sent(device: MeasuringDevice) -> Callable[[], MeasuringDevice]:
    """The device for a child of another process, which may have to load its plug-in file.

    Raises:
        CompileError: MCM-C021.
    """
    module = sys.modules[type(device).__module__]
    try:
        content = pickle.dumps(device)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        loaded = next(name for name in bounded_child.THREADED_LIBRARIES if name in sys.modules)
        message = (
            f"the device {quote(device.name)} has to be measured in another process, because "
            f"{loaded} is loaded, and cannot be sent there: {error}"
        )
        raise CompileError.of("MCM-C021", message, at=str(module.__file__)) from error
    plugin = module.__file__ if module.__name__.startswith(FILE_MODULE) else None
    return partial(_received, plugin, content)


def _received(plugin: str | None, content: bytes) -> MeasuringDevice:
    if plugin is not None:
        load_plugin(Path(plugin))
    return pickle.loads(content)  # noqa: S301 - from our own parent


def _profile_in_child(
    make: Callable[[], MeasuringDevice],
    model: Path,
    feeds: Sequence[Mapping[str, Any]],
    limit_s: float,
) -> bytes:
    # Nothing handles it in a child, so that it ends a session that hangs in native code.
    signal.setitimer(signal.ITIMER_REAL, limit_s)
    try:
        return pickle.dumps(make().profile(model, feeds))
    except CompileError as error:
        return pickle.dumps(tuple(error.diagnostics))


def _take(
    found: _Found, chip: int, graph: ir.Graph, costs: CostModel, profiles: Sequence[Profile]
) -> None:
    """Adds the times of one chip's kernels.

    Raises:
        CompileError: MCM-C010.
    """
    kernels = kernels_of(node for node in graph if not is_relay(node))
    kernel_of = {node: kernel_name(nodes) for nodes in kernels for node in nodes}
    computed: defaultdict[str, float] = defaultdict(float)
    for nodes in kernels:
        computed[kernel_name(nodes)] += costs.group_cost(nodes).seconds
    copies = defaultdict[str, int](int)
    for nodes in kernels:
        copies[kernel_name(nodes)] += 1

    def shares(ops: Sequence[ir.Node]) -> dict[str, float]:
        parts: defaultdict[str, list[ir.Node]] = defaultdict(list)
        for op in ops:
            if op in kernel_of:
                parts[kernel_of[op]].append(op)
        if not parts:  # what relays take is no kernel of the model
            return {}
        if len(parts) == 1:
            return dict.fromkeys(parts, 1.0)
        seconds = {name: costs.group_cost(nodes).seconds for name, nodes in parts.items()}
        total = math.fsum(seconds.values())
        if total == 0.0:
            return {next(iter(parts)): 1.0}
        return {name: one / total for name, one in seconds.items()}

    executed = next((p.executed for p in profiles if p.executed is not None), None)
    graph_of = onnx.ModelProto.FromString(executed).graph if executed else _same(graph)
    nodes = ExecutedNodes(graph, graph_of)
    measured: dict[str, float] = {}
    for profile in profiles:
        total_s = math.fsum(profile.node_s.values())
        measured, unmapped_s = seconds_of_kernels(nodes, profile.node_s, shares)
        if unmapped_s > MOST_UNMAPPED * total_s:
            raise _another_model(chip, unmapped_s / total_s)
        found.nodes_s += total_s
        found.unmapped_s += unmapped_s
        for name, seconds in measured.items():
            if seconds > 0.0:
                found.samples[name].append(seconds / copies[name])
                found.counts[name] += profile.inferences
    found.chip_s[chip] = min(profile.seconds for profile in profiles)
    zeros = [name for name, s in computed.items() if s > 0.0 and not measured.get(name)]
    if zeros:
        found.diagnostics.append(_zeros(chip, zeros, len(computed)))


def _take_alone(
    found: _Found,
    chip: int,
    graph: ir.Graph,
    device: MeasuringDevice,
    record: Record,
    target: Target,
    budget: KernelBudget | None,
    attempts: Attempts,
) -> None:
    """Adds the times of one chip's kernels on a device without a profiler, each in a child."""
    alone_s: dict[str, float] = {}
    lost: list[str] = []
    groups = kernels_of(node for node in graph if not is_relay(node))
    kernels = {kernel_name(nodes): nodes for nodes in groups}
    chosen = ([name] for name in kernels)
    if budget is not None:
        chosen = budget.chosen(kernels, alone_s, target)
    with tempfile.TemporaryDirectory(prefix="mcmc-kernels-") as scratch:
        path = Path(scratch) / "kernel.onnx"
        for names in chosen:
            record(attempt := f"chip {chip}, kernel {quote(names[0])} alone")
            try:
                proto = kernel_model(graph, kernels[names[0]])
                onnx.save(proto, str(path))
                feeds = random_batches(ir.from_proto(proto))
                profile = attempts.profile(attempt, partial(_profile, device, path, feeds))
            except (ChildDiedError, CompileError):
                lost.append(names[0])
                continue
            if profile.seconds > 0.0:
                alone_s |= dict.fromkeys(names, profile.seconds)
                for name in names:
                    found.counts[name] += profile.inferences
    rest_s = budget.unmeasured_s(kernels, alone_s, target) if budget is not None else 0.0
    for name, seconds in scaled_to_chip(alone_s, found.chip_s[chip], rest_s).items():
        found.samples[name].append(seconds)
    found.diagnostics.append(_alone(chip, len(alone_s), lost))


def _alone(chip: int, measured: int, lost: Sequence[str]) -> Diagnostic:
    text = f"the device has no profiler: {measured} kernels of chip {chip} were timed alone"
    if lost:
        text += f"; {len(lost)} more crashed or were refused, such as {quote(lost[0])}"
    return Diagnostic("MCM-C016", text, at=f"chip {chip}")


def _same(graph: ir.Graph) -> onnx.GraphProto:
    """The graph's nodes as executed ones."""
    return onnx.GraphProto(
        node=[
            onnx.NodeProto(
                name=node.name or "",
                op_type=node.op_type,
                input=[value.name or "" if value is not None else "" for value in node.inputs],
                output=[value.name or "" for value in node.outputs],
            )
            for node in graph
        ]
    )


def _mean(samples: Sequence[float]) -> float:
    return math.fsum(samples) / len(samples)


def _spread(samples: Sequence[float]) -> float:
    """The mean difference of two sessions, over the root of their number as for means."""
    if len(samples) < 2:
        return 0.0
    apart = [abs(one - other) for one, other in combinations(samples, 2)]
    return _mean(apart) / (_mean(samples) * math.sqrt(len(samples)))


def _another_model(chip: int, share: float) -> CompileError:
    return CompileError.of(
        "MCM-C010",
        f"{percent_text(share)} of the time of chip {chip} is in nodes that compute no op of its "
        f"model; at most {percent_text(MOST_UNMAPPED)} may be",
        at=f"chip {chip}",
    )


def _zeros(chip: int, names: Sequence[str], of: int) -> Diagnostic:
    return Diagnostic(
        "MCM-C011",
        f"{len(names)} of {of} kernels of chip {chip} take no measured time, such as "
        f"{quote(names[0])}; they get no row",
        at=f"chip {chip}",
    )


def _died(attempt: str, device: MeasuringDevice, error: ChildDiedError) -> Diagnostic:
    reason = f"ended after {SESSION_LIMIT_S} s" if str(error) == "SIGALRM" else f"died ({error})"
    return Diagnostic("MCM-C012", f"the session of device {quote(device.name)} {reason}", attempt)
