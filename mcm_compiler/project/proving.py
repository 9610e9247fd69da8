"""Entries of a cache that this installation did not sign: proven again, or not used.

An entry of another machine, or one that was changed, is a claim. `mcmc check` proves the files
of an output folder against the model itself. What it cannot prove is compared with what the cell
asks for: the target, the options and the passes. Where that is not enough, the cell is compiled.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mcm_compiler.artifact import layout
from mcm_compiler.diagnostics import CompileError, Diagnostic, quote
from mcm_compiler.processes.staging import staging
from mcm_compiler.project.cache import BuildCache, CacheEntry
from mcm_compiler.project.records import Cell

if TYPE_CHECKING:
    from mcm_compiler.checking.check import CheckReport
    from mcm_compiler.options import CompileOptions

SHOWN_BY_A_CHECK = frozenset(
    {
        "level", "partitioner", "mapper", "mapping_model", "seed", "samples", "budget_s",
        "routing", "replicas", "round", "chips", "inferences", "verify_seeds", "test_data",
    }
)  # fmt: skip
"""Options that say how long to search, or whose effect a check and the comparison below prove.

Others are constraints that a folder may break while all that it says of itself is true.
"""


PROVEN_CODE = "MCM-B025"


class UnprovenError(Exception):
    """An entry is not proven to be the result of its cell; the text says why."""


@dataclass(frozen=True)
class Proven:
    """An entry that holds, in its place.

    Attributes:
        report: as stored, every figure derived again.
        check: that proved it.
    """

    report: dict[str, Any]
    check: CheckReport


def obstacle(cell: Cell) -> str | None:
    """Why no check can prove an entry of a cell; None where one may."""
    unshown = sorted(cell.options.keys() - SHOWN_BY_A_CHECK)
    if unshown:
        return f"a check does not prove the option {quote(unshown[0])}"
    if cell.inputs is not None:
        return "sizes and trip counts may come from sample inputs"
    model = Path(cell.model)
    if cell.options.get("test_data", True) and any(model.parent.glob("test_data_set_*")):
        return "the model has test data"
    return None


def prove(
    cell: Cell,
    options: CompileOptions,
    entry: CacheEntry,
    cache: BuildCache,
    folder: Path,
    check: Callable[[Path], CheckReport],
) -> Proven:
    """Proves an entry in a folder aside, and makes it the output folder of its cell.

    Args:
        cell: the entry is of.
        options: of its compile.
        entry: of the cache.
        cache: that has it.
        folder: the output folder; it stays as it is where the proof fails.
        check: checks an output folder against the model of the cell.

    Raises:
        UnprovenError: if the entry is not proven; the cell is to be compiled.
        TamperedError: if its files are not those that it lists.
        CompileError: MCM-A002 and MCM-A003 as `staging`.
    """
    from mcm_compiler.checking.entry.gate import open_folder, read_report

    with staging(folder, force=True) as stage:
        cache.copy(entry, stage.path)
        try:
            found = check(stage.path)
            if not found.holds:
                raise UnprovenError(found.diagnostics[0].message)
            if not found.complete:
                raise UnprovenError("a step of its check was skipped")
            manifest = open_folder(stage.path).manifest
            report = read_report(stage.path / layout.REPORT)
            _refuse_foreign(cell, options, manifest, report)
        except CompileError as error:
            raise UnprovenError(error.diagnostics[0].message) from error
    return Proven(report, found)


def _refuse_foreign(
    cell: Cell, options: CompileOptions, manifest: Any, report: dict[str, Any]
) -> None:
    """Stops where a folder that proves itself is not that of the cell.

    Raises:
        UnprovenError: names what differs.
    """
    from mcm_compiler.components.target_loading import described, load_target
    from mcm_compiler.pipeline.passes import parse_pipeline, print_pipeline
    from mcm_compiler.report.report_data import options_facts
    from mcm_compiler.report.versions import versions

    target = described(load_target(cell.target), options)
    asked = json.loads(json.dumps(options_facts(options, options.shapes)))
    compared: Sequence[tuple[str, object, object]] = (
        ("target", hashlib.sha256(target.source_text.encode()).hexdigest(), manifest.target_sha256),
        ("target", target.name, manifest.target),
        ("options", asked, report.get("options")),
        ("sources of options", options.sources, report.get("option_sources") or {}),
        ("passes", print_pipeline(parse_pipeline(options.passes)), manifest.pipeline),
        ("routing", options.routing, manifest.routing),
        ("seed", options.seed, manifest.seed),
        ("dimensions", options.dims, manifest.dims),
        ("shapes", options.shapes, manifest.shapes),
        ("trip counts", options.trip_counts, manifest.counted.trip_counts),
        ("replicas", options.replicas or manifest.replicas, manifest.replicas),
        ("round", options.round or manifest.round, manifest.round),
        ("versions", versions(), report.get("versions")),
    )
    for name, ours, theirs in compared:
        if ours != theirs:
            raise UnprovenError(f"it is the result of another cell: the {name} differ")
    if report.get("throughput_per_s") is None or layout.CERTIFICATE not in manifest.files:
        raise UnprovenError("it has no throughput, or no certificate of its bound")


def proven_note(cell: Cell) -> Diagnostic:
    """MCM-B025 for an entry that another installation made."""
    return Diagnostic(
        PROVEN_CODE,
        "the entry of the cache is not signed by this installation, and was proven again",
        at=cell.title,
    )
