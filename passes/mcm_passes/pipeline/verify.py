"""The pass `verify`: the emitted chips against the source model in onnxruntime."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import PurePath
from typing import ClassVar

import onnx_ir as ir

from mcm_compiler.artifact import layout
from mcm_compiler.artifact.emit import input_entries
from mcm_compiler.checking.comparison import equality
from mcm_compiler.checking.comparison.output_coverage import weakness_warnings
from mcm_compiler.checking.comparison.user_data import RunData, sibling_data
from mcm_compiler.checking.structure_step import emitted_model, left_to_runs, open_points
from mcm_compiler.contracts.chips import CHIP_MODELS, WIRES, states_of, with_state_wires
from mcm_compiler.contracts.replication import REPLICATION
from mcm_compiler.contracts.verification import EMITTED, VERIFICATION, StructureProof
from mcm_compiler.diagnostics import CompileError, Diagnostic, quote
from mcm_compiler.equivalence.structure_proof import prove_chips
from mcm_compiler.equivalence.values.followed_passes import constant_bytes, unfollowed_passes
from mcm_compiler.execution.inputs import random_inputs
from mcm_compiler.graph.constants import random_outputs
from mcm_compiler.graph.limits import check_run_size
from mcm_compiler.graph.map_types import load_model
from mcm_compiler.graph.source import SOURCE, SourceModel
from mcm_compiler.ir.shapes.open_sizes import impossible_sizes
from mcm_compiler.pipeline.passes import AnyKey, Pass, PassContext
from mcm_compiler.processes.garbage import give_back
from mcm_compiler.text.units import count_text

MAX_NAMED = 5
"""Random ops that a diagnostic names."""

_OUR_FAULT = "this is a fault of the compiler; please report the model"


@dataclass(frozen=True)
class Verify(Pass):
    """Compares the chain of chips with the source model on seeded random inputs.

    The user's own input is compared as well, where the option `input` names one. Where
    `test_data_set_N` folders lie next to the model's file, they are run as well, and the
    chips' outputs compared with the expected ones, unless the option `test_data` is off.
    """

    name: ClassVar[str] = "verify"
    summary: ClassVar[str] = "prove the chips equal to the model in onnxruntime"
    requires: ClassVar[tuple[AnyKey, ...]] = (SOURCE, CHIP_MODELS, WIRES, EMITTED)
    uses: ClassVar[tuple[AnyKey, ...]] = (REPLICATION,)
    provides: ClassVar[tuple[AnyKey, ...]] = (VERIFICATION,)

    def run(self, model: ir.Model, context: PassContext) -> bool:
        """Sets `VERIFICATION`.

        Raises:
            CompileError: MCM-V020, one diagnostic per graph output that differs. MCM-V062 where
                the emitted model is not that of the user's file. MCM-I058 where no data run with
                the sizes of the model. MCM-V004 if the runs would take
                too much memory; MCM-V005 if onnxruntime leaves an output unwritten; MCM-V011 for
                test data next to the model that cannot be read, MCM-V022 for those that expect
                something else.
        """
        source, options = SOURCE.get(model), context.options
        data: tuple[RunData, ...] = ()
        classes = _classes(model)
        if not source.shape_only:
            data = (*_given(source, context), *_data_beside(source, context))
            check_run_size(source.original, options.verify_seeds * classes + len(data))
        # Read once: of a large graph, reading takes longer than proving.
        annotated, unlike = emitted_model(context.staging.path, source)
        give_back()
        proof = _structure(model, context, annotated, unlike)
        give_back()
        verification = equality.verify_folder(
            equality.ReadFolder(context.staging.path, annotated, source.shape_only, classes, proof),
            [chip.chip for chip in CHIP_MODELS.get(model)],
            WIRES.get(model),
            range(options.seed, options.seed + options.verify_seeds),
            data,
            states=states_of(CHIP_MODELS.get(model)),
        )
        give_back()
        if verification.skipped and (
            fault := impossible_sizes(source.original, verification.skipped)
        ):
            raise CompileError(fault)
        verification = replace(verification, structure=proof)
        faults = equality.differences(verification, hint=_OUR_FAULT)
        if faults:
            raise CompileError([_with_switch(fault, "MCM-V022") for fault in faults])
        for warning in weakness_warnings(verification.weak, verification.structure):
            context.report(warning)
        if (unchecked := equality.not_compared(verification)) is not None:
            context.report(unchecked)
        if verification.random_outputs:
            _, nodes = random_outputs(source.original)
            named = ", ".join(f"{quote(n.name or '')} ({n.op_type})" for n in nodes[:MAX_NAMED])
            context.report(
                Diagnostic(
                    "MCM-V023",
                    f"{count_text(len(verification.random_outputs), 'output')} cannot be compared, "
                    "because they differ in every run",
                    at=f"random ops: {named}{', ...' if len(nodes) > MAX_NAMED else ''}",
                )
            )
        VERIFICATION.set(model, verification)
        return False


def _structure(
    model: ir.Model, context: PassContext, annotated: ir.Model, unlike: list[Diagnostic]
) -> StructureProof:
    """Proves the emitted chips against the emitted model.

    Args:
        model: as it was compiled.
        context: of the pass.
        annotated: the emitted model.
        unlike: where that is not the model of the user's file.

    Raises:
        CompileError: MCM-V062 where the emitted model is not that of the user's file.
    """
    folder = context.staging.path
    chips = CHIP_MODELS.get(model)
    emitted = [
        replace(chip, model=load_model(folder / layout.chip_file(chip.chip))) for chip in chips
    ]
    proof = prove_chips(
        annotated,
        emitted,
        with_state_wires(WIRES.get(model), states_of(chips)),
        _classes(model),
        placeholders=SOURCE.get(model).shape_only,
        unfollowed_passes=unfollowed_passes(context.options.passes),
        max_constant_bytes=constant_bytes(context.options.passes),
    )
    if unlike:
        raise CompileError([replace(fault, hint=_OUR_FAULT) for fault in unlike])
    if (note := left_to_runs(proof, open_points(proof))) is not None:
        context.report(note)
    return proof


def _classes(model: ir.Model) -> int:
    chosen = REPLICATION.find(model)
    return chosen.round if chosen is not None else 1


def _given(source: SourceModel, context: PassContext) -> tuple[RunData, ...]:
    """The user's own input, with random values for what it leaves out."""
    if context.options.input is None:
        return ()
    drawn = random_inputs(source.original, context.options.seed)
    return (RunData(PurePath(context.options.input).name, drawn | dict(source.given)),)


def _data_beside(source: SourceModel, context: PassContext) -> tuple[RunData, ...]:
    if source.path is None or not context.options.test_data:
        return ()

    try:
        found = sibling_data(source.path, source.original, input_entries(source))
    except CompileError as error:
        raise CompileError(
            [_with_switch(fault, "MCM-V011") for fault in error.diagnostics]
        ) from error
    for note in found.notes:
        context.report(note)
    return found.sets


def _with_switch(fault: Diagnostic, code: str) -> Diagnostic:
    """The diagnostic; one of `code`, which is about data, names the option that ignores them."""
    if fault.code != code:
        return fault
    return replace(fault, hint=f"{fault.hint}; --no-test-data compiles without the data")
