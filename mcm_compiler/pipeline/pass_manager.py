"""The manager that runs a pipeline of passes.

It checks the declared facts of a whole pipeline before anything runs, and the invariants of the
graph after every pass, so that a pass which breaks one is named. It also finds out what each pass
changed: facts that no longer hold are dropped, and made again by the pass that made them once a
later one needs them.
"""

from __future__ import annotations

import contextlib
import gc
import os
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import onnx_ir as ir

from mcm_compiler.contracts.target import Target, machine_of
from mcm_compiler.diagnostics import CompileError, Diagnostic, Severity, quote
from mcm_compiler.graph.invariants import InvariantCheck
from mcm_compiler.graph.source import SOURCE
from mcm_compiler.pipeline.fact_ledger import FactLedger, Fall
from mcm_compiler.pipeline.passes import AnyKey, Pass, PassContext, pass_failed
from mcm_compiler.pipeline.pipeline_check import check_pipeline, check_target, providers
from mcm_compiler.processes import foreign_code
from mcm_compiler.processes.crash_journal import doing
from mcm_compiler.processes.garbage import give_back
from mcm_compiler.processes.staging import MANIFEST, StagingFolder
from mcm_compiler.registry import MAPPINGS, PASSES, TARGETS

MAX_RUNS_AGAIN = 32
"""Passes that run again before one pass; more only where passes undo each other's facts."""

COLLECT_AFTER = 100_000
"""Objects made since the last look at young ones; Python's own number, 700, suits small programs.

What passes make mostly lives on, so that a look finds little, and each takes time.
"""


class Stopwatch:
    """Wall time of stages, one after another."""

    def __init__(self) -> None:
        self.laps: list[tuple[str, float]] = []
        self._start = time.perf_counter()

    def lap(self, name: str) -> None:
        """Ends a stage."""
        now = time.perf_counter()
        self.laps.append((name, now - self._start))
        self._start = now


def silent(_line: str) -> None:
    """Takes progress that nobody wants to see."""


@dataclass
class PassManager:
    """Runs passes in order, and those again whose facts fell before a later pass needs them.

    Attributes:
        passes: the pipeline.
        after: called after each pass with the pass and the model (printing, tests).
        timings: `(pass name, seconds)` of what ran.
    """

    passes: Sequence[Pass]
    after: Callable[[Pass, ir.Model], None] | None = None
    timings: list[tuple[str, float]] = field(default_factory=list[tuple[str, float]])

    def check(self, available: Sequence[AnyKey] = (SOURCE,)) -> set[str]:
        """Checks that every pass finds what it requires; nothing runs.

        Facts that fall with a changed graph are made again where the pipeline can make them, so
        that only those count as missing that no earlier pass provides, or that one declares to
        drop.

        Returns:
            The names of the facts that the pipeline makes and that are not dropped permanently.

        Raises:
            CompileError: MCM-X002, one diagnostic per missing fact.
        """
        return check_pipeline(self.passes, available)

    def run(self, model: ir.Model, context: PassContext, wanted: Sequence[AnyKey] = ()) -> None:
        """Checks the pipeline, then runs it on `model` in place.

        Args:
            model: changed in place.
            context: see there.
            wanted: facts that shall hold of the model at the end, as far as the pipeline makes
                them.

        Raises:
            CompileError: from `check`, MCM-T020 to MCM-T022 for what the target cannot do. From a
                pass, MCM-X005 naming a pass that broke an invariant or did not provide what it
                declares, or MCM-X011 for a fact that fell and that no pass of the pipeline makes
                again.
        """
        present = [k for k in _all_keys(self.passes) if k.present(model)]
        self.check(present)
        check_target(self.passes, context.target)
        with _graph_out_of_collections() as put_out:
            _Run(self, model, context, put_out).run(wanted)


