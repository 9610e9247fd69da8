"""Running models in onnxruntime, the functional judge.

Graph optimisations are off: they are what makes a model and its parts differ in the last bit.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from mcm_compiler.diagnostics import CompileError, Diagnostic

MAX_THREADS = 2
"""Threads of one session. Fixed, because the number of threads changes how sums are split."""


def open_session(model: onnx.ModelProto | bytes | Path) -> Any:
    """An `onnxruntime.InferenceSession` on the CPU with graph optimisations off.

    Args:
        model: a model, its serialised bytes, or a file. Only a file can have external data.

    Raises:
        CompileError: MCM-V001 with the runtime's reason if it refuses the model.
    """
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = MAX_THREADS
    options.inter_op_num_threads = 1
    options.log_severity_level = 4
    # Prepacking copies every weight; without it weights in external data stay memory-mapped.
    options.add_session_config_entry("session.disable_prepacking", "1")
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.enable_cpu_mem_arena = False
    if isinstance(model, onnx.ModelProto):
        model = model.SerializeToString()
    where = str(model) if isinstance(model, Path) else "the model"
    try:
        source = str(model) if isinstance(model, Path) else model
        return ort.InferenceSession(source, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # the runtime raises a type of its own per status code
        raise CompileError(
            Diagnostic(
                "MCM-V001",
                f"onnxruntime {ort.__version__} refuses {where}: {_one_line(error)}",
                hint="the model must run in stock onnxruntime; see its release notes for opsets",
            )
        ) from error


def run_session(
    session: Any, feeds: Mapping[str, Any], outputs: Sequence[str] | None = None
) -> dict[str, Any]:
    """Runs an open session.

    Args:
        session: from `open_session`.
        feeds: arrays by graph input name; further entries are ignored.
        outputs: names to fetch; all graph outputs where None.

    Raises:
        CompileError: MCM-V002 with the runtime's reason if the run fails.
    """
    names = list(outputs) if outputs is not None else [o.name for o in session.get_outputs()]
    wanted = {i.name for i in session.get_inputs()}
    wanted |= {i.name for i in session.get_overridable_initializers()}
    try:
        values = session.run(names, {k: v for k, v in feeds.items() if k in wanted})
    except Exception as error:  # the runtime raises a type of its own per status code
        raise CompileError(
            Diagnostic("MCM-V002", f"onnxruntime fails while running: {_one_line(error)}")
        ) from error
    return dict(zip(names, values, strict=True))


def run_model(
    model: onnx.ModelProto | bytes | Path,
    feeds: Mapping[str, Any],
    outputs: Sequence[str] | None = None,
) -> dict[str, Any]:
    """Opens a session, runs it once, and closes it.

    Raises:
        CompileError: as `open_session` and `run_session`.
    """
    with session_for(model) as session:
        return run_session(session, feeds, outputs)


@contextmanager
def session_for(model: onnx.ModelProto | bytes | Path) -> Generator[Any]:
    """`open_session` as a context: the weights are released when the block ends."""
    session = open_session(model)
    try:
        yield session
    finally:
        del session


def same_bits(left: Any, right: Any) -> bool:
    """Whether two runtime values have equal type, shape and bits; NaN equals any NaN."""
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(same_bits, left, right))
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(same_bits(left[k], right[k]) for k in left)
    if not isinstance(left, np.ndarray) or not isinstance(right, np.ndarray):
        return type(left) is type(right) and bool(left == right)
    if left.dtype != right.dtype or left.shape != right.shape:
        return False
    if left.dtype == object or left.dtype.kind in "US":
        return bool(np.array_equal(left, right))
    equal = left.view(np.uint8) if left.ndim and left.flags.c_contiguous else None
    if equal is not None and np.array_equal(equal, right.view(np.uint8)):
        return True
    if left.dtype.kind not in "fc":
        return bool(np.array_equal(left, right))
    both_nan = np.isnan(left) & np.isnan(right)
    # -0.0 == 0.0 in value but not in bits.
    bits = np.signbit(left) == np.signbit(right) if left.dtype.kind == "f" else True
    return bool(np.all(both_nan | ((left == right) & bits)))


def max_abs_error(left: Any, right: Any) -> float:
    """Largest absolute difference of two numeric arrays; infinite where they are not comparable."""
    if not isinstance(left, np.ndarray) or not isinstance(right, np.ndarray):
        return 0.0 if same_bits(left, right) else float("inf")
    if left.shape != right.shape or left.dtype != right.dtype or left.dtype.kind not in "fiub":
        return 0.0 if same_bits(left, right) else float("inf")
    if left.size == 0:
        return 0.0
    a, b = left.astype(np.float64), right.astype(np.float64)
    with np.errstate(invalid="ignore"):
        error = np.abs(a - b)
    error[(np.isnan(a) & np.isnan(b)) | (a == b)] = 0.0
    return float("inf") if np.isnan(error).any() else float(error.max())


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())[:500]
