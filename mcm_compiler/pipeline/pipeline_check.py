"""Does every pass of a pipeline find the facts that it requires, and a target that can serve it?

Known before anything runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mcm_compiler.components.capabilities import Capability, lacking, missing_of
from mcm_compiler.contracts.target import Target
from mcm_compiler.diagnostics import CompileError, Diagnostic
from mcm_compiler.graph.annotations import AnnotationKey, falling_with
from mcm_compiler.pipeline.passes import Pass
from mcm_compiler.registry import PASSES


def check_pipeline(passes: Sequence[Pass], available: Sequence[AnnotationKey[Any]]) -> set[str]:
    """Checks that every pass finds what it requires.

    A fact that an earlier pass provides counts as there even where it falls in between, since
    that pass can run again. Missing are facts that nothing provides, those that a pass declares
    to drop, and those that the model came with and that fall with a fact which a pass sets again.

    Args:
        passes: the pipeline.
        available: facts that are there before it.

    Returns:
        The names of the facts that are there at the end, or can be made again there.

    Raises:
        CompileError: MCM-X002, one diagnostic per missing fact.
    """
    have = {key.name for key in available}
    given: set[str] = set()
    reason: dict[str, str] = {}
    faults: list[Diagnostic] = []
    for step in passes:
        for key in step.requires:
            if key.name not in have:
                why = reason.get(key.name, "no earlier pass provides")
                givers = providers(key)
                faults.append(
                    Diagnostic(
                        "MCM-X002",
                        f"pass '{step.name}' requires '{key.name}', which {why}",
                        at=f"'{','.join(map(str, passes))}'",
                        hint=f"put {' or '.join(givers)} before it" if givers else None,
                    )
                )
        provided = {key.name for key in step.provides}
        dropped = {key.name for key in step.invalidates} - provided
        reason |= dict.fromkeys(dropped, f"pass '{step.name}' drops")
        kept = provided | {key.name for key in step.preserves}
        for name in falling_with(sorted(provided), kept):
            if name in have and name not in given:
                dropped.add(name)
                reason[name] = f"becomes invalid where pass '{step.name}' replaces its source"
        have = (have - dropped) | provided
        given = (given - dropped) | provided
    CompileError.raise_any(faults)
    return have


def providers(key: AnnotationKey[Any]) -> list[str]:
    """Names of the registered passes that provide `key`; one that does not load gives nothing."""
    names: list[str] = []
    for registration in PASSES.registrations():
        try:
            provides: Sequence[AnnotationKey[Any]] = registration.load().provides
        except (ImportError, AttributeError):
            continue
        if any(k.name == key.name for k in provides):
            names.append(registration.name)
    return names


def check_target(passes: Sequence[Pass], target: Target) -> None:
    """Checks that a target can do what the passes of a pipeline need, before one runs.

    Raises:
        CompileError: MCM-T020 to MCM-T022 for each thing that it cannot do; the hint has the
            pipeline without the passes that need it, and without those that need their facts.
    """
    missing = missing_of(target)
    faults: list[Diagnostic] = []
    for capability in missing:
        needing = [f"pass '{step.name}'" for step in passes if capability in step.needs_target]
        if needing:
            rest = ",".join(map(str, _without(passes, missing)))
            instead = f"--passes '{rest}' does without" if rest else ""
            needed_by = " and ".join(needing)
            faults.append(lacking(target, capability, needed_by=needed_by, instead=instead))
    CompileError.raise_any(faults)


def _without(passes: Sequence[Pass], missing: Sequence[Capability]) -> list[Pass]:
    kept: list[Pass] = []
    lost: set[str] = set()
    for step in passes:
        if set(step.needs_target) & set(missing) or {key.name for key in step.requires} & lost:
            lost |= {key.name for key in step.provides}
        else:
            kept.append(step)
    return kept
