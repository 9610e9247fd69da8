"""Pipelines of passes as text: `simplify,fuse{max_group=8},partition`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, get_args

from mcm_compiler.components.capabilities import Capability
from mcm_compiler.graph.annotations import AnnotationKey
from mcm_compiler.pipeline.passes import Pass, pass_failed
from mcm_compiler.processes.foreign_code import fault_text, is_no_fault
from mcm_compiler.registry import PASSES
from mcm_compiler.text import spec_text


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
    return step


def _fault_of(step: Pass) -> str | None:
    """What a pass says of itself and cannot mean; a plug-in's may say anything."""
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
