"""Check whether every figure of a report is what its folder gives.

Whether the rows about divided operators are what the models of a folder say.
"""

from __future__ import annotations

from collections.abc import Collection, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, cast

import onnx_ir as ir

from mcm_compiler.artifact import layout
from mcm_compiler.artifact.manifest import Manifest
from mcm_compiler.certificate.stored_problem import SCHEMA_VERSION
from mcm_compiler.checking.comparison.equality import NOT_ON_RANDOM_INPUTS
from mcm_compiler.checking.entry.gate import MALFORMED, OpenedFolder
from mcm_compiler.contracts.chips import ORIGIN_PROPERTY
from mcm_compiler.contracts.program import SimulationResult
from mcm_compiler.contracts.target import ChipModel, Target
from mcm_compiler.contracts.verification import StructureProof, Verification
from mcm_compiler.diagnostics import CompileError, Diagnostic, quote
from mcm_compiler.execution.runner import SESSION_OPTIONS
from mcm_compiler.graph.dimension_formulas import formula_of
from mcm_compiler.report.cost_section import COST_SECTION, STORAGE_SECTION
from mcm_compiler.report.derived_report import Sources, derive_report, stated_of
from mcm_compiler.report.hardware.energy_section import ENERGY_SECTION
from mcm_compiler.report.host_section import HOST_SECTION
from mcm_compiler.report.markdown import render_markdown
from mcm_compiler.report.report_data import structure_data
from mcm_compiler.report.verdict import assumed_trips, claims, words
from mcm_compiler.report.versions import versions
from mcm_compiler.text import json_text
from mcm_compiler.text.json_text import leaf_differences, shown
from mcm_compiler.text.units import count_text

LISTED = 5
"""Number of differing figures that are listed."""

MAX_INFERENCES = 1_000_000
"""More than any simulator plays."""

_PARTLY = {"model", COST_SECTION}
"""Records of which some fields need the models."""

_IN_MODELS = {"chips", "bottleneck", HOST_SECTION, ENERGY_SECTION, STORAGE_SECTION}
"""Fields that need the chips' models."""


def check_figures(
    opened: OpenedFolder,
    verification: Verification | None,
    structure: StructureProof | None = None,
    tried: Collection[int] = (),
) -> str:
    """Derives every figure of `report.json` again, and renders `report.md` from it.

    Args:
        opened: the folder; hashes, structure and program hold.
        verification: what a comparison found just now, or None where there was none.
        structure: what was proven without a run just now, or None where nothing was.
        tried: seeds of random inputs that the comparison has tried; some may be refused by the
            model.

    Returns:
        A summary.

    Raises:
        CompileError: MCM-V073 for figures that differ, MCM-V074 where `report.md` or the spelling
            of `report.json` is not that of the compiler.
    """
    report = opened.report
    with _well_formed():
        derived = _derived(opened, report, models=True)
        faults = [
            *_differences(report, derived),
            *_of_claims(opened, report),
            *sharded_faults(
                report["sharded_operators"], opened.source, opened.chips, opened.target
            ),
            *_of_sizes(report, opened.manifest),
            *_of_proof(report, structure),
            *_of_verification(report, verification, tried),
        ]
    if faults and _of_earlier_release(opened):
        differ = count_text(len(faults), "figure differs or is", "figures differ or are")
        faults = [f"an earlier release made the report, {differ} missing, first: {faults[0]}"]
    if faults:
        raise _wrong(faults)
    _check_texts(opened, report)
    return f"{count_text(_count(derived), 'reported figure')} recomputed, all match"


def check_stored_figures(opened: OpenedFolder) -> Diagnostic | None:
    """The same for whoever only wants to read a report: without models, proofs and runs.

    Returns:
        MCM-A023 where the report is of other versions, which may count otherwise, so that its
        figures were not derived again; None where they were.

    Raises:
        CompileError: as `check_figures`.
    """
    report = opened.report
    if report.get("versions") != versions() or _of_earlier_release(opened):
        return Diagnostic(
            "MCM-A023",
            "the report was made by other versions, so that only its hash was checked",
            at=str(opened.path / layout.REPORT),
        )
    with _well_formed():
        faults = [*_differences(report, _derived(opened, report, models=False))]
    if faults:
        raise _wrong(faults)
    _check_texts(opened, report)
    return None


def _of_earlier_release(opened: OpenedFolder) -> bool:
    """True if the folder says that a release made it which may count otherwise."""
    certificate = opened.certificate
    version_1 = certificate is not None and certificate.schema_version < SCHEMA_VERSION
    with _well_formed():
        claim: Mapping[str, Any] = opened.report.get(words.VERDICT, {}).get("optimality", {})
        # Verdicts without the kind have other sentences, too.
        worded = "model_kind" in claim
    return version_1 or not worded or not opened.manifest.counted.stated


