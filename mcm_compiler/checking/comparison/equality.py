"""Proving that the chips of a folder compute what the source model computes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir

from mcm_compiler.artifact import layout
from mcm_compiler.artifact.chain import ChipFiles, run_chain
from mcm_compiler.checking.comparison import output_coverage, user_data
from mcm_compiler.contracts.chips import PLANNED_PROPERTY, with_state_wires
from mcm_compiler.contracts.target import ChipState, Wire
from mcm_compiler.contracts.verification import OutputComparison, StructureProof, Verification
from mcm_compiler.diagnostics import CompileError, Diagnostic, Severity, quote
from mcm_compiler.execution import inputs, runner, runtime_values
from mcm_compiler.execution.piecewise import open_large, run_large
from mcm_compiler.graph.constants import constant_values, random_outputs
from mcm_compiler.graph.states import StatePair

HALF_TOLERANCE = 2.0**-7
"""Relative tolerance where a model with 16-bit floats is cut.

onnxruntime's CPU kernels compute float16 in float32 and drop back-to-back casts, so that a cut
adds one rounding; a few ulps of bfloat16 cover what follows from it.
"""

OVERRIDABLE_TOLERANCE = 2.0**-18
"""Relative tolerance where weights are graph inputs as well.

The chips hold them as constants, and a kernel that knows its weight may add in another order.
"""

STEPS = 8
"""Steps of one sequence that are compared where states stay on the chips."""

CLASS_INPUTS = 2
"""Random inputs of a seed that the classes of a round take in turn: each run of the model costs as
much as one inference, and that classes are not mixed up follows from structure."""

NOT_ON_RANDOM_INPUTS = "the model does not run on random inputs"
"""Message that nothing was compared, because a run was refused for each seed."""

_FOREIGN_REMEDY = "compare the chips with the model in a runtime that has it"


@dataclass(frozen=True, eq=False)
class ReadFolder:
    """A folder and the model of its `annotated.onnx`, which whoever opened it has read.

    Attributes:
        path: a staging or output folder.
        annotated: the model; not changed.
        shape_only: whether its weights are placeholders, with which nothing is compared.
        classes: inferences of a round; those that run take `CLASS_INPUTS` inputs of every seed in
            turn.
        structure: what was proven without a run.
    """

    path: Path
    annotated: ir.Model
    shape_only: bool
    classes: int = 1
    structure: StructureProof | None = None


def verify_folder(
    read: ReadFolder,
    chips: ChipFiles,
    wires: Sequence[Wire],
    seeds: Sequence[int],
    data: Sequence[user_data.RunData] = (),
    *,
    enough: int | None = None,
    stock: Path | None = None,
    states: Sequence[ChipState] = (),
) -> Verification:
    """Compares `annotated.onnx`, which is the source model, with the chain of chips.

    Args:
        read: a staging or output folder.
        chips: used chips, as in `run_chain`.
        wires: all tensors that travel.
        seeds: one random input each. Where the model does not run on it, integers are all 1,
            then all 0; a seed with which it runs on none of these is left out.
        data: the user's data, which the model has to run on.
        enough: random inputs that the model runs on, after which no seed is used; None uses all.
        stock: a file of the model with which the chips are compared once more under onnxruntime's
            own session options, where they are small; None to leave that out.
        states: those that stay on chips. Besides single inferences, whose states are drawn, `STEPS`
            steps of one sequence are compared, each on what the one before left on the chips.

    Returns:
        The verdict; `skipped` where there is nothing that the model runs on, or an op of a
        foreign domain or a kernel that onnxruntime lacks.

    Raises:
        CompileError: MCM-V001 to MCM-V003 if one of the models does not run, MCM-V005 if outputs
            differ because onnxruntime has not written them. MCM-V025 if the chips do not run under
            its own session options, and the model does.
    """
    if read.shape_only:
        return Verification((), (), skipped="shape-only weights")
    folder, reference = read.path, read.annotated
    runs = None if read.structure is None else read.structure.runs
    dealt = range(read.classes) if runs is None else runs.classes
    random, _ = random_outputs(reference)
    outputs = list(dict.fromkeys(v.name or "" for v in reference.graph.outputs))
    try:
        session = open_large(folder / layout.ANNOTATED)
        expected = [run_large(session, [d.inputs], outputs, place=d.name)[0] for d in data]
    except CompileError as error:
        return _without_runtime(error)
    batches: list[Mapping[str, Any]] = [d.inputs for d in data]
    used: list[int] = []
    refusal: CompileError | None = None
    for seed in seeds:
        if len(used) == enough:
            break
        try:
            few = min(len(dealt), CLASS_INPUTS)
            drawn = [
                _run_on_random(session, reference, seed * few + k, outputs) for k in range(few)
            ]
        except CompileError as error:
            if error.diagnostics[0].code == "MCM-V001":  # of a large model, when it is run
                return _without_runtime(error)
            refusal = error
            if isinstance(error, runner.RunStoppedError):
                break
            continue
        used.append(seed)
        taken = [drawn[k % few] for k in range(len(dealt))]
        batches += [feeds for feeds, _ in taken]
        expected += [results for _, results in taken]
    seen = [name for name in outputs if name not in random]
    redraws = _draw_again(session, reference, seen, batches, expected) if used else ()
    del session
    if not batches:
        reason = refusal.diagnostics[0].message if refusal is not None else "no inputs were given"
        return Verification(
            (),
            (),
            skipped=f"{NOT_ON_RANDOM_INPUTS}: {reason}",
            remedy="check with your own data: mcmc check FOLDER --input x.npz",
        )
    single = with_state_wires(wires, states)
    chain = partial(run_chain, folder, chips, classes=runs or read.classes)
    actual = chain(single, outputs, batches)
    wholes = tuple(dict.fromkeys(state.whole for state in states))
    steps = _steps_of(reference, batches[0], used, wholes)
    if steps:
        steps, stepped = _stepped(folder / layout.ANNOTATED, steps, wholes)
        expected += [{name: made[name] for name in outputs} for made in stepped]
        actual += chain(wires, outputs, steps, states=states)
        batches += steps
    reordered = read.structure is not None and read.structure.reordered
    relative = _relative_tolerance(reference, len(chips), reordered)
    compared = tuple(
        _compare(name, [e[name] for e in expected], [a[name] for a in actual], relative)
        for name in outputs
        if name not in random
    )
    if unequal := [comparison.output for comparison in compared if not comparison.holds]:
        from mcm_compiler.checking.comparison.stock_options import unwritten_outputs

        unwritten = unwritten_outputs(folder / layout.ANNOTATED, batches, unequal)
        if len(unwritten) == len(unequal):
            raise CompileError(unwritten)
    found = Verification(
        tuple(used),
        compared,
        constant_outputs=tuple(
            name
            for name in outputs
            if len(batches) > 1
            and all(runner.same_bits(e[name], expected[0][name]) for e in expected[1:])
        ),
        data_sets=tuple(d.name for d in data),
        expected=tuple(
            comparison
            for d, results in zip(data, actual, strict=False)
            for comparison in user_data.compare_expected(d, results)
            if comparison.output not in random
        ),
        random_outputs=tuple(random),
        weak=output_coverage.weak_outputs(_computed(reference, seen), expected),
        redraws=redraws,
        steps=len(steps),
        classes=read.classes,
    )
    if stock is None:
        return found
    from mcm_compiler.checking.comparison.stock_options import compare_stock

    whole = partial(run_chain, folder, chips, single, classes=read.classes)
    return compare_stock(found, stock, folder, whole, batches[0], seen)


def _without_runtime(refusal: CompileError) -> Verification:
    """Nothing is compared where onnxruntime lacks an op or a kernel; other refusals are raised."""
    if (lack := runner.lacking(refusal)) is None:
        raise refusal
    return Verification((), (), skipped=f"onnxruntime has no {lack}", remedy=_FOREIGN_REMEDY)


def _steps_of(
    reference: ir.Model, first: Mapping[str, Any], seeds: Sequence[int], states: Sequence[StatePair]
) -> list[Mapping[str, Any]]:
    """Inputs of successive steps; none where nothing would be handed on."""
    handed = [first.get(state.past) for state in states]
    if not seeds or not any(isinstance(past, np.ndarray) and past.size for past in handed):
        return []
    drawn = [inputs.random_inputs(reference, seeds[0] + step) for step in range(1, STEPS)]
    return [first, *drawn]


def _stepped(
    path: Path, steps: list[Mapping[str, Any]], states: Sequence[StatePair]
) -> tuple[list[Mapping[str, Any]], list[dict[str, Any]]]:
    """Steps of one sequence that the model runs on, and its outputs."""
    try:
        return steps, runner.run_steps(path, steps, states)
    except runner.RunStoppedError:
        raise
    except CompileError:  # drawn lengths or flags do not fit; those of the first step do
        steps = [steps[0]] * len(steps)
        return steps, runner.run_steps(path, steps, states)


def _draw_again(
    session: Any,
    reference: ir.Model,
    outputs: Sequence[str],
    batches: list[Mapping[str, Any]],
    expected: list[dict[str, Any]],
) -> tuple[str, ...]:
    """Adds inputs of other sizes as long as some output shows nothing.

    Returns:
        The sizes that were taken.
    """
    outputs = _computed(reference, outputs)
    drawn = batches[-1]
    taken: list[str] = []
    for name, factor in output_coverage.REDRAWS:
        weak = output_coverage.weak_outputs(outputs, expected)
        if not weak:
            break
        feeds = output_coverage.rescaled(drawn, factor)
        if all(runner.same_bits(feeds[key], drawn[key]) for key in feeds):
            break  # there are no floats among the inputs
        try:
            results = run_large(session, [feeds], list(expected[-1]))[0]
        except CompileError:
            continue
        if len(output_coverage.weak_outputs(outputs, [*expected, results])) < len(weak):
            batches.append(feeds)
            expected.append(results)
            taken.append(name)
    return tuple(taken)


def _computed(reference: ir.Model, outputs: Sequence[str]) -> list[str]:
    """Outputs that depend on an input; of the others there is nothing to see."""
    constants = constant_values(reference.graph)
    fixed = {value.name for value in reference.graph.outputs if value in constants}
    return [name for name in outputs if name not in fixed]


def not_compared(verification: Verification) -> Diagnostic | None:
    """MCM-V021 where no output was compared: a note for placeholders, else a warning."""
    if verification.skipped is not None:
        shape_only = verification.remedy is None
        return Diagnostic(
            "MCM-V021",
            f"equality was not checked: {verification.skipped}",
            hint=verification.remedy,
            severity=Severity.NOTE if shape_only else Severity.WARNING,
        )
    if verification.outputs:
        return None
    return Diagnostic(
        "MCM-V021",
        "equality was not checked: every output depends on random numbers",
        hint="give the random ops a seed, or export the model in inference mode",
        severity=Severity.WARNING,
    )


def differences(verification: Verification, hint: str | None = None) -> list[Diagnostic]:
    """MCM-V020 for outputs that differ too much, MCM-V022 for those that data do not expect."""
    return [
        Diagnostic(
            "MCM-V020",
            f"the chips' result differs by up to {output.max_abs_error:g}, "
            f"{output.tolerance:g} is allowed",
            at=f"output {quote(output.output)}",
            hint=hint,
        )
        for output in verification.outputs
        if not output.holds
    ] + [
        Diagnostic(
            "MCM-V022",
            f"the result differs from the expected one by up to {comparison.max_abs_error:g}",
            at=f"output {quote(comparison.output)}, {quote(comparison.data_set)}",
        )
        for comparison in verification.expected
        if not comparison.holds
    ]


def _run_on_random(
    session: Any, reference: ir.Model, seed: int, outputs: Sequence[str]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The first random input of a seed that the model runs on, and its results."""
    fills = inputs.fills_of(reference)
    for fill in fills:
        feeds = inputs.random_inputs(reference, seed, fill)
        try:
            return feeds, run_large(session, [feeds], outputs)[0]
        except runner.RunStoppedError:
            raise
        except CompileError:
            if fill is fills[-1]:
                raise
    raise AssertionError("there is at least one way to fill integers")


