"""The contract of passes, and the manager that runs a pipeline of them.

A pass is a frozen dataclass whose fields are its options. It changes the model in place,
declares the facts that it needs and gives, and reports to its context. The manager checks the
declared facts of a whole pipeline before anything runs, and the invariants of the graph after
every pass, so that a pass which breaks one is named.
"""

from __future__ import annotations

import gc
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import onnx_ir as ir

from mcm_compiler import spec_text
from mcm_compiler.diagnostics import CompileError, Diagnostic, Severity
from mcm_compiler.ir.annotations import AnnotationKey
from mcm_compiler.ir.invariants import check_invariants
from mcm_compiler.ir.source import SOURCE
from mcm_compiler.last_words import doing
from mcm_compiler.options import CompileOptions
from mcm_compiler.randomness import seeded_generator
from mcm_compiler.registry import PASSES
from mcm_compiler.staging import StagingFolder
from mcm_compiler.target import Target

AnyKey = AnnotationKey[Any]


@dataclass
class PassContext:
    """What a pass may know and use besides the model.

    Attributes:
        target: the package that the model is compiled for.
        options: the user's options.
        staging: where files go that belong into the output folder.
        report: takes a warning or a note; errors are raised as `CompileError`.
        progress: takes a line for the user's eyes.
    """

    target: Target
    options: CompileOptions
    staging: StagingFolder
    report: Callable[[Diagnostic], None]
    progress: Callable[[str], None] = lambda _line: None

    def rng(self, purpose: str) -> np.random.Generator:
        """A generator for one purpose, the same for the same seed and purpose."""
        return seeded_generator(self.options.seed, purpose)


@dataclass(frozen=True)
class Pass(ABC):
    """One step of the pipeline.

    Subclasses are frozen dataclasses; their fields are options that the pipeline text can set.

    Attributes:
        name: as in the pipeline text.
        summary: one line for `mcmc passes`.
        requires: facts that must be there before.
        provides: facts that are there afterwards.
        invalidates: facts that no longer hold afterwards, and are dropped.
    """

    name: ClassVar[str]
    summary: ClassVar[str]
    requires: ClassVar[tuple[AnyKey, ...]] = ()
    provides: ClassVar[tuple[AnyKey, ...]] = ()
    invalidates: ClassVar[tuple[AnyKey, ...]] = ()

    @abstractmethod
    def run(self, model: ir.Model, context: PassContext) -> None:
        """Changes `model` in place.

        Raises:
            CompileError: when the compile cannot go on.
        """

    def __str__(self) -> str:
        return spec_text.print_one(self.name, self)


def parse_pipeline(text: str) -> tuple[Pass, ...]:
    """The passes of a pipeline text; `print_pipeline` is its inverse.

    Raises:
        CompileError: MCM-U001, MCM-U002, MCM-U003 for text, options and names, MCM-X003 and
            MCM-X006 for passes that cannot be imported or built.
    """
    return tuple(map(_build, spec_text.parse_list(text)))


def _build(spec: spec_text.Spec) -> Pass:
    cls = PASSES.get(spec.name)
    try:
        step = spec_text.instantiate(cls, spec)
    except CompileError:
        raise
    except Exception as error:
        raise _failed(spec.name, f"{type(error).__name__}: {error}") from error
    if not isinstance(step, Pass):
        raise _failed(spec.name, "it is no subclass of mcm_compiler.passes.Pass")
    return step


def print_pipeline(passes: Sequence[Pass]) -> str:
    """The text form of a pipeline."""
    return ",".join(map(str, passes))


@dataclass
class PassManager:
    """Runs passes in order.

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

        Returns:
            The names of the facts that are there at the end.

        Raises:
            CompileError: MCM-X002, one diagnostic per missing fact.
        """
        have = {key.name for key in available}
        faults: list[Diagnostic] = []
        for step in self.passes:
            for key in step.requires:
                if key.name not in have:
                    givers = _givers(key)
                    faults.append(
                        Diagnostic(
                            "MCM-X002",
                            f"pass '{step.name}' requires '{key.name}', which no earlier pass "
                            "provides",
                            at=f"'{print_pipeline(self.passes)}'",
                            hint=f"put {' or '.join(givers)} before it" if givers else None,
                        )
                    )
            have -= {key.name for key in step.invalidates}
            have |= {key.name for key in step.provides}
        if faults:
            raise CompileError(faults)
        return have

    def run(self, model: ir.Model, context: PassContext) -> None:
        """Checks the pipeline, then runs it on `model` in place.

        Raises:
            CompileError: from `check`, from a pass, or MCM-X005 naming a pass that broke an
                invariant or did not provide what it declares.
        """
        present = [k for k in _all_keys(self.passes) if k.present(model)]
        self.check(present)
        with _graph_out_of_collections():
            self._run_steps(model, context)

    def _run_steps(self, model: ir.Model, context: PassContext) -> None:
        for step in self.passes:
            context.progress(step.name)
            start = time.perf_counter()
            with doing(f"pass '{step.name}'"):
                _run_step(step, model, context)
            for key in step.invalidates:
                if key.name not in {k.name for k in step.provides}:
                    key.drop(model)
            self._check_result(step, model)
            self.timings.append((step.name, time.perf_counter() - start))
            if self.after is not None:
                self.after(step, model)

    def _check_result(self, step: Pass, model: ir.Model) -> None:
        broken = [f"did not provide '{k.name}'" for k in step.provides if not k.present(model)]
        broken += check_invariants(model)
        if broken:
            raise CompileError(
                [
                    Diagnostic(
                        "MCM-X005",
                        f"pass '{step.name}' broke an invariant: {fault}",
                        hint="this is a fault of the pass, not of the model",
                        severity=Severity.ERROR,
                    )
                    for fault in broken[:5]
                ]
            )


@contextmanager
def _graph_out_of_collections() -> Generator[None]:
    """Keeps Python's cyclic collector from walking through the imported graph again and again.

    A graph of 100,000 ops is millions of objects that all live on, and looking at them at every
    full collection took two thirds of the time of passes that build as many. What passes make is
    collected as ever.
    """
    if gc.get_freeze_count():
        # Somebody else's; there would be no telling theirs from ours afterwards.
        yield
        return
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


def _run_step(step: Pass, model: ir.Model, context: PassContext) -> None:
    try:
        step.run(model, context)
    except (CompileError, OSError):
        raise  # diagnosed already, or a full disk, which staging knows how to explain
    except Exception as error:
        raise _failed(step.name, f"{type(error).__name__}: {error}") from error


def _failed(name: str, reason: str) -> CompileError:
    return CompileError(
        Diagnostic(
            "MCM-X006",
            f"pass '{name}' failed: {reason}",
            at=f"pass '{name}'",
            hint="this is a fault of the pass; please report it with the model",
        )
    )


def _givers(key: AnyKey) -> list[str]:
    """Names of the registered passes that provide `key`; one that does not load gives nothing."""
    names: list[str] = []
    for registration in PASSES.registrations():
        try:
            provides: Sequence[AnyKey] = registration.load().provides
        except (ImportError, AttributeError):
            continue
        if any(k.name == key.name for k in provides):
            names.append(registration.name)
    return names


def _all_keys(passes: Sequence[Pass]) -> list[AnyKey]:
    keys: dict[str, AnyKey] = {SOURCE.name: SOURCE}
    for step in passes:
        for key in (*step.requires, *step.provides):
            keys[key.name] = key
    return list(keys.values())
