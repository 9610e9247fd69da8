"""Times of ops that were measured: profiles of onnxruntime, in place of what a cost model says."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from mcm_compiler.contracts.boxes.box import Box
from mcm_compiler.contracts.boxes.step import StepProblem
from mcm_compiler.diagnostics import CompileError, Diagnostic, Severity, quote
from mcm_compiler.text.bounded_json import UnreadableError, parse_json, read_bounded

OpSeconds = Mapping[str, float]
"""Seconds by the name of an op."""

MAX_PROFILE_BYTES = 1 << 30
"""A run of a large model leaves some hundred bytes for each op."""

_SUFFIX = "_kernel_time"
_MAX_S = 1e6
_HINT = (
    "a profile is what onnxruntime writes with SessionOptions.enable_profiling; run the placed "
    "model's ops under their own names, with graph optimisations off"
)


def profiled_seconds(paths: Sequence[Path]) -> dict[str, float]:
    """The time of each op in profiles that onnxruntime wrote, as JSON.

    Args:
        paths: profiles on devices of one kind, of sessions of the same model or of parts of it.

    Returns:
        Seconds by name, the median over all runs of all profiles. What onnxruntime does before and
        behind a kernel is not in them.

    Raises:
        CompileError: MCM-D077 for a file that is no such profile.
    """
    runs: dict[str, list[float]] = {}
    for path in paths:
        try:
            events = parse_json(read_bounded(path, MAX_PROFILE_BYTES))
        except UnreadableError as error:
            raise _no_profile(path, str(error)) from error
        if not isinstance(events, list):
            raise _no_profile(path, "it is no list of events")
        before = len(runs)
        for place, event in enumerate(events):
            if isinstance(event, dict) and event.get("cat") == "Node":
                _take(runs, event, place, path)
        if len(runs) == before and not any(map(_is_kernel, events)):
            raise _no_profile(path, "it has no event of a kernel")
    return {name: statistics.median(seconds) for name, seconds in runs.items()}


def _is_kernel(event: Any) -> bool:
    return isinstance(event, dict) and str(event.get("name", "")).endswith(_SUFFIX)


def _take(runs: dict[str, list[float]], event: Mapping[str, Any], place: int, path: Path) -> None:
    name = event.get("name")
    if not isinstance(name, str) or not name.endswith(_SUFFIX):
        return
    took = event.get("dur")
    if not isinstance(took, int | float) or isinstance(took, bool) or not 0 <= took < _MAX_S * 1e6:
        raise _no_profile(path, f"event {place} takes {quote(str(took))} microseconds")
    runs.setdefault(name.removesuffix(_SUFFIX), []).append(took * 1e-6)


def _no_profile(path: Path, why: str) -> CompileError:
    return CompileError(
        Diagnostic(
            "MCM-D077",
            f"the file is no profile of onnxruntime: {why}",
            at=str(path),
            hint=_HINT,
        )
    )


def with_measured_times(
    problem: StepProblem, box: Box, times: Mapping[str, OpSeconds]
) -> StepProblem:
    """The same step with times that were measured on some kinds of devices.

    Args:
        problem: of this box.
        box: the devices.
        times: by kind of device.

    Raises:
        CompileError: MCM-D070 for a kind that the box does not have, MCM-D078 where none of the
            names is one of an op that such devices run.
    """
    for kind, seconds in times.items():
        if kind not in box.kinds:
            raise CompileError(
                Diagnostic(
                    "MCM-D070",
                    f"the box has no kind of device {quote(kind)}",
                    at=f"option --profile {quote(kind)}",
                    hint=f"it has {', '.join(map(quote, box.kinds))}",
                )
            )
        if not _measured(problem, box, kind, seconds):
            some = next(iter(seconds), "")
            raise CompileError(
                Diagnostic(
                    "MCM-D078",
                    f"none of {len(seconds):,} measured ops, such as {quote(some)}, is one that "
                    f"devices of kind {quote(kind)} run",
                    at=f"option --profile {quote(kind)}",
                    hint=_HINT,
                )
            )
        problem = with_op_times(problem, box, kind, seconds)
    return problem


def coverage_notes(
    problem: StepProblem, box: Box, times: Mapping[str, OpSeconds]
) -> list[Diagnostic]:
    """MCM-D079 for each kind of device: of how many ops the time was measured."""
    notes: list[Diagnostic] = []
    for kind, seconds in times.items():
        column = problem.time_s[:, box.kinds.index(kind)]
        run = int(((column > 0) & np.isfinite(column)).sum())
        known = len(_measured(problem, box, kind, seconds))
        notes.append(
            Diagnostic(
                "MCM-D079",
                f"{known:,} ops have times that were measured on {quote(kind)}; what is computed "
                f"or takes no time are {max(run - known, 0):,} others",
                at=f"option --profile {quote(kind)}",
                hint=_HINT,
                severity=Severity.NOTE,
            )
        )
    return notes


def _measured(problem: StepProblem, box: Box, kind: str, seconds: OpSeconds) -> list[int]:
    """Ops that devices of a kind run and whose time was measured there."""
    runs = np.isfinite(problem.time_s[:, box.kinds.index(kind)]).tolist()
    return [n for n, name in enumerate(problem.names) if runs[n] and name in seconds]


def with_op_times(problem: StepProblem, box: Box, kind: str, seconds: OpSeconds) -> StepProblem:
    """The same step with times that were measured on one kind of device.

    What was not measured keeps its time, and what the kind cannot run stays infinite.

    Args:
        problem: of this box.
        box: where `kind` is one of `kinds`.
        kind: on whose devices was measured.
        seconds: by name of op, launch included; names that the problem has none of are left out.

    Raises:
        ValueError: for a kind that the box has none of, and for times that are negative or not
            finite.
    """
    if kind not in box.kinds:
        raise ValueError(f"the box has no kind {kind!r}, but {', '.join(box.kinds)}")
    column = box.kinds.index(kind)
    times = problem.time_s.copy()
    for n, name in enumerate(problem.names):
        measured = seconds.get(name)
        if measured is None or not np.isfinite(times[n, column]):
            continue
        if not 0.0 <= measured < np.inf:
            raise ValueError(f"{measured!r} s is no time of {name!r}")
        times[n, column] = measured
    return replace(problem, time_s=times)
