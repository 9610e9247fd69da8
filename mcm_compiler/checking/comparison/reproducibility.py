"""Whether onnxruntime computes a result at all, or returns memory that it has not written.

A few kernels leave parts of an output as they find them. Such a result differs between a model and
its parts, and between two runs of one model, and no compiler is at fault.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from mcm_compiler.diagnostics import Diagnostic, quote
from mcm_compiler.execution.runner import run_batches, same_bits

_M_PERTURB = -6
"""The option of glibc's `mallopt` with which memory comes filled with a byte (malloc.h)."""

_FILLINGS = (0x55, 0x33)


def unwritten_outputs(
    model: Path, batches: Sequence[Mapping[str, Any]], outputs: Sequence[str]
) -> list[Diagnostic]:
    """Finds outputs that differ when memory holds something else before the run.

    Elsewhere than on Linux with glibc, memory is left to chance.

    Args:
        model: a file that runs on all of `batches`.
        batches: inputs.
        outputs: names of those in doubt.

    Returns:
        MCM-V005 for each one that is found.

    Raises:
        CompileError: MCM-V001 or MCM-V002 if the model does not run after all.
    """
    results: list[list[dict[str, Any]]] = []
    for byte in _FILLINGS:
        with _filled_memory(byte):
            results.append(run_batches(model, batches, outputs))
    return [
        Diagnostic(
            "MCM-V005",
            "onnxruntime returns memory that it has not written: the model's result differs from "
            "run to run",
            at=f"output {quote(name)}",
            hint="an op before it is broken in onnxruntime for these shapes; leave `verify` out "
            "of --passes to compile all the same",
        )
        for name in outputs
        if not all(same_bits(a[name], b[name]) for a, b in zip(*results, strict=True))
    ]


@contextmanager
def _filled_memory(byte: int) -> Generator[None]:
    """Within the block, newly allocated memory holds a pattern, where the system has a way."""
    fill = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform == "linux" else None
    if fill is None:
        yield
        return
    fill(_M_PERTURB, byte)
    try:
        yield
    finally:
        fill(_M_PERTURB, 0)