def _compare(
    name: str, expected: list[Any], actual: list[Any], relative: float
) -> OutputComparison:
    pairs = list(zip(expected, actual, strict=True))
    if all(runner.same_bits(e, a) for e, a in pairs):
        return OutputComparison(name, True, 0.0, 0.0)
    error = max(runner.max_abs_error(e, a) for e, a in pairs)
    scale = max((_scale(e) for e in expected), default=0.0)
    return OutputComparison(name, False, error, relative * scale)


def _scale(array: Any) -> float:
    if isinstance(array, list):
        return max(map(_scale, array), default=0.0)
    if not isinstance(array, np.ndarray) or array.size == 0:
        return 0.0
    is_step = array.dtype.kind in "iu" and array.dtype.itemsize == 1  # of a quantised number
    if array.dtype.kind not in "f" and not is_step and not runtime_values.is_exotic(array.dtype):
        return 0.0
    numbers = array.astype(np.float64)
    finite = numbers[np.isfinite(numbers)]
    return float(np.abs(finite).max()) if finite.size else 0.0


def _relative_tolerance(reference: ir.Model, num_chips: int, reordered: bool) -> float:
    graph = reference.graph
    half = (ir.DataType.FLOAT16, ir.DataType.BFLOAT16)
    if num_chips > 1 and any(v.dtype in half for node in graph for v in node.outputs):
        return HALF_TOLERANCE
    if reordered or reference.metadata_props.get(PLANNED_PROPERTY):
        from mcm_compiler.checking.comparison.stock_options import sum_tolerance

        # Partial sums are added in another order; whole numbers still give equal bits.
        return sum_tolerance(reference)
    overridable = any(value.is_graph_input() for value in graph.initializers.values())
    return OVERRIDABLE_TOLERANCE if overridable else 0.0
