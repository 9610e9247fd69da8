"""The contract of passes.

A pass is a frozen dataclass whose fields are its options. It changes the model in place,
declares the facts that it needs and gives, and reports to its context.
`mcm_compiler.pipeline.pass_manager` runs pipelines of them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, get_args

import numpy as np
import onnx_ir as ir

from mcm_compiler.arrays.randomness import seeded_generator
from mcm_compiler.components.capabilities import Capability
from mcm_compiler.contracts.replication import Division, Placement
from mcm_compiler.contracts.target import Target
from mcm_compiler.diagnostics import CompileError, Diagnostic, quote
from mcm_compiler.diagnostics.deprecations import removed_with
from mcm_compiler.diagnostics.refusals import notice
from mcm_compiler.graph.annotations import AnnotationKey
from mcm_compiler.options import CompileOptions
from mcm_compiler.processes.foreign_code import fault_text, is_no_fault
from mcm_compiler.processes.staging import StagingFolder
from mcm_compiler.registry import PASSES
from mcm_compiler.text import spec_text

AnyKey = AnnotationKey[Any]


@dataclass
class PassContext:
    """Services of a compile that a pass may use besides the model.

    Attributes:
        target: the package that the model is compiled for. A pass may replace it by the same one
            with calibrated costs, for the passes behind it.
        options: the user's options.
        staging: where files go that belong into the output folder.
        report: takes a warning or a note; errors are raised as `CompileError`.
        progress: takes a line for the user's eyes.
        known: placements of the model on other targets, from which searches start.
    """

    target: Target
    options: CompileOptions
    staging: StagingFolder
    report: Callable[[Diagnostic], None]
    progress: Callable[[str], None] = lambda _line: None
    known: tuple[Placement, ...] = ()

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
        uses: facts that it takes where the pipeline makes them, and can do without.
        provides: facts that are there afterwards.
        preserves: facts that are still true where it changes the graph, besides those that it
            provides. All others that were derived from the graph are dropped then.
        invalidates: facts that are dropped whatever happens. Deprecated: what was
            derived from a changed graph is dropped in any case.
        looks_at_target: whether what it does depends on the target. What stands before the first
            pass of a pipeline that looks at it is done once for many targets.
        needs_target: what the target has to be able to do besides telling its numbers; the manager
            asks before anything runs.
    """

    name: ClassVar[str]
    summary: ClassVar[str]
    requires: ClassVar[tuple[AnyKey, ...]] = ()
    uses: ClassVar[tuple[AnyKey, ...]] = ()
    provides: ClassVar[tuple[AnyKey, ...]] = ()
    preserves: ClassVar[tuple[AnyKey, ...]] = ()
    invalidates: ClassVar[tuple[AnyKey, ...]] = ()
    looks_at_target: ClassVar[bool] = True
    needs_target: ClassVar[tuple[Capability, ...]] = ()

    @abstractmethod
    def run(self, model: ir.Model, context: PassContext) -> bool | None:
        """Changes `model` in place.

        Returns:
            Whether the graph was changed, or None to let the manager find out, which compares
            all of it.

        Raises:
            CompileError: when the compile cannot go on.
        """

    def for_chips_of(self, _chips: int, _sram_bytes: int) -> Pass:
        """The pass as it divides and copies ops for other chips than those of the target.

        Args:
            _chips: at most as many; 0 for as many as it has.
            _sram_bytes: with at most this much SRAM; 0 for as much as they have.
        """
        return self

    def divided_as(self, _division: Division) -> Pass:
        """The pass as it divides ops without a search."""
        return self

    def state_choices(self, _model: ir.Model) -> None:  # noqa: B027 - most have none
        """Sets facts that follow from options alone, for `run` and for who checks its result."""

    def __str__(self) -> str:
        return spec_text.print_one(self.name, self)


def pass_failed(name: str, reason: str, asked: str | None = None) -> CompileError:
    """MCM-X006 for a pass that cannot be built, or that fails otherwise than by a diagnostic.

    Args:
        name: of the pass.
        reason: what was raised.
        asked: the component that the pass had asked when it was, with its origin; None for none.
    """
    by = "the pass" if asked is None else f"the pass, or of {asked}, which it had asked"
    return CompileError.of(
        "MCM-X006",
        f"pass '{name}' failed: {reason}",
        at=f"pass '{name}' of {PASSES.origin_of(name)}",
        hint=f"this is a fault of {by}; please report it with the model",
    )


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
    except BaseException as error:
        if is_no_fault(error):
            raise
        raise pass_failed(spec.name, fault_text(error)) from error
    if not isinstance(step, Pass):
        raise pass_failed(spec.name, "it is no subclass of mcm_compiler.pipeline.passes.Pass")
    if (fault := _fault_of(step)) is not None:
        raise pass_failed(spec.name, fault)
    if step.invalidates:
        message = f"invalidates of pass {quote(spec.name)} is {removed_with('invalidates')}"
        hint = "leave it out: facts are dropped with the graph that they were derived from"
        notice(Diagnostic("MCM-X015", message, at=type(step).__module__, hint=hint))
    return step


def _fault_of(step: Pass) -> str | None:
    """Fault in a pass's own declarations; a plug-in's may be anything."""
    for name in ("requires", "uses", "provides", "preserves", "invalidates"):
        keys: Any = getattr(step, name)
        if not isinstance(keys, tuple) or not all(isinstance(k, AnnotationKey) for k in keys):
            return f"{name} is {keys!r}, and has to be a tuple of AnnotationKey"
    needs: Any = step.needs_target
    able = get_args(Capability)
    if not isinstance(needs, tuple) or not all(need in able for need in needs):
        return f"needs_target is {needs!r}, and has to be a tuple of {', '.join(able)}"
    return None


def print_pipeline(passes: Sequence[Pass]) -> str:
    """The text form of a pipeline."""
    return ",".join(map(str, passes))
