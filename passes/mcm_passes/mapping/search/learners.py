"""Strategies that learn, where what learns is not installed."""

from __future__ import annotations

import dataclasses
from typing import Any, Protocol, cast, runtime_checkable

from mcm_compiler.components.extras import (
    LEARN,
    extra_of,
    missing_modules,
    not_learned,
    require_learning,
)
from mcm_compiler.contracts.partition import PartitionStrategy
from mcm_compiler.diagnostics import Diagnostic
from mcm_passes.mapping.search.named import strategy_of

AT = "option partitioner"

WITHOUT_LEARNING = "choose rl-zeroshot, which draws from a trained policy, or a classical strategy"


@runtime_checkable
class _Runs(Protocol):
    """A strategy that runs others, which an option names."""

    members: tuple[str, ...]


def runnable(
    strategy: PartitionStrategy, *, by_level: bool
) -> tuple[PartitionStrategy, Diagnostic | None]:
    """The strategy as far as it runs here, before any time is spent on it.

    Args:
        strategy: what is to run.
        by_level: whether a level chose it: then members that learn are left out where they cannot
            run. What a user names is never changed.

    Returns:
        The strategy, and the note MCM-L013 if members were left out.

    Raises:
        CompileError: MCM-L012 if a part that was asked for by name needs what is not installed.
    """
    if not missing_modules(LEARN):
        return strategy, None
    members = strategy.members if isinstance(strategy, _Runs) else ()
    learners = tuple(text for text in members if extra_of(strategy_of(text)) == LEARN)
    itself = extra_of(strategy) == LEARN
    if not (learners or itself):
        return strategy, None
    kept = tuple(text for text in members if text not in learners)
    if itself or not by_level or not kept:
        who = strategy.name if itself else learners[0]
        require_learning(f"strategy '{who}'", AT, WITHOUT_LEARNING)
    note = not_learned(
        f"{len(learners)} of the {len(members)} members of the level's portfolio",
        f"'{learners[0]}' and others like it do not run, the others do",
        AT,
    )
    return cast("PartitionStrategy", dataclasses.replace(cast("Any", strategy), members=kept)), note
