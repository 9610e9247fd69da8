"""Proving that the chips of a folder compute what the source model computes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir

from mcm_compiler.artifact import layout
from mcm_compiler.artifact.chain import run_chain
from mcm_compiler.execution import max_abs_error, run_session, same_bits, session_for
from mcm_compiler.inputs import random_inputs
from mcm_compiler.target import Wire
from mcm_compiler.verification import OutputComparison, Verification

HALF_TOLERANCE = 2.0**-7
"""Relative tolerance where a 16-bit float crosses a wire.

onnxruntime's CPU kernels compute float16 in float32 and drop back-to-back casts, so that a cut
adds one rounding; a few ulps of bfloat16 cover what follows from it.
"""


def verify_folder(
    folder: Path,
    chips: Sequence[int],
    wires: Sequence[Wire],
    seeds: Sequence[int],
    shape_only: bool,
) -> Verification:
    """Compares `annotated.onnx`, which is the source model, with the chain of chips.

    Args:
        folder: a staging or output folder.
        chips: chips in ring order.
        wires: all tensors that travel.
        seeds: one random input each.
        shape_only: skip the comparison, because the weights are placeholders.

    Raises:
        CompileError: MCM-V001 to MCM-V003 if one of the models does not run.
    """
    if shape_only:
        return Verification(tuple(seeds), (), skipped="shape-only weights")
    reference = ir.load(folder / layout.ANNOTATED)
    outputs = list(dict.fromkeys(v.name or "" for v in reference.graph.outputs))
    batches = [random_inputs(reference, seed) for seed in seeds]
    relative = HALF_TOLERANCE if _has_half_floats(reference, wires) else 0.0
    with session_for(folder / layout.ANNOTATED) as session:
        expected = [run_session(session, feeds, outputs) for feeds in batches]
    actual = run_chain(folder, chips, wires, outputs, batches)
    comparisons = tuple(
        _compare(name, [e[name] for e in expected], [a[name] for a in actual], relative)
        for name in outputs
    )
    constant = tuple(
        name
        for name in outputs
        if len(seeds) > 1 and all(same_bits(e[name], expected[0][name]) for e in expected[1:])
    )
    return Verification(tuple(seeds), comparisons, constant_outputs=constant)


def _compare(
    name: str, expected: list[Any], actual: list[Any], relative: float
) -> OutputComparison:
    pairs = list(zip(expected, actual, strict=True))
    if all(same_bits(e, a) for e, a in pairs):
        return OutputComparison(name, True, 0.0, 0.0)
    error = max(max_abs_error(e, a) for e, a in pairs)
    scale = max((_scale(e) for e in expected), default=0.0)
    return OutputComparison(name, False, error, relative * scale)


def _scale(array: Any) -> float:
    if not isinstance(array, np.ndarray) or array.size == 0 or array.dtype.kind not in "fiu":
        return 0.0
    finite = array[np.isfinite(array)].astype(np.float64)
    return float(np.abs(finite).max()) if finite.size else 0.0


def _has_half_floats(reference: ir.Model, wires: Sequence[Wire]) -> bool:
    half = (ir.DataType.FLOAT16, ir.DataType.BFLOAT16)
    return bool(wires) and any(
        value.dtype in half for node in reference.graph for value in node.outputs
    )