class _Run:
    """One run of a pipeline.

    Args:
        manager: of its passes.
        model: changed in place.
        context: of all passes.
        put_out: takes what a pass has made out of collections.
    """

    def __init__(
        self,
        manager: PassManager,
        model: ir.Model,
        context: PassContext,
        put_out: Callable[[], None],
    ) -> None:
        self._put_out = put_out
        self._manager = manager
        self._passes = manager.passes
        self._model = model
        self._reported: list[Diagnostic] = []
        self._given, self._context = context, replace(context, report=self._report)
        self._take = context.report
        self._ledger = FactLedger(model)
        self._invariants = InvariantCheck()
        self._again: list[tuple[str, str, Fall]] = []

    def run(self, wanted: Sequence[AnyKey]) -> None:
        for position, step in enumerate(self._passes):
            self._restore(position, step, frozenset())
            self._note(f"before '{step.name}'")
            self._step(step)
        self._make_again(wanted, len(self._passes), frozenset(), None)
        self._note("at the end")
        self._given.target = self._context.target

    def _report(self, found: Diagnostic) -> None:
        """Hands on what was found, once: a pass that runs again finds it again.

        Raises:
            TypeError: if it is no diagnostic.
            CompileError: with an error, after which nothing is written.
        """
        if not isinstance(found, Diagnostic):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"it reports a {type(found).__name__}, not a Diagnostic")
        if found.severity is Severity.ERROR:
            raise CompileError(found)
        if found not in self._reported:
            self._reported.append(found)
            self._take(found)

    def _step(self, step: Pass) -> None:
        self._context.progress(step.name)
        start = time.perf_counter()
        with doing(f"pass '{step.name}'"):
            modified = _run_step(step, self._model, self._context)
        self._ledger.settle(
            self._model,
            step.name,
            modified=modified,
            provides=_names(step.provides),
            preserves=_names(step.preserves),
            drops=_names(step.invalidates),
        )
        _check_result(step, self._model, self._context.staging, self._invariants)
        give_back()
        self._put_out()
        self._manager.timings.append((step.name, time.perf_counter() - start))
        if self._manager.after is not None:
            self._manager.after(step, self._model)

    def _restore(self, position: int, step: Pass, active: frozenset[int]) -> None:
        """Makes what `step` needs and what fell; `active` are passes that wait for theirs.

        Raises:
            CompileError: MCM-X011 for what no pass of the pipeline makes again.
        """
        for _ in range(2):  # making one fact may take another with it
            self._make_again((*step.requires, *step.uses), position, active, step)
        missing = [key for key in step.requires if not key.present(self._model)]
        if missing:
            raise CompileError([self._missing(key, step) for key in missing])

    def _make_again(
        self, keys: Sequence[AnyKey], position: int, active: frozenset[int], reader: Pass | None
    ) -> None:
        for key in keys:
            fall = self._ledger.fall_of(key)
            if fall is None or fall.source == key.name:
                continue
            maker = self._maker(key, position, active, reader)
            if maker is None or len(self._again) >= MAX_RUNS_AGAIN:
                continue
            step = self._passes[maker]
            for own in step.requires:
                if own in step.provides:
                    # What it amends it would amend twice.
                    self._ledger.drop(own, self._model, step.name)
            self._restore(position, step, active | {maker})
            self._again.append((step.name, key.name, fall))
            self._step(step)

    def _maker(
        self, key: AnyKey, position: int, active: frozenset[int], reader: Pass | None
    ) -> int | None:
        """The last pass before `position` that provides `key`.

        A pass does not run again for another one of its kind, which will provide the fact itself.
        """
        for at in range(position - 1, -1, -1):
            step = self._passes[at]
            if at not in active and type(step) is not type(reader) and key in step.provides:
                return at
        return None

    def _note(self, when: str) -> None:
        """Report which passes ran again since the last note, and why."""
        again, self._again = self._again, []
        if not again:
            return
        name, fact, fall = again[0]
        names = list(dict.fromkeys(f"'{name}'" for name, _, _ in again))
        told = " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))
        self._report(
            Diagnostic(
                "MCM-X010",
                f"{told} ran again {when}: {fall}, from which '{fact}' was derived",
                at=f"pass '{fall.culprit}'",
                hint=f"put '{fall.culprit}' before '{name}' to save the time",
            )
        )

    def _missing(self, key: AnyKey, step: Pass) -> Diagnostic:
        fall = self._ledger.fall_of(key)
        makers = [p.name for p in self._passes if key in p.provides] or providers(key)
        return Diagnostic(
            "MCM-X011",
            f"pass '{step.name}' requires '{key.name}', which no longer holds: "
            f"{fall or 'it was dropped'}",
            at=f"pass '{step.name}'",
            hint=f"put {' or '.join(makers)} between them" if makers else "provide it again",
        )