def _derived(opened: OpenedFolder, report: Mapping[str, Any], *, models: bool) -> dict[str, Any]:
    """The report as it follows from the folder; without models, without `_IN_MODELS`."""
    manifest = opened.manifest
    if not manifest.counted.stated:
        # An older release has not recorded what its report states.
        manifest = manifest.with_stated(stated_of(report))
    sources = Sources(
        manifest=manifest,
        target=opened.target,
        certificate=opened.certificate,
        program=opened.program if layout.PROGRAM in manifest.files else None,
        simulation=_simulation(opened, report),
        graphs={chip.chip: chip.model.graph for chip in opened.chips} if models else None,
        source=opened.source if models else None,
        sharded=report["sharded_operators"],
        mapped=opened.mapped,
        assumed={} if models else report.get(assumed_trips.ASSUMED_SECTION, {}),
    )
    return {**derive_report(sources), words.VERDICT: claims.verdict_of(report)}


def _simulation(opened: OpenedFolder, report: Mapping[str, Any]) -> SimulationResult | None:
    if report["inferences"] is None:
        return None
    asked = report["options"]["inferences"]
    if not isinstance(asked, int) or isinstance(asked, bool) or not 1 <= asked <= MAX_INFERENCES:
        raise ValueError(f"options.inferences is {asked!r:.40}")
    return opened.simulated(asked)


def _differences(report: Mapping[str, Any], derived: Mapping[str, Any]) -> Iterator[str]:
    """Leaves of a report that do not follow; where no model was read, of those that need none."""
    stored = dict(report)
    if "chips" not in derived:
        stored = {name: value for name, value in report.items() if name not in _IN_MODELS}
        for name in _PARTLY & derived.keys():
            stored[name] = {key: report[name][key] for key in derived[name]}
    for fault in leaf_differences("", stored, derived):
        yield fault.removeprefix(".")


def _of_claims(opened: OpenedFolder, report: Mapping[str, Any]) -> Iterator[str]:
    """Options that contradict the certificate."""
    certificate = opened.certificate
    if certificate is None:
        return
    options, devices = report["options"], certificate.scope.devices
    asked = options["chips"] or opened.target.limits.num_chips
    yield from leaf_differences("options.pins", options["pins"], certificate.pins)
    if (figures := certificate.figures) is not None:
        goal = figures.objective
        said = {"objective": goal.kind, "max_latency_s": goal.max_latency_s,
                "throughput": goal.throughput_per_s}  # fmt: skip
        for name, value in said.items():
            yield from leaf_differences(f"options.{name}", options.get(name), value)
        if goal.kind == "chips":
            # The fewest of those that were allowed.
            asked = min(asked, devices)
    if asked != devices:
        yield f"options.chips is {options['chips']}, the folder gives {devices}"


def _of_sizes(report: Mapping[str, Any], manifest: Manifest) -> Iterator[str]:
    """Sizes that are said to have been given: the model has to have been compiled with them."""
    sizes = {size for entry in manifest.inputs for size in entry.shape or ()}
    if any(entry.shape is None for entry in manifest.inputs):
        # Of an input whose sizes stay open they are recorded as they were given.
        sizes.update(manifest.dims.values(), *manifest.shapes.values())
    dims: Mapping[str, int] = report["model"]["dims"]
    # Names of which others are made, as N is in 2*N, need be no size of an input.
    formulas = {name: formula for name in dims if (formula := formula_of(name)) is not None}
    parts = frozenset[str]().union(*(formula.names for formula in formulas.values()))
    for name, size in dims.items():
        held = size in sizes or name in parts
        if (formula := formulas.get(name)) is not None and formula.names <= dims.keys():
            held = held and formula.value(dims) == size
        if not held or manifest.dims.get(name, size) != size:
            yield f"model.dims[{quote(name)}] is {shown(size)}, no input has that size there"


def _of_proof(report: Mapping[str, Any], structure: StructureProof | None) -> Iterator[str]:
    """Differences between the stored proof by structure and the one done now."""
    stored = (report["verification"] or {}).get("structure")
    if stored is None or structure is None:
        return
    # Words may call a value by another name, and a compile proves against the model that it read.
    now = {**structure_data(structure), "model": None}
    said, now = (
        {**one, "unproven": [{**op, "what": None} for op in one["unproven"]]}
        for one in (stored, cast("Mapping[str, Any]", now))
    )
    yield from leaf_differences("verification.structure", said, now)


