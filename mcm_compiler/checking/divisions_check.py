"""The check of the bound over all divisions: its kernels derived again, its proof followed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, replace
from itertools import takewhile
from math import isclose

import onnx_ir as ir

from mcm_compiler.certificate.bound_check import MARGIN, not_re_proved
from mcm_compiler.certificate.claims import Certificate
from mcm_compiler.certificate.joined import differs
from mcm_compiler.checking.entry.gate import OpenedFolder
from mcm_compiler.checking.groups_check import known_passes
from mcm_compiler.contracts.fusion import FUSION_PLAN
from mcm_compiler.contracts.sharding.divisions import DividedKernel, DivisionBound, ProvesDivisions
from mcm_compiler.contracts.sharding.sharding import SHARDING_PLAN
from mcm_compiler.diagnostics import CompileError, Diagnostic, quote
from mcm_compiler.graph.constants import graphs_of
from mcm_compiler.graph.estimated_dims import dim_size, is_estimated
from mcm_compiler.ir.reading.importer import import_model
from mcm_compiler.options import CompileOptions
from mcm_compiler.pipeline.passes import PassContext
from mcm_compiler.processes.staging import staging
from mcm_compiler.registry import PROOF_CHECKERS
from mcm_compiler.text.units import seconds_text

CHECKER = "divisions"
"""Name of the proof checker."""


def check_divisions(
    folder: OpenedFolder, certificate: Certificate
) -> tuple[str, Diagnostic | None]:
    """Proves the bound over all divisions again.

    Returns:
        A summary, empty without a bound, and MCM-V072 where it could not be re-proved.

    Raises:
        CompileError: MCM-V070 for kernels other than those of the model, MCM-V071 for a bound that
            its prices do not show.
    """
    bound = certificate.divisions
    if bound is None:
        return "", None
    manifest = folder.manifest
    checker = PROOF_CHECKERS.get(CHECKER) if CHECKER in PROOF_CHECKERS else None
    passes = known_passes(manifest.pipeline)
    if not isinstance(checker, ProvesDivisions) or passes is None:
        missing = "its checker" if passes is not None else "a pass of the folder"
        note = not_re_proved(f"{missing} is not installed", "the bound over all divisions")
        return note.message, note
    model = _imported(folder.source, manifest.model)
    options = CompileOptions(fallback="host")
    with staging(None) as stage, PROOF_CHECKERS.at_work(CHECKER):
        context = PassContext(folder.target, options, stage, lambda _: None)
        for step in takewhile(lambda one: SHARDING_PLAN not in one.provides, passes):
            step.run(model, context)
        kernels = checker.kernels(model, folder.target, FUSION_PLAN.get(model))
        _compare(bound, kernels or ())
        limits = folder.target.limits.first(certificate.scope.devices, 1)
        shown = checker.rules_out_period(
            replace(bound, seconds=bound.seconds * (1.0 - MARGIN)), limits
        )
    if not shown:
        raise CompileError.of(
            "MCM-V071",
            "the bound does not hold as it is claimed: its prices do not show that no division "
            f"takes less than {bound.seconds!r} s",
            at="divisions in certificate.json",
        )
    return f"{seconds_text(bound.seconds)} over all divisions re-proved", None


def _imported(source: ir.Model, name: str) -> ir.Model:
    """The model as it was imported; sizes that depend on data are those that the source states."""
    stated = {
        value.name or "": value.shape
        for value in _values(source)
        if value.shape is None or any(map(is_estimated, value.shape))
    }
    given = ((value.name or "", value.shape) for value in source.graph.inputs)
    sizes = {key: tuple(map(dim_size, shape)) for key, shape in given if shape and key in stated}
    model, _ = import_model(source.clone(), name, shapes=sizes)
    for value in _values(model):
        value.shape = stated.get(value.name or "", value.shape)
    return model


def _values(model: ir.Model) -> Iterator[ir.Value]:
    for graph in graphs_of(model):
        yield from graph.inputs
        for node in graph:
            yield from node.outputs


def _compare(bound: DivisionBound, kernels: tuple[DividedKernel, ...]) -> None:
    if len(bound.kernels) != len(kernels):
        raise differs(
            f"its bound over all divisions counts {len(bound.kernels)} kernels, the source has "
            f"{len(kernels)}",
            "division.kernel",
        )
    for said, derived in zip(bound.kernels, kernels, strict=True):
        for field in fields(DividedKernel):
            theirs, ours = getattr(said, field.name), getattr(derived, field.name)
            same = theirs == ours if isinstance(ours, str) else isclose(theirs, ours, rel_tol=1e-9)
            if not same:
                raise differs(
                    f"{field.name} of kernel {quote(derived.name)} is {theirs}, the source gives "
                    f"{ours}",
                    f"division.{'kernel' if field.name == 'name' else field.name}",
                )
