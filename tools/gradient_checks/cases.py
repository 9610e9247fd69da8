"""Gradients of onnx's backend cases, held against central differences."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
from gradient_checks.differences import (
    COARSE_STEP,
    FINE_STEP,
    STEP,
    TOLERANCE,
    Difference,
    alone_and_together,
    differences,
)
from gradient_checks.double_models import (
    array_in_double,
    in_double,
    set_shapes,
    with_constants,
    with_loss,
)
from gradient_checks.engines import NotRunError, Run, engine

from mcm_compiler.diagnostics import CompileError
from mcm_compiler.graph.map_types import model_to_proto
from tests.generators.appended_gradients import append_gradients

Array = np.ndarray[Any, Any]

PASSED, REFUSED, WRONG, NOT_RUN, NO_GRADIENT, BROKEN = (
    "passed",
    "refused",
    "wrong",
    "not run",
    "not differentiable",
    "broken",
)
NOT_FINITE = "not finite"
"""Where the forward pass goes through what is no number, and its gradient is none."""

SPECIFYING = {
    "Resize": (1, 2),
    "Upsample": (1,),
    "Dropout": (1,),
    "DequantizeLinear": (0, 2),
    "OneHot": (0, 1),
    "Range": (0, 1, 2),
    "NonMaxSuppression": (0, 1, 2, 3, 4),
    "RoiAlign": (1,),
    "MaxRoiPool": (1,),
    "HannWindow": (0,),
    "MelWeightMatrix": (3, 4),
    "CenterCropPad": (1,),
}
"""Inputs of floating point that say what to do, and are weights here."""

LOSS = "mcm.loss"

JITTER = 1e-3
"""Operands are raised by about so much, since examples stand on kinks: equal elements, zeros."""


@dataclass(frozen=True)
class Verdict:
    """What became of one case.

    Attributes:
        category: of the case.
        name: of the case.
        op_type: of its only op, with its domain, or `several`.
        verdict: one of the words above.
        reason: code and message, or the error in numbers.
        engine: what ran it.
        error: largest relative error.
    """

    category: str
    name: str
    op_type: str
    verdict: str
    reason: str = ""
    engine: str = ""
    error: float = 0.0

    def to_dict(self) -> dict[str, Any]:
        """The JSON form."""
        return asdict(self)


def judge(case: Any) -> Verdict:
    """Differentiates one case and compares."""
    op_type = _op_type(case.model)

    def verdict(word: str, reason: object = "", **more: Any) -> Verdict:
        text = " ".join(str(reason).split())[:300]
        return Verdict(case.category, case.name, op_type, word, text, **more)

    arrays = _arrays(case)
    if arrays is None:
        return verdict(NO_GRADIENT, "inputs or outputs that are no tensors, or none")
    feeds, outputs = arrays
    model = in_double(case.model)
    sources = _sources(model, feeds)
    scored = _scored(model, outputs, sources)
    if not sources or not scored:
        return verdict(NO_GRADIENT, "no input of floating point reaches an output")
    rng = np.random.default_rng(7)
    for name in sources:
        feeds[name] = feeds[name] + JITTER * (0.5 + rng.random(feeds[name].shape))
    try:
        return _compared(model, feeds, outputs, (scored, sources), verdict)
    except NotRunError as error:
        return verdict(NOT_RUN, error)
    except CompileError as error:
        first = error.diagnostics[0]
        word = BROKEN if first.code == "MCM-D035" else REFUSED
        return verdict(word, f"{first.code}: {first.message}")
    except Exception as error:  # a stack trace is a bug of ours, and has to be listed
        return verdict(BROKEN, f"{type(error).__name__}: {error}")


def _error(one: Difference) -> float:
    return one.error if np.isfinite(one.error) else np.inf


def _worst(
    run: Run, gradients: dict[str, str], varied: dict[str, Array], step: float
) -> Difference:
    groups = alone_and_together(list(varied))
    return max(differences(run, LOSS, gradients, varied, groups, seed=3, step=step), key=_error)


def _compared(
    model: onnx.ModelProto,
    feeds: dict[str, Array],
    outputs: dict[str, Array],
    names_of: tuple[Sequence[str], Sequence[str]],
    verdict: Any,
) -> Verdict:
    """Runs the forward model for the shapes of its outputs, then the one with gradients."""
    scored, sources = names_of
    fixed = {name: array for name, array in feeds.items() if name not in sources}
    varied = {name: feeds[name] for name in sources}
    model = with_constants(model, fixed)
    set_shapes(model, {name: array.shape for name, array in varied.items()})
    expected = {name: outputs[name] for name in scored}
    try:
        used, run = engine(model, varied, expected)
    except NotRunError:
        used, run = engine(model, varied)
    results = run(varied)
    again = run(varied)
    if not all(np.array_equal(results[name], again[name], equal_nan=True) for name in scored):
        return verdict(NO_GRADIENT, "draws random numbers")
    rng = np.random.default_rng(11)
    factors = {name: rng.normal(size=np.asarray(results[name]).shape) for name in scored}
    if not all(np.isfinite(np.asarray(results[name])).all() for name in scored):
        return verdict(NO_GRADIENT, "its outputs are not finite")
    set_shapes(model, {name: np.asarray(array).shape for name, array in results.items()})
    lossy = with_loss(model, factors, LOSS)
    lossy = onnx.shape_inference.infer_shapes(lossy, data_prop=True)
    differentiated = ir.from_proto(lossy)
    made = append_gradients(differentiated, LOSS, sources)
    gradients = {
        source: value.name or ""
        for source, value in zip(sources, made, strict=True)
        if value is not None
    }
    # An engine that computes something else in double than the case expects is no judge of it.
    names = (used, "onnx.reference")
    name, run = engine(model_to_proto(differentiated), varied, names=names)
    worst = _worst(run, gradients, varied, STEP)
    if np.isfinite(worst.error) and worst.error > TOLERANCE:
        more_steps = [_worst(run, gradients, varied, step) for step in (COARSE_STEP, FINE_STEP)]
        worst = min(worst, *more_steps, key=_error)
    error = float(worst.error) if np.isfinite(worst.error) else -1.0
    more = {"engine": name, "error": error}
    if worst.error <= TOLERANCE:
        return verdict(PASSED, **more)
    if not np.isfinite(worst.computed):
        return verdict(NOT_FINITE, f"{worst.source}: {worst.computed}", **more)
    text = f"{worst.source}: {worst.computed:.6g} for {worst.measured:.6g}"
    return verdict(WRONG, text, **more)


def _op_type(model: onnx.ModelProto) -> str:
    kinds = {
        f"{node.domain}::{node.op_type}" if node.domain not in ("", "ai.onnx") else node.op_type
        for node in model.graph.node
        if node.op_type != "Constant"
    }
    return kinds.pop() if len(kinds) == 1 else "several"


def _arrays(case: Any) -> tuple[dict[str, Array], dict[str, Array]] | None:
    """Inputs and expected outputs of the first data set, in double."""
    if not case.data_sets or case.model.functions:
        return None
    inputs, outputs = case.data_sets[0]
    weights = {tensor.name for tensor in case.model.graph.initializer}
    infos = [info for info in case.model.graph.input if info.name not in weights]
    if len(infos) != len(inputs):
        infos = list(case.model.graph.input)[: len(inputs)]
    found: list[dict[str, Array]] = []
    for messages, values in ((inputs, infos), (outputs, case.model.graph.output)):
        if not all(isinstance(message, onnx.TensorProto) for message in messages):
            return None
        arrays = [onnx.numpy_helper.to_array(message) for message in messages]
        found.append({v.name: array_in_double(a) for v, a in zip(values, arrays, strict=False)})
    return found[0], found[1]


def _sources(model: onnx.ModelProto, feeds: dict[str, Array]) -> list[str]:
    """Inputs of floating point that do more than say what to do."""
    specifying = {
        node.input[place]
        for node in model.graph.node
        for place in SPECIFYING.get(node.op_type, ())
        if place < len(node.input)
    }
    return [
        name
        for name, array in feeds.items()
        if array.dtype == np.float64 and array.size and name not in specifying
    ]


def _scored(model: onnx.ModelProto, outputs: dict[str, Array], sources: Sequence[str]) -> list[str]:
    """Outputs of floating point that depend on a source by floating point."""
    graph = ir.from_proto(model).graph
    values = {v.name: v for v in graph.inputs}
    reached: set[ir.Value] = {values[name] for name in sources}
    for node in graph:
        if any(value in reached for value in node.inputs):
            reached.update(node.outputs)
    return [
        value.name or ""
        for value in graph.outputs
        if value in reached
        and value.name in outputs
        and outputs[value.name].dtype == np.float64
        and outputs[value.name].size
    ]


def judge_all(cases: Sequence[Any], word: str) -> list[Verdict]:
    """The verdict of each case whose name or op has `word`."""
    chosen = [case for case in cases if word in case.name or word == _op_type(case.model)]
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        return [judge(case) for case in chosen]


def share(verdicts: Sequence[Verdict]) -> tuple[int, int]:
    """Cases that pass, and cases that are differentiable and that an engine runs."""
    counts = Counter(one.verdict for one in verdicts)
    return counts[PASSED], sum(
        counts[word] for word in (PASSED, REFUSED, WRONG, BROKEN, NOT_FINITE)
    )