def _of_verification(
    report: Mapping[str, Any], verification: Verification | None, tried: Collection[int]
) -> Iterator[str]:
    """Differences between the stored comparison and the one done now."""
    stored = report["verification"]
    if stored is None or verification is None:
        return
    yield from _of_conditions(report["options"], stored)
    if stored["skipped"] is None and report["model"]["shape_only"]:
        yield "verification.skipped is None, and weights are placeholders"
    outputs = stored["outputs"]
    if stored["holds"] is not all(o["holds"] for o in [*outputs, *stored["expected"]]):
        yield f"verification.holds is {stored['holds']}, its outputs say otherwise"
    for index, output in enumerate(outputs):
        yield from _of_output(f"verification.outputs[{index}]", output)
    skipped = stored["skipped"], verification.skipped
    if skipped != (None, None):
        # With data of the user's, or random inputs of other seeds, one may run and the other not.
        options = report["options"]
        asked = range(options["seed"], options["seed"] + options["verify_seeds"])
        again = {*verification.seeds, *stored["seeds"]} & {*asked} & {*tried}
        why = skipped[0] or skipped[1] or ""
        other = why.startswith(NOT_ON_RANDOM_INPUTS) and not again
        data_sets = stored["data_sets"] or verification.data_sets
        if None in skipped and not other and not data_sets:
            yield f"verification.skipped is {skipped[0]}, now it is {skipped[1]}"
        return
    yield from _of_runs(stored, verification)


def _of_conditions(options: Mapping[str, Any], stored: Mapping[str, Any]) -> Iterator[str]:
    """On what, and how, both sides are said to have been run."""
    seed, count = options["seed"], options["verify_seeds"]
    seeds = set(stored["seeds"])
    if not seeds <= set(range(seed, seed + count)) or len(seeds) < len(stored["seeds"]):
        yield f"verification.seeds is {stored['seeds']}, asked for were {count} from {seed} on"
    yield from leaf_differences(
        "verification.session_options", stored["session_options"], SESSION_OPTIONS
    )
    if stored["stock_equal"] is not None:
        yield f"verification.stock_equal is {shown(stored['stock_equal'])}, no compile looks at it"
    if stored["outputs"] and not seeds and not stored["data_sets"]:
        yield "verification.outputs are compared on no input"


def _of_runs(stored: Mapping[str, Any], verification: Verification) -> Iterator[str]:
    """Differences between stored and repeated runs, as far as they are repeated."""
    outputs, seeds = stored["outputs"], set(stored["seeds"])
    now = {o.output: o for o in verification.outputs}
    if [o["output"] for o in outputs] != list(now):
        yield f"verification.outputs is not about {', '.join(map(quote, now)) or 'no output'}"
    # The same inputs give the same bits; other inputs may be rounded otherwise.
    again = seeds <= set(verification.seeds) and not stored["data_sets"]
    same = again and seeds == set(verification.seeds) and not verification.data_sets
    for index, output in enumerate(outputs):
        known = now.get(output["output"])
        if again and known is not None and known.bit_equal and not output["bit_equal"]:
            yield f"verification.outputs[{index}].bit_equal is false, the runs give true"
        if same and known is not None and not known.bit_equal and output["bit_equal"]:
            yield f"verification.outputs[{index}].bit_equal is true, the runs give false"
    if list(verification.random_outputs) != stored["random_outputs"]:
        yield f"verification.random_outputs is {stored['random_outputs']}"
    if stored.get("classes", 1) != verification.classes:
        yield f"verification.classes is {shown(stored.get('classes', 1))}"
    if stored.get("steps", 0) not in (0, verification.steps):
        yield f"verification.steps is {shown(stored['steps'])}, the runs take {verification.steps}"
    if same and not {w.output for w in verification.weak} <= {
        w["output"] for w in stored["weak_outputs"]
    }:
        yield "verification.weak_outputs leaves out outputs that show nothing"
    if not {*stored["constant_outputs"]} <= {*now, *stored["random_outputs"]}:
        yield f"verification.constant_outputs is {stored['constant_outputs']}"


def _of_output(place: str, output: Mapping[str, Any]) -> Iterator[str]:
    """Contradictions between the fields of one comparison."""
    error, tolerance, equal = output["max_abs_error"], output["tolerance"], output["bit_equal"]
    if equal and (error, tolerance) != (0, 0):
        yield f"{place} is bit-identical, with an error of {error} of {tolerance}"
    within = equal or (error is not None and error <= tolerance)
    if output["holds"] is not within:
        yield f"{place}.holds is {output['holds']}, its error is {error} of {tolerance}"
    if not equal and error is not None and error < 0:
        yield f"{place}.max_abs_error is {error}"


