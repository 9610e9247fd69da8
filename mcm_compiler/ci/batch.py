"""Compiling many models, in this process or in several, with results in the order of the list.

Of the sizes that one command line gives to many models, each takes those of dimensions that it has.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mcm_compiler.contracts import zoo
from mcm_compiler.contracts.zoo import build_zoo_model
from mcm_compiler.diagnostics import CompileError, Diagnostic, Severity
from mcm_compiler.options import CompileOptions
from mcm_compiler.processes.crash_journal import CrashJournal
from mcm_compiler.processes.foreign_code import diagnosed
from mcm_compiler.processes.garbage import reclaim
from mcm_compiler.results.op_times import OpTime, program_op_times
from mcm_compiler.results.strictness import UNPROVEN_CODE, UNPROVEN_EXIT, refused_states

if TYPE_CHECKING:
    from mcm_compiler.api import CompileResult
    from mcm_compiler.ci.baseline import Baseline
    from mcm_compiler.ci.comparison import Comparison


Symbols = Mapping[str, frozenset[str]]
"""Names of symbolic dimensions, and those that these are made of, by the name of the input."""


def options_of_each(models: Sequence[str], options: CompileOptions) -> tuple[CompileOptions, ...]:
    """The options of a batch for each of its models: without sizes that it has no use for.

    A model that cannot be read keeps all of them; its compile reports the fault.

    Args:
        models: paths, or `zoo:NAME`.
        options: as given for all of them.

    Raises:
        CompileError: MCM-U005 for a dimension or an input that none of the models has. It is left
            to the compiles where a model cannot be read, because it may be that one's.
    """
    if not options.dims and not options.shapes:
        return (options,) * len(models)
    from mcm_compiler.graph.dimensions import check_known

    symbols = [input_symbols(model) for model in models]
    known = [found for found in symbols if found is not None]
    if len(known) == len(symbols):
        dims, inputs = [_names(found) for found in known], [frozenset(found) for found in known]
        CompileError.raise_any(
            [
                *check_known(options.dims, dims, "dimension", "--dim"),
                *check_known(options.shapes, inputs, "input", "--shape"),
            ]
        )
    return tuple(options if found is None else _restricted(options, found) for found in symbols)


def _names(symbols: Symbols) -> frozenset[str]:
    return frozenset().union(*symbols.values())


def _restricted(options: CompileOptions, symbols: Symbols) -> CompileOptions:
    names = _names(symbols)
    return replace(
        options,
        dims={name: size for name, size in options.dims.items() if name in names},
        shapes={name: shape for name, shape in options.shapes.items() if name in symbols},
    )


def input_symbols(model: str) -> Symbols | None:
    """Names that give the open dimensions of each input a size; None if it cannot be read."""
    try:
        found = None if model.startswith(zoo.PREFIX) else Path(model).stat()
        return _symbols(model, None if found is None else (found.st_mtime_ns, found.st_size))
    except (OSError, CompileError):
        return None  # the compile reports why


@functools.lru_cache(maxsize=4)
def _symbols(model: str, _stamp: tuple[int, int] | None) -> Symbols:
    """The same, kept for the targets of a model, which need it one after the other."""
    from mcm_compiler.graph.dimension_formulas import names_in
    from mcm_compiler.graph.dimensions import free_inputs, sizes_of
    from mcm_compiler.ir.reading.importer import parse_file

    if model.startswith(zoo.PREFIX):
        inputs = free_inputs(build_zoo_model(model.removeprefix(zoo.PREFIX)))
        sizes = {value.name or "": sizes_of(value) or () for value in inputs}
    else:
        graph = parse_file(Path(model)).graph
        weights = {tensor.name for tensor in graph.initializer}
        sizes = {
            value.name: [
                dim.dim_value if dim.HasField("dim_value") else dim.dim_param
                for dim in value.type.tensor_type.shape.dim
            ]
            for value in graph.input
            if value.name not in weights
        }
    return {
        name: frozenset(n for size in shape if isinstance(size, str) for n in names_in(size))
        for name, shape in sizes.items()
    }


@dataclass(frozen=True)
class Job:
    """One model to compile.

    Attributes:
        model: a path, or `zoo:NAME`.
        folder: the folder to write.
        options: its own, or None for those that all models have in common.
        baseline: to compare it with, or None.
    """

    model: str
    folder: Path
    options: CompileOptions | None = None
    baseline: Baseline | None = None

    def __str__(self) -> str:
        return self.model


@dataclass(frozen=True)
class Settings:
    """Settings that all models of a batch share.

    Attributes:
        target: a name, or a path of a description.
        options: of the compiles.
        force: replace output folders.
        strict: whether what is not proven fails a model.
        html: whether a page is written next to each folder.
        sensitivities: whether changes of the target are compiled, too.
    """

    target: str
    options: CompileOptions
    force: bool
    strict: bool = False
    html: bool = False
    sensitivities: bool = False


@dataclass(frozen=True)
class CompileOutcome:
    """Outcome of one model.

    Attributes:
        model: as in the job.
        folder: as in the job.
        report: as in `report.json`, or None where the compile failed.
        op_times: of every kernel, or None where nothing was lowered.
        comparison: with the baseline, or None.
        diagnostics: all of them.
        seconds: that the compile took.
    """

    model: str
    folder: Path
    report: Mapping[str, Any] | None
    op_times: tuple[OpTime, ...] | None
    comparison: Comparison | None
    diagnostics: tuple[Diagnostic, ...]
    seconds: float

    @property
    def error_codes(self) -> list[str]:
        """Codes of all errors."""
        return [d.code for d in self.diagnostics if d.severity is Severity.ERROR]

    @property
    def failed(self) -> bool:
        """True if there is an error among the diagnostics."""
        return bool(self.error_codes)


def exit_code(outcomes: Iterable[CompileOutcome]) -> int:
    """0 if nothing failed, 3 if all that is wrong is not being proven, else 1."""
    codes = {code for outcome in outcomes for code in outcome.error_codes}
    return UNPROVEN_EXIT if codes == {UNPROVEN_CODE} else int(bool(codes))


def compile_one(settings: Settings, job: Job) -> CompileOutcome:
    """Compiles one model into its folder; every failure becomes diagnostics."""
    from mcm_compiler.api import compile_model
    from mcm_compiler.page.folder_page import write_page_beside

    start = time.perf_counter()
    try:
        result = compile_model(
            job.model,
            settings.target,
            job.options or settings.options,
            output=job.folder,
            force=settings.force,
            sensitivities=settings.sensitivities,
        )
        outcome = success(job, result, start, settings.strict)
        outcome = with_baseline(outcome, job.baseline)
        del result
        if settings.html:
            write_page_beside(job.folder)
    except Exception as error:
        outcome = failure(job, error, start)
    reclaim()  # the next model may need the memory
    return outcome


def success(job: Job, result: CompileResult, start: float, strict: bool = False) -> CompileOutcome:
    """The outcome of a compile that began at `start` on the performance counter.

    Args:
        job: what was compiled.
        result: of it.
        start: when.
        strict: whether what is not proven, and a lost state, is an error.
    """
    times = program_op_times(result.program) if result.program is not None else None
    seconds = time.perf_counter() - start
    diagnostics = result.diagnostics
    if strict:
        diagnostics = (*refused_states(diagnostics), *result.unproven)
    return CompileOutcome(job.model, job.folder, result.report, times, None, diagnostics, seconds)


def failure(job: Job, error: Exception, start: float) -> CompileOutcome:
    """The outcome of a compile that began at `start` and failed."""
    seconds = time.perf_counter() - start
    return CompileOutcome(job.model, job.folder, None, None, None, diagnosed(error), seconds)


def lost(job: Job, exit_code: int | None, journal: CrashJournal) -> CompileOutcome:
    """The outcome of a model whose process died under it."""
    diagnostic = lost_process("compiled the model", job.model, exit_code, journal)
    return CompileOutcome(job.model, job.folder, None, None, None, (diagnostic,), 0.0)


def lost_process(work: str, name: str, exit_code: int | None, journal: CrashJournal) -> Diagnostic:
    """MCM-U037 for a process that died.

    Args:
        work: what it did, such as "compiled the model".
        name: of what it worked on.
        exit_code: negative for a signal, or None.
        journal: its last record.
    """
    how = "died" if exit_code is None else f"ended with {_exit_text(exit_code)}"
    return Diagnostic(
        "MCM-U037", f"the process that {work} {how}", at=", ".join(journal.steps) or name
    )


def with_baseline(outcome: CompileOutcome, before: Baseline | None) -> CompileOutcome:
    """`outcome` with a comparison and its explanation; a failed one stays as it is."""
    if before is None or outcome.report is None:
        return outcome
    if not all(code == UNPROVEN_CODE for code in outcome.error_codes):
        return outcome
    comparison, notes = before.compared(outcome.model, outcome.report, outcome.op_times)
    return replace(outcome, comparison=comparison, diagnostics=(*outcome.diagnostics, *notes))


def _exit_text(exit_code: int) -> str:
    return f"signal {-exit_code}" if exit_code < 0 else f"exit code {exit_code}"
