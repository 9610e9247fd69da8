"""Strategies by name, and what they answer: a plug-in's may be anything."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager, nullcontext
from typing import Any, cast

import numpy as np

from mcm_compiler.components.extras import LEARN, extra_of, missing_modules, require_learning
from mcm_compiler.contracts import partition
from mcm_compiler.contracts.requests import in_form
from mcm_compiler.diagnostics import CompileError
from mcm_compiler.machines.machine import RING
from mcm_compiler.registry import MAPPINGS, STRATEGIES
from mcm_compiler.text import spec_text

ROOM = 1e-9
"""Relative, for sums that are taken in another order: a bound may be as far above a period."""


def strategy_of(text: str) -> partition.PartitionStrategy:
    """The registered strategy that a text such as `dp{orders=2}` stands for.

    Raises:
        CompileError: MCM-U001 to MCM-U003 for text, options and names, MCM-X007 for what is no
            strategy.
    """
    return cast("partition.PartitionStrategy", STRATEGIES.made(spec_text.parse_one(text)))


LEARNS_AT = "option partitioner"

WITHOUT_LEARNING = "choose rl-zeroshot, which draws from a trained policy, or a classical strategy"


def runnable(text: str) -> tuple[partition.PartitionStrategy, str]:
    """A strategy and its text form, before any time is spent on it.

    Raises:
        CompileError: as `strategy_of`, and MCM-L012 if it or a member of it learns, and what that
            needs is not installed.
    """
    spec = spec_text.parse_one(text)
    strategy = strategy_of(text)
    if missing_modules(LEARN):
        for one in (strategy, *map(strategy_of, getattr(strategy, "members", ()))):
            if extra_of(one) == LEARN:
                require_learning(f"strategy '{one.name}'", LEARNS_AT, WITHOUT_LEARNING)
    return strategy, spec_text.print_one(spec.name, strategy)


def answer_of(
    text: str,
    strategy: partition.PartitionStrategy,
    problem: partition.PartitionProblem,
    evaluate: partition.Evaluate,
    rng: np.random.Generator,
    budget: partition.Budget,
) -> partition.Outcome:
    """Outcome of a strategy, in the form that its contract says.

    Args:
        text: its text form.
        strategy: the strategy.
        problem: what is to be placed.
        evaluate: as in `PartitionStrategy.solve`, like what follows.
        rng: source of randomness.
        budget: what it may spend.

    Raises:
        CompileError: MCM-X007 where it fails, or answers in another form.
    """
    with STRATEGIES.at_work(text.partition("{")[0].strip()), _mapping_at_work(problem):
        return _in_form(strategy.solve(problem, evaluate, rng, budget), problem)


@contextmanager
def _mapping_at_work(problem: partition.PartitionProblem) -> Generator[None]:
    """A block in which the mapping of a family may be asked; that of rings is not at fault."""
    family = problem.family
    own = family != RING and family in MAPPINGS
    with MAPPINGS.at_work(family, MAPPINGS.get(family)) if own else nullcontext():
        yield


def refuted_bound(text: str, seconds: float, period_s: float) -> CompileError:
    """MCM-P009 for a strategy's bound that a partition is below."""
    return _refuted(text, f"is faster than {seconds:.9g} s", period_s)


def refuted_proof(text: str, period_s: float) -> CompileError:
    """MCM-P009 for a strategy that says that nothing is valid, where something is."""
    return _refuted(text, "is valid", period_s)


def _refuted(text: str, claim: str, period_s: float) -> CompileError:
    return CompileError.of(
        "MCM-P009",
        f"strategy '{text}' claims that no partition {claim}, and one of {period_s:.9g} s was "
        "found",
        at="option partitioner",
    )


def _in_form(found: object, problem: partition.PartitionProblem) -> partition.Outcome:
    """An outcome whose fields are what their types say; partitions need not be valid.

    Arrays are copies, which no strategy changes any more.

    Raises:
        TypeError: for a field of another type.
        ValueError: for a number or a shape that cannot be.
    """

    def row(what: str) -> Callable[[object], Any]:
        return lambda given: None if given is None else _partition(what, given, problem)

    def bound(given: object) -> partition.LowerBound | None:
        return None if given is None else in_form(given, partition.LowerBound, "bound")

    def learned(given: object) -> partition.LearnedGain | None:
        if given is None:
            return None
        rows = {name: row(f"{name} of learned") for name in ("classical", "learned")}
        return in_form(given, partition.LearnedGain, "learned", **rows)

    answer = in_form(
        found,
        partition.Outcome,
        chip_of=row("chip_of"),
        runners_up=lambda rows: tuple(_partition("runners_up", one, problem) for one in rows),
        bound=bound,
        learned=learned,
    )
    if answer.infeasible and answer.chip_of is not None:
        raise ValueError("it gave a partition, and says that there is none")
    return answer


def _partition(what: str, given: object, problem: partition.PartitionProblem) -> partition.Ints:
    row = np.asarray(given)
    if row.dtype.kind not in "iu":
        raise TypeError(f"{what} holds {row.dtype}, no whole numbers")
    if row.shape != (problem.num_units,):
        raise ValueError(f"{what} has the shape {row.shape}, not ({problem.num_units},)")
    # Chips that there are none of stay so.
    inside = np.iinfo(np.int32)
    return np.clip(row, inside.min, inside.max).astype(np.int32)