def _check_texts(opened: OpenedFolder, report: dict[str, Any]) -> None:
    """Return whether both files of the report are spelled as the compiler spells this report."""
    with _well_formed("malformed"):
        written = {
            layout.REPORT: json_text.encoded(report),
            layout.REPORT_TEXT: render_markdown(report).encode("utf-8", "backslashreplace"),
        }
    for name, content in written.items():
        path = opened.path / name
        if name not in opened.manifest.files or path.read_bytes() != content:
            raise CompileError.of(
                "MCM-V074",
                f"{name} is not the text that belongs to the figures of {layout.REPORT}",
                at=str(path),
            )


@contextmanager
def _well_formed(how: str = "missing or malformed") -> Generator[None]:
    """Code that reads fields of the report as if they were what the schema says."""
    try:
        yield
    except MALFORMED as error:
        raise _wrong([f"a field is {how}: {type(error).__name__} {error}"]) from None


def _wrong(faults: Sequence[str]) -> CompileError:
    further = len(faults) - LISTED
    return CompileError(
        [
            Diagnostic(
                "MCM-V073",
                f"a figure of {layout.REPORT} is not what the folder gives: {fault}"
                + (f"; and {further} more" if further > 0 and i == LISTED - 1 else ""),
                at=layout.REPORT,
            )
            for i, fault in enumerate(faults[:LISTED])
        ]
    )


def _count(data: Any) -> int:
    if isinstance(data, Mapping):
        return sum(map(_count, cast("Mapping[str, Any]", data).values()))
    if isinstance(data, (list, tuple)):
        return sum(map(_count, cast("Sequence[Any]", data)))
    return 1


def sharded_faults(
    rows: Sequence[Mapping[str, Any]] | None,
    source: ir.Model,
    chips: Sequence[ChipModel],
    target: Target,
) -> Iterator[str]:
    """Compares each row with the source's weight and with the ops that come from its op.

    Args:
        rows: `sharded_operators` of a report.
        source: the annotated source model.
        chips: the chips' models.
        target: the package, which says what weights take.
    """
    if not rows:
        return
    nodes = {node.name: node for node in source.graph}
    pieces: dict[str, set[str]] = {}
    run: dict[str, ir.Node] = {}
    for chip in chips:
        for node in chip.model.graph:
            if (origin := node.metadata_props.get(ORIGIN_PROPERTY)) is not None:
                pieces.setdefault(origin, set()).add(node.name or "")
                run[node.name or ""] = node
    storage_bytes = target.cost_model().storage_bytes
    for index, row in enumerate(rows):
        place = f"sharded_operators[{index}]"
        node = nodes.get(row["node"])
        if node is None and all(p in run for p in row["pieces"]):
            yield from _of_a_piece(place, row, [run[p] for p in row["pieces"]], nodes, target)
            continue
        if node is None:
            yield f"{place}.node is no op of the source model"
            continue
        weight = next((v for v in node.inputs if v is not None and v.name == row["weight"]), None)
        if weight is None:
            yield f"{place}.weight is not read by {row['node']}"
            continue
        if row["weight_bytes"] != storage_bytes(weight):
            given = storage_bytes(weight)
            yield f"{place}.weight_bytes is {row['weight_bytes']}, the folder gives {given}"
        if weight.shape is not None and not 0 <= row["axis"] < len(weight.shape):
            yield f"{place}.axis is {row['axis']}, the weight has {len(weight.shape)}"
        if strange := [p for p in row["pieces"] if p not in pieces.get(row["node"], set())]:
            yield f"{place}.pieces names {strange[0]}, which no chip runs for {row['node']}"
        if len(set(row["pieces"])) != len(row["pieces"]) or len(row["pieces"]) < 2:
            yield f"{place}.pieces has {len(row['pieces'])} entries"


def _of_a_piece(
    place: str,
    row: Mapping[str, Any],
    pieces: Sequence[ir.Node],
    nodes: Mapping[str | None, ir.Node],
    target: Target,
) -> Iterator[str]:
    """A piece that was divided again: its pieces come from one op, and hold all of its weight."""
    (origin, *more) = {node.metadata_props.get(ORIGIN_PROPERTY, "") for node in pieces} or {""}
    if more or origin not in nodes or not row["node"].startswith(f"{origin}/"):
        yield f"{place}.node is no op of the source model, nor a piece of one"
        return
    storage_bytes = target.cost_model().storage_bytes
    own = [v for node in pieces for v in node.inputs if v is not None]
    given = sum(storage_bytes(v) for v in own if (v.name or "").startswith(f"{row['weight']}/"))
    if row["weight_bytes"] != given:
        yield f"{place}.weight_bytes is {row['weight_bytes']}, the pieces have {given}"
