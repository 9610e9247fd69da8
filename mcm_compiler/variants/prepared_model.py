"""Part that all variants of a target share: the model behind the passes that see no target."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import onnx_ir as ir

from mcm_compiler.contracts.program import SIMULATION
from mcm_compiler.contracts.verification import EMITTED
from mcm_compiler.diagnostics import CompileError
from mcm_compiler.graph.annotations import known_keys
from mcm_compiler.pipeline.passes import Pass, parse_pipeline


@dataclass(frozen=True)
class SplitPipeline:
    """A pipeline, cut where the first pass looks at the target.

    Attributes:
        shared: passes that are the same for all targets.
        own: those from there up to the simulation; what writes and compares chips is left out.
    """

    shared: tuple[Pass, ...]
    own: tuple[Pass, ...]


def split_pipeline(passes: Sequence[Pass], text: str, asked: str) -> SplitPipeline:
    """Cuts a pipeline.

    Args:
        passes: all of them.
        text: as the user wrote them, for diagnostics.
        asked: what needs figures, such as `--sensitivities`.

    Raises:
        CompileError: MCM-U060 for a pipeline that simulates nothing, so that there are no figures.
    """
    own = _own(passes)
    if not any(SIMULATION in one.provides for one in own):
        raise CompileError.of(
            "MCM-U060",
            f"{asked} compares throughput, and the pipeline simulates nothing before it writes",
            at=f"'{text}'",
        )
    shared = itertools.takewhile(lambda one: not one.looks_at_target, passes)
    return SplitPipeline(tuple(shared), own)


def gives_figures(text: str) -> bool:
    """Return whether a pipeline text reaches a simulation before it writes anything.

    Raises:
        CompileError: as `parse_pipeline`.
    """
    return any(SIMULATION in one.provides for one in _own(parse_pipeline(text)))


def _own(passes: Sequence[Pass]) -> tuple[Pass, ...]:
    first = next((at for at, one in enumerate(passes) if one.looks_at_target), len(passes))
    emits = next((at for at, one in enumerate(passes) if EMITTED in one.provides), len(passes))
    return tuple(passes[first : max(first, emits)])


def kept_copy(model: ir.Model) -> ir.Model:
    """A copy of a model with its facts, which passes on the original leave alone.

    Weights are shared. Facts about nodes are kept for the nodes of the copy.
    """
    copied = model.clone()
    for key in known_keys():
        if key.on == "model" and key.present(model):
            key.set(copied, key.get(model))
    return copied


class Keeper:
    """Keeps the model as it is where the first pass looks at the target.

    Args:
        split: the pipeline.
        after_pass: called after each pass all the same.

    Attributes:
        passes: those from there on.
        model: the model, from when the pipeline has come so far.
    """

    model: ir.Model

    def __init__(
        self, split: SplitPipeline, after_pass: Callable[[Pass, ir.Model], None] | None
    ) -> None:
        self.passes = split.own
        self._left = len(split.shared)
        self._after = after_pass

    def begin(self, model: ir.Model) -> None:
        """Takes the model that was imported."""
        if not self._left:
            self.model = kept_copy(model)

    def after(self, step: Pass, model: ir.Model) -> None:
        """Called after each pass."""
        self._left -= 1
        if not self._left:
            self.model = kept_copy(model)
        if self._after is not None:
            self._after(step, model)
