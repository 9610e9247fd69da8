"""The target of a compile: the given one with the asked cost model, without forbidden chips."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from mcm_compiler.components.cost_choice import with_cost_model
from mcm_compiler.components.cost_files import user_files
from mcm_compiler.components.target_loading import with_described_costs
from mcm_compiler.contracts.target import ShrinkableTarget, Target
from mcm_compiler.diagnostics import CompileError, Diagnostic, quote
from mcm_compiler.options import CompileOptions


def described(target: Target, options: CompileOptions) -> Target:
    """The target as a compile takes it: with the cost model asked for, without forbidden chips.

    Raises:
        CompileError: as the cost model's and MCM-F020.
    """
    if options.cost_model is None:
        package = with_described_costs(target)
    else:
        package = with_cost_model(target, options.cost_model, user_files(Path()))
    return without_chips(package, options.forbidden_chips)


def without_chips(target: Target, places: Sequence[int]) -> Target:
    """The target with some chips switched off, as in a description that says so.

    Args:
        target: the target.
        places: places in the package, counted with those that are off already.

    Raises:
        CompileError: MCM-F020 if there is no chip at a place, none is left, or the target cannot
            be made smaller.
    """
    if not places:
        return target
    shown = ", ".join(map(str, places))
    if not isinstance(target, ShrinkableTarget):
        raise CompileError.of(
            "MCM-F020",
            f"target {quote(target.name)} has no way to switch chips off",
            at="option --forbid-chip",
            hint="leave the option out, or write a description without these chips",
        )
    try:
        return target.without_chips(places)
    except CompileError as error:
        raise CompileError(
            [
                Diagnostic(
                    "MCM-F020",
                    f"chips {shown} of {quote(target.name)} cannot be switched off: {d.message}",
                    at="option --forbid-chip",
                    hint=f"`mcmc targets show {target.name}` shows the package; what is "
                    "overridden in a description is switched off there",
                )
                for d in error.diagnostics
            ]
        ) from error
