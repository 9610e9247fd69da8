"""Steps of one sequence: a model that is run again on what it made in the step before."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from mcm_compiler.execution.runner import open_session, run_session


class State(Protocol):
    """An input, and the output that the next step takes for it."""

    @property
    def past(self) -> str: ...

    @property
    def present(self) -> str: ...


def fed_back(present: Any, past: Any) -> Any:
    """The past of the next step: as much of a present as a past holds, from its end.

    A model is compiled for one size of the past. Along the axis that grows the oldest positions
    fall out, as in a sliding window. A present that is smaller stays as it is, for onnxruntime to
    refuse in the next step.

    Args:
        present: what a step made.
        past: what it took.
    """
    if not isinstance(present, np.ndarray) or not isinstance(past, np.ndarray):
        return present
    if len(present.shape) != len(past.shape) or any(np.less(present.shape, past.shape)):
        return present
    window = tuple(
        slice(made - taken, None) for made, taken in zip(present.shape, past.shape, strict=True)
    )
    return np.ascontiguousarray(present[window]).reshape(past.shape)


def run_steps(
    model: Path, feeds: Sequence[Mapping[str, Any]], states: Sequence[State], *, stock: bool = False
) -> list[dict[str, Any]]:
    """Opens a model and runs it step by step.

    Args:
        model: an ONNX file.
        feeds: inputs of each step; pasts count in the first alone.
        states: what a step hands to the next.
        stock: as in `open_session`.

    Returns:
        All outputs of each step.

    Raises:
        CompileError: as `open_session` and `run_session`.
    """
    session = open_session(model, stock=stock)
    made: list[dict[str, Any]] = []
    carried: dict[str, Any] = {}
    for given in feeds:
        taken = {**given, **carried}
        made.append(run_session(session, taken, place=model.name))
        carried = {
            state.past: fed_back(made[-1][state.present], taken[state.past]) for state in states
        }
    return made