def _names(keys: Sequence[AnyKey]) -> tuple[str, ...]:
    return tuple(key.name for key in keys)


def _check_result(
    step: Pass, model: ir.Model, staging: StagingFolder, invariants: InvariantCheck
) -> None:
    broken = [f"did not provide '{k.name}'" for k in step.provides if not k.present(model)]
    broken += invariants.broken(model)
    broken += _misplaced(staging.path)
    if broken:
        raise CompileError(
            [
                Diagnostic(
                    "MCM-X005",
                    f"pass '{step.name}' broke an invariant: {fault}",
                    at=f"pass '{step.name}' of {PASSES.origin_of(step.name)}",
                )
                for fault in broken[:5]
            ]
        )


def _misplaced(folder: Path) -> list[str]:
    """Entries of a staging folder that an output folder cannot have, one sentence each."""
    if not folder.is_dir():
        return []
    wrong: list[str] = []
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name == MANIFEST:
                wrong.append(f"it wrote {MANIFEST}, which the compiler writes")
            elif not entry.is_file(follow_symlinks=False):
                wrong.append(f"it left {quote(entry.name)}, and an output folder holds files alone")
    return wrong


@contextmanager
def _graph_out_of_collections() -> Generator[Callable[[], None]]:
    """Keeps Python's cyclic collector from walking through the imported graph repeatedly.

    A graph of 100,000 ops is millions of objects that all live on, and looking at them at every
    full collection took two thirds of the time of passes that build as many. What passes make is
    collected, if less often than elsewhere.

    Yields:
        Takes all that lives by then out of collections, until the end of the block.
    """
    thresholds = gc.get_threshold()
    # Somebody else's freeze is left alone; there would be no telling theirs from ours afterwards.
    frozen = gc.get_freeze_count() > 0
    if not frozen:
        gc.freeze()
    if thresholds[0]:  # 0 is off
        gc.set_threshold(max(COLLECT_AFTER, thresholds[0]), *thresholds[1:])
    try:
        yield (lambda: None) if frozen else gc.freeze
    finally:
        gc.set_threshold(*thresholds)
        if not frozen:
            gc.unfreeze()


def _run_step(step: Pass, model: ir.Model, context: PassContext) -> bool | None:
    try:
        return step.run(model, context)
    except BaseException as error:
        # A full disk, say, staging knows how to explain; a file that a pass or a strategy looks
        # for in vain, or a server that does not answer, is nobody's but its own.
        if foreign_code.is_no_fault(error) or foreign_code.is_refused_by_the_system(error):
            raise
        if isinstance(error, OSError) and _is_below(error, context.staging.path):
            raise
        raise pass_failed(
            step.name, foreign_code.fault_text(error), _asked(context.target, error)
        ) from error


def _asked(target: Target, error: BaseException) -> str | None:
    """The target or the mapping of its family, where one of them let an error through."""
    if foreign_code.has_let_through(target, error):
        return f"target {quote(target.name)} of {TARGETS.origin_of(target.name)}"
    with contextlib.suppress(Exception):  # of a target that may tell nothing any more
        family = machine_of(target).family
        if family in MAPPINGS and foreign_code.has_let_through(MAPPINGS.get(family), error):
            return f"the mapping of the family {quote(family)} of {MAPPINGS.origin_of(family)}"
    return None


def _is_below(error: OSError, folder: Path) -> bool:
    """Return whether an error names its file, and that is in a folder."""
    name = error.filename
    # An open descriptor may stand there, too.
    return isinstance(name, str | bytes) and Path(os.fsdecode(name)).is_relative_to(folder)


def _all_keys(passes: Sequence[Pass]) -> list[AnyKey]:
    keys: dict[str, AnyKey] = {SOURCE.name: SOURCE}
    for step in passes:
        for key in (*step.requires, *step.provides):
            keys[key.name] = key
    return list(keys.values())
