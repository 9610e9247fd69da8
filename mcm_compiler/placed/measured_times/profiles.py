"""Times of ops in profiles that onnxruntime wrote."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from mcm_compiler.diagnostics import CompileError, quote
from mcm_compiler.text.json_text import UnreadableError, parse_json, read_bounded

MAX_PROFILE_BYTES = 1 << 30
"""A run of a large model leaves some hundred bytes for each op."""

_SUFFIX = "_kernel_time"
_MAX_S = 1e6


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
    return CompileError.of(
        "MCM-D077", f"the file is no profile of onnxruntime: {why}", at=str(path)
    )
