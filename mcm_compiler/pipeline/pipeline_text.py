"""Pipelines of passes as text: `simplify,fuse{max_group=8},partition`."""

from __future__ import annotations

from collections.abc import Sequence

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
    return step


def print_pipeline(passes: Sequence[Pass]) -> str:
    """The text form of a pipeline."""
    return ",".join(map(str, passes))
