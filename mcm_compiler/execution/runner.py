"""Running models in onnxruntime, the functional reference.

Graph optimisations are off: they are what makes a model and its parts differ in the last bit.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol
from weakref import WeakKeyDictionary

import numpy as np
import onnx

from mcm_compiler.diagnostics import CompileError, Diagnostic, quote
from mcm_compiler.execution.runtime_values import is_exotic, run_values
from mcm_compiler.processes import crash_journal, run_limits

MAX_THREADS = 2
"""Threads of one session. Fixed, because the number of threads changes how sums are split."""

_UNREGISTERED = re.compile(
    r"(?P<op>(?P<domain>[^\s:]*):[^\s:]+)\(-?\d+\) is not a registered function/op"
)

_NO_KERNEL = re.compile(
    r"Could not find an implementation for (?P<op>\S+) node with name '(?P<node>.*?)'"
)

_STORED_BYTES: WeakKeyDictionary[Any, int] = WeakKeyDictionary()
"""Size of the models that sessions were opened from. With that of inputs, it bounds their time."""

_ONNX_DOMAINS = frozenset({"", "ai.onnx", "ai.onnx.ml"})


class RunStoppedError(CompileError):
    """A run was stopped because it took too long; other inputs may take as long."""


SESSION_OPTIONS = {
    "graph_optimization_level": "ORT_DISABLE_ALL",
    "intra_op_num_threads": str(MAX_THREADS),
    "inter_op_num_threads": "1",
    "session.disable_prepacking": "1",
    "enable_cpu_mem_arena": "false",
    "execution_provider": "CPUExecutionProvider",
}
"""Under which a model and its chips are compared bit by bit."""


def open_session(
    model: onnx.ModelProto | bytes | Path,
    *,
    stock: bool = False,
    data_folder: Path | None = None,
    threads: int = MAX_THREADS,
) -> Any:
    """An `onnxruntime.InferenceSession` on the CPU with graph optimisations off.

    Args:
        model: a model, its serialised bytes, or a file.
        data_folder: folder of the external data of a model that is no file.
        stock: take onnxruntime's own options instead, with all optimisations; the number of
            threads stays, because it differs from machine to machine, and threads wait without
            spinning, which changes no result.
        threads: that compute one op.

    Raises:
        CompileError: MCM-V001 with the runtime's reason if it refuses the model.
    """
    ort = run_limits.quiet_onnxruntime()

    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = threads
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    if not stock:
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
        options.inter_op_num_threads = 1
        # Prepacking copies every weight; without it weights in external data stay memory-mapped.
        options.add_session_config_entry("session.disable_prepacking", "1")
        options.enable_cpu_mem_arena = False
        # A session runs a few times; planning its memory takes a third of opening large ones.
        options.enable_mem_pattern = False
    if data_folder is not None:
        options.add_session_config_entry(
            "session.model_external_initializers_file_folder_path", str(data_folder)
        )
    if isinstance(model, onnx.ModelProto):
        model = model.SerializeToString()
    try:
        source = str(model) if isinstance(model, Path) else model
        with crash_journal.doing(f"opening {_place(model)} in onnxruntime"):
            session = ort.InferenceSession(source, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # the runtime raises a type of its own per status code
        raise CompileError.of(
            "MCM-V001",
            f"onnxruntime {ort.__version__} refuses the model: {_one_line(error, model)}",
            at=_place(model),
        ) from error
    _STORED_BYTES[session] = _stored_bytes(model)
    return session


def lacking(refusal: CompileError) -> str | None:
    """Feature that onnxruntime lacks to run a model that may be right; None for another reason.

    That is an op that ONNX does not define, or a kernel for the types of a node.

    Args:
        refusal: from `open_session`.
    """
    text = refusal.diagnostics[0].message
    found = _UNREGISTERED.search(text)
    if found is not None and found["domain"] not in _ONNX_DOMAINS:
        return f"op {quote(found['op'])}"
    if (found := _NO_KERNEL.search(text)) is not None:
        return f"kernel of {found['op']} for the types of node {quote(found['node'])}"
    return None


def run_session(
    session: Any,
    feeds: Mapping[str, Any],
    outputs: Sequence[str] | None = None,
    *,
    place: str | None = None,
) -> dict[str, Any]:
    """Runs an open session.

    Args:
        session: from `open_session`.
        feeds: arrays by graph input name; further entries are ignored.
        outputs: names to fetch; all graph outputs where None.
        place: what the session was opened from, for the diagnostic.

    Raises:
        CompileError: MCM-V002 with the runtime's reason if the run fails; RunStoppedError if it
            takes too long (`run_limits`).
    """
    names = list(outputs) if outputs is not None else [o.name for o in session.get_outputs()]
    wanted = {i.name for i in session.get_inputs()}
    wanted |= {i.name for i in session.get_overridable_initializers()}
    given = {k: v for k, v in feeds.items() if k in wanted}
    fed_bytes = sum(getattr(value, "nbytes", 0) for value in given.values())
    stopped_after: float | None = None
    doing_run = crash_journal.doing(f"running {place or 'the model'} in onnxruntime")
    try:
        with doing_run, run_limits.watched_run(_STORED_BYTES.get(session, 0) + fed_bytes) as watch:
            try:
                return run_values(session, given, names, watch.options)
            finally:
                stopped_after = watch.max_s if watch.overdue else None
    except Exception as error:  # the runtime raises a type of its own per status code
        kind, reason = CompileError, _one_line(error)
        if stopped_after is not None:
            kind = RunStoppedError
            reason = f"it was stopped after {stopped_after:.3g} s of computing"
        raise kind(
            Diagnostic("MCM-V002", f"onnxruntime fails while running: {reason}", at=place)
        ) from error


def run_model(
    model: onnx.ModelProto | bytes | Path,
    feeds: Mapping[str, Any],
    outputs: Sequence[str] | None = None,
) -> dict[str, Any]:
    """Opens a session, runs it once, and releases its weights.

    Raises:
        CompileError: as `open_session` and `run_session`.
    """
    return run_batches(model, [feeds], outputs)[0]


def run_batches(
    model: onnx.ModelProto | bytes | Path,
    batches: Sequence[Mapping[str, Any]],
    outputs: Sequence[str] | None = None,
    *,
    stock: bool = False,
) -> list[dict[str, Any]]:
    """Opens a session, runs it once for each of `batches`, and releases its weights.

    Raises:
        CompileError: as `open_session` and `run_session`.
    """
    session = open_session(model, stock=stock)
    place = model.name if isinstance(model, Path) else None
    return [run_session(session, feeds, outputs, place=place) for feeds in batches]


def same_bits(left: Any, right: Any) -> bool:
    """Return whether two runtime values have equal type, shape and bits; NaN equals any NaN."""
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(same_bits, left, right))
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(same_bits(left[k], right[k]) for k in left)
    if not isinstance(left, np.ndarray) or not isinstance(right, np.ndarray):
        return type(left) is type(right) and bool(left == right)
    if left.dtype != right.dtype or left.shape != right.shape:
        return False
    if left.dtype.kind in "OUS":
        return bool(np.array_equal(left, right))
    if left.tobytes() == right.tobytes():
        return True
    if is_exotic(left.dtype):  # all of them fit into float32 exactly
        left, right = left.astype(np.float32), right.astype(np.float32)
    if left.dtype.kind not in "fc":
        return False
    # -0.0 == 0.0 in value but not in bits.
    signs = np.signbit(left) == np.signbit(right) if left.dtype.kind == "f" else True
    return bool(np.all((np.isnan(left) & np.isnan(right)) | ((left == right) & signs)))


def max_abs_error(left: Any, right: Any) -> float:
    """Largest absolute difference of numeric arrays, or of lists of them.

    It is infinite where they differ in kind, type or shape.
    """
    if isinstance(left, list) and isinstance(right, list) and len(left) == len(right):
        return max(map(max_abs_error, left, right), default=0.0)
    if not isinstance(left, np.ndarray) or not isinstance(right, np.ndarray):
        return 0.0 if same_bits(left, right) else float("inf")
    numeric = left.dtype.kind in "fiub" or is_exotic(left.dtype)
    if left.shape != right.shape or left.dtype != right.dtype or not numeric:
        return 0.0 if same_bits(left, right) else float("inf")
    if left.size == 0:
        return 0.0
    a, b = left.astype(np.float64), right.astype(np.float64)
    with np.errstate(invalid="ignore"):
        error = np.abs(a - b)
    error = np.where((np.isnan(a) & np.isnan(b)) | (a == b), 0.0, error)
    return float("inf") if np.isnan(error).any() else float(error.max())


def _stored_bytes(model: bytes | Path) -> int:
    """Size of a model; of a file with all that is next to it, among which is external data."""
    if isinstance(model, bytes):
        return len(model)
    return sum(entry.stat().st_size for entry in model.parent.iterdir() if entry.is_file())


def _place(model: bytes | Path) -> str:
    return model.name if isinstance(model, Path) else "a model in memory"


def _one_line(error: Exception, model: bytes | Path = b"") -> str:
    """The runtime's reason; without the folder, which differs from run to run and is gone soon."""
    text = " ".join(str(error).split())
    if isinstance(model, Path):
        text = text.replace(str(model), model.name)
    return text[:500]


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
