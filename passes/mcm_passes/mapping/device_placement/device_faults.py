"""Why a placement problem has no answer, as far as that shows without a search."""

from __future__ import annotations

import numpy as np

from mcm_compiler.contracts.placement import PlacementProblem
from mcm_compiler.contracts.requests import Rule
from mcm_compiler.diagnostics import CompileError, Diagnostic, quote
from mcm_compiler.text.units import bytes_text
from mcm_passes.mapping.device_placement.device_groups import DeviceGroups
from mcm_passes.mapping.device_placement.device_loads import MEMORY_SLACK


def refuse_unanswerable(problem: PlacementProblem, rule: Rule) -> None:
    """Refuses requests that make no sense for the problem.

    Raises:
        CompileError: MCM-F005 for CPUs or a backward pass on a ring, MCM-F006 for no device.
    """
    at = problem.source
    if rule != "none" and problem.max_cpus:
        message = f"the problem has {problem.max_cpus} CPUs, and the rules of the ring have none"
        hint = "give --max-cpus 0, or --rule none"
        raise CompileError.of("MCM-F005", message, at=at, hint=hint)
    if rule != "none" and problem.backward.any():
        message = (
            f"{int(problem.backward.sum())} of the nodes belong to a backward pass, whose data "
            "flows against the ring"
        )
        raise CompileError.of("MCM-F005", message, at=at, hint="give --rule none")
    if problem.max_accelerators + problem.max_cpus == 0:
        message = "there is no device: maxFPGAs and maxCPUs are 0"
        hint = "give --max-accelerators or --max-cpus"
        raise CompileError.of("MCM-F006", message, at=at, hint=hint)


def refuse_impossible(problem: PlacementProblem, groups: DeviceGroups) -> None:
    """Refuses problems of which no placement keeps the memory or the kinds of devices.

    Raises:
        CompileError: MCM-F006, one diagnostic per reason.
    """
    if problem.max_cpus:
        return
    at, room = problem.source, problem.memory_bytes * (1.0 + MEMORY_SLACK)
    faults: list[Diagnostic] = []
    for g in np.flatnonzero(~np.isfinite(groups.accelerator_time))[:5].tolist():
        message = f"{_named(problem, groups, g)} runs on no accelerator, and there is no CPU"
        faults.append(Diagnostic("MCM-F006", message, at=at, hint="give --max-cpus 1"))
    for g in np.flatnonzero(groups.size_bytes > room)[:5].tolist():
        message = (
            f"{_named(problem, groups, g)} needs {bytes_text(int(groups.size_bytes[g]))} on one "
            f"device, and an accelerator has {bytes_text(int(problem.memory_bytes))}"
        )
        faults.append(Diagnostic("MCM-F006", message, at=at, hint="give --max-cpus 1"))
    total, have = float(groups.size_bytes.sum()), room * problem.max_accelerators
    if not faults and total > have:
        message = (
            f"all nodes need {bytes_text(int(total))}, and {problem.max_accelerators} accelerators "
            f"have {bytes_text(int(have))}"
        )
        hint = "give more devices (--max-accelerators, --max-cpus)"
        faults.append(Diagnostic("MCM-F006", message, at=at, hint=hint))
    CompileError.raise_any(faults)


def not_found(
    problem: PlacementProblem, rule: Rule, reason: str, hint: str | None = None
) -> CompileError:
    """MCM-F007."""
    if hint is None:
        hint = "give more devices (--max-accelerators, --max-cpus)"
        if rule == "strict":
            hint = "give --rule relay or --rule none, or more devices (--max-accelerators)"
    return CompileError.of(
        "MCM-F007", f"no valid placement: {reason}", at=problem.source, hint=hint
    )


def _named(problem: PlacementProblem, groups: DeviceGroups, g: int) -> str:
    own = np.flatnonzero(groups.group_of == g)
    name = quote(problem.names[int(own[problem.size_bytes[own].argmax()])])
    return name if own.size == 1 else f"{name} with {own.size - 1} more nodes that stay with it"
