"""The targets of an exploration: equal ones once, and why others cannot be."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mcm_compiler.components.asked_target import described
from mcm_compiler.contracts.target import Target
from mcm_compiler.diagnostics import CompileError, Diagnostic
from mcm_compiler.exploration.sweeps import Settings, Sweep, settings_of
from mcm_compiler.options import CompileOptions
from mcm_compiler.variants.changed_targets import changed_target

UNKNOWN_KEY = "MCM-T002"


@dataclass(frozen=True)
class Variant:
    """One combination.

    Attributes:
        settings: what it sets.
        target: None where there is none, and where an earlier one is the same.
        same_as: position of an earlier combination with the same content.
        faults: why there is no target.
    """

    settings: Settings
    target: Target | None = None
    same_as: int | None = None
    faults: tuple[Diagnostic, ...] = ()


def variants_of(target: Target, sweeps: Sequence[Sweep], options: CompileOptions) -> list[Variant]:
    """All combinations of the sweeps.

    Args:
        target: as it was loaded.
        sweeps: each of another key.
        options: of the compiles.

    Raises:
        CompileError: MCM-U061 for sweeps that cannot be, MCM-U062 for a key that the target does
            not have, and where no combination is a valid target.
    """
    combinations = settings_of(sweeps)
    _check_keys(target, sweeps)
    found: list[Variant] = []
    first: dict[str, int] = {}
    for at, settings in enumerate(combinations):
        try:
            changed = changed_target(target, settings)
            described(changed.target, options)
        except CompileError as error:
            found.append(Variant(settings, faults=error.diagnostics))
            continue
        before = first.setdefault(changed.text, at)
        if before != at:
            found.append(Variant(settings, same_as=before))
        else:
            found.append(Variant(settings, changed.target))
    if not first:
        why = found[0].faults[0]
        raise CompileError(
            Diagnostic(
                "MCM-U062",
                f"none of {len(found):,} combinations is a valid target; of the first: "
                f"{why.message}",
                at=why.at or "--sweep",
                hint=why.hint or f"`mcmc explain {why.code}` tells more",
            )
        )
    return found


def _check_keys(target: Target, sweeps: Sequence[Sweep]) -> None:
    unknown: list[Diagnostic] = []
    for sweep in sweeps:
        try:
            changed_target(target, {sweep.key: sweep.values[0]})
        except CompileError as error:
            unknown += [
                Diagnostic(
                    "MCM-U062",
                    f"the key cannot be swept: {one.message}",
                    at=f"--sweep {sweep.key}",
                    hint=one.hint or f"`mcmc targets show {target.name}` lists the keys",
                )
                for one in error.diagnostics
                if one.code == UNKNOWN_KEY
            ]
    if unknown:
        raise CompileError(unknown)
