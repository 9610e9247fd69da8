"""From a compile's result to the report: plain data with a published schema.

The report says nothing that differs between two runs of the same input: no times of the
compiler's own, no paths of the machine. `docs/reference/schema/report.schema.json` describes every
field; it is rendered from `records`. Readers take reports of earlier releases too, which lack some
fields that the schema asks for.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

import onnx_ir as ir
from msgspec import to_builtins

from mcm_compiler.contracts.chips import MAPPED_CHIPS
from mcm_compiler.contracts.sharding.sharding import APPLIED_PLAN, SHARDING_PLAN
from mcm_compiler.contracts.verification import StructureProof, Verification
from mcm_compiler.diagnostics import Diagnostic
from mcm_compiler.execution.runner import SESSION_OPTIONS
from mcm_compiler.graph.source import SourceModel
from mcm_compiler.options import CompileOptions
from mcm_compiler.report.derived_report import Sources, derive_report, own_options, stated_of
from mcm_compiler.report.hardware import figures, sensitivity_section
from mcm_compiler.report.records import sections, verdict
from mcm_compiler.report.verdict import claims, words
from mcm_compiler.report.versions import versions
from mcm_compiler.text.json_text import row_of
from mcm_compiler.text.option_fields import plain_options

if TYPE_CHECKING:
    from mcm_compiler.artifact.manifest import Manifest
    from mcm_compiler.report.records.report import DiagnosticRow, OptionsFacts, Report
    from mcm_compiler.results.compile_result import CompileResult


def build_report(result: CompileResult) -> Report:
    """The report of `result`. Equal inputs, options and versions give equal reports.

    Fields are None where the pipeline did not compute them.
    """
    partition, source = result.partition, result.source
    stated: dict[str, Any] = {
        "strategy": partition.strategy if partition else None,
        "found_by": (partition.found_by or None) if partition else None,
        "dims": dict(sorted(source.dims.items())),
        "options": options_facts(result.options, source.shapes),
        **option_sources(result.options),
        "verification": verification_data(result.verification) if result.verification else None,
        "diagnostics": [_without_paths(d, source) for d in result.diagnostics],
        "versions": versions(),
    }
    if result.sensitivities is not None:
        stated[sensitivity_section.SENSITIVITY_SECTION] = list(result.sensitivities)
    if result.sizes:
        stated["sizes"] = list(result.sizes)
    if result.prompt is not None:
        stated["prompt"] = result.prompt
    sources = Sources(
        manifest=result.manifest.with_stated(stated),
        target=result.target,
        certificate=result.certificate,
        program=result.program,
        simulation=result.simulation,
        graphs={chip.chip: chip.model.graph for chip in result.chips or ()},
        source=source.original,
        sharded=_sharded(result.model),
        mapped=MAPPED_CHIPS.find(result.model) or (),
    )
    report = derive_report(sources)
    report[words.VERDICT] = claims.verdict_of(report)
    return cast("Report", report)


def recorded(manifest: Manifest, report: Mapping[str, Any]) -> Manifest:
    """The manifest with what a report states; options that are fields of it are not repeated."""
    stated, own = stated_of(report), own_options(manifest)
    stated["options"] = {n: value for n, value in stated["options"].items() if n not in own}
    return manifest.with_stated(stated)


def verification_data(verification: Verification) -> verdict.VerificationFacts:
    """A comparison by onnxruntime as JSON-able data; an error that is not finite becomes None."""
    outputs, expected = (
        [row_of(kind, one, max_abs_error=figures.finite(one.max_abs_error)) for one in rows]
        for kind, rows in (
            (verdict.OutputRow, verification.outputs),
            (verdict.ExpectedRow, verification.expected),
        )
    )
    found: verdict.VerificationFacts = row_of(
        verdict.VerificationFacts,
        verification,
        outputs=outputs,
        expected=expected,
        weak_outputs=to_builtins(verification.weak),
        session_options=dict(SESSION_OPTIONS),
        stock_equal=all(o.bit_equal for o in verification.stock) if verification.stock else None,
        structure=structure_data(verification.structure) if verification.structure else None,
    )
    if verification.classes == 1:
        del found["classes"]
    if not verification.steps:
        del found["steps"]
    return found


def structure_data(proof: StructureProof) -> verdict.StructureFacts:
    """Proof by structure as JSON-able data."""
    return row_of(verdict.StructureFacts, proof)


def options_facts(options: CompileOptions, shapes: Mapping[str, tuple[int, ...]]) -> OptionsFacts:
    """The options as given, and the shapes that inputs were given, also by arrays.

    The normal forms of passes and cost model are elsewhere in the report.
    """
    data = plain_options(replace(options, shapes=shapes))
    if options.goal.plain:
        del data["objective"]
    return data


def option_sources(options: CompileOptions) -> dict[str, dict[str, str]]:
    """The sources of options for a report, where a project file may give them."""
    found = dict(sorted(options.sources.items()))
    return {"option_sources": found} if found else {}


def _sharded(compiled: ir.Model) -> list[sections.ShardedRow] | None:
    """Operators that run in pieces; those whose pieces were folded into constants do not run."""
    applied, plan = APPLIED_PLAN.find(compiled), SHARDING_PLAN.find(compiled)
    if applied is None and plan is None:
        return None
    names = {node.name for node in compiled.graph}
    operators = (applied.operators if applied else ()) + (plan.operators if plan else ())
    return [row_of(sections.ShardedRow, o) for o in operators if names.issuperset(o.pieces)]


def _without_paths(diagnostic: Diagnostic, source: SourceModel) -> DiagnosticRow:
    """The diagnostic with the model's path cut to its name, because folders differ by machine."""
    data = diagnostic.to_dict()
    if source.path is not None:
        for path in (str(source.path.absolute()), str(source.path)):
            data = {
                key: text.replace(path, source.path.name) if text is not None else None
                for key, text in data.items()
            }
    return cast("DiagnosticRow", data)
