"""Requests and answers of searches, and options of `parallelize`, `partition`, `train`, `explore`.

Placers of steps, mappers of chips, planners, and costs of problem files share `SearchRequest` and
`SearchAnswer`. Partition strategies keep `Budget` and `Outcome`: they may stop at a bound and prove
bounds themselves, and their caller draws the random numbers. This module loads no NumPy.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Generic, Literal, TypeVar, cast, get_args

from mcm_compiler.text.option_fields import asked, check_options, seed_field

Objective = Literal["paper-count", "cost"]
"""Objective of a plan: the most partitioned variables, or the least time of a step."""

Measure = Literal["throughput", "latency", "chips", "sram", "area", "energy"]
"""Of a point of an exploration; a front is of some of them."""

Rule = Literal["none", "relay", "strict"]
"""Interconnect of the accelerators. `none`: each reaches each through the host's memory, and
dependencies between devices must only be free of cycles. `relay` and `strict`: a one-way ring, see
`mcm_compiler.contracts.target.Routing`."""

MOST_DEVICES = 1 << 20
"""Devices of one kind of parallelism, and micro-batches, are at most as many."""


@dataclass(frozen=True)
class PlanOptions:
    """Options of a plan for all planners; settings of single planners are their own options.

    Attributes:
        training: plan a step of training, with gradients and optimiser state.
        objective: see `mcm_compiler.contracts.sharding.parallel_plan.Objective`.
        seed: of everything random.
        data: replicas of the model; None to choose.
        operator: devices that ops are divided over; None to choose.
        stages: stages of the pipeline; None to choose.
        micro_batches: micro-batches of a step.
        optimizer: its state counts as memory in training.
        shards: `PATTERN=DIM` each: variables that are to be divided so, or kept whole with -1.

    Raises:
        CompileError: MCM-U004 with one diagnostic per value of another type, or else out of range.
    """

    # fmt: off
    training: bool = asked("flag", "Input", "Plan a step of training instead of inference.")
    objective: Objective = asked(
        "choice", "Search", "Minimise time, or maximise divided variables as Auto-MAP does.",
        "cost", choices=("cost", "paper-count"),
    )
    seed: int = seed_field()
    data: int | None = asked("whole", "Search", "Replicas of the model.", low=1, high=MOST_DEVICES)
    operator: int | None = asked(
        "whole", "Search", "Devices over which ops are divided.", low=1, high=MOST_DEVICES
    )
    stages: int | None = asked(
        "whole", "Search", "Stages of the pipeline.", low=1, high=MOST_DEVICES
    )
    micro_batches: int = asked(
        "whole", "Input", "Micro-batches of a step.", 16, low=1, high=MOST_DEVICES
    )
    optimizer: str = asked(
        "choice", "Input", "Optimizer of --training; its state counts as memory.", "adam",
        choices=("sgd", "momentum", "adam", "adafactor"),
    )
    shards: tuple[str, ...] = asked(
        "patterns", "Search", "Dimension along which the variables of this name are divided; -1 "
        "for whole. Repeatable.", (), flag="--shard", metavar="PATTERN=DIM",
    )
    # fmt: on

    def __post_init__(self) -> None:
        check_options(self)


@dataclass(frozen=True)
class PlacementOptions:
    """Options of a placement of the operators of a problem file.

    Attributes:
        rule: see `Rule`.
        partitioner: text of a partition strategy, or None for the cost's own method.
        level: effort, as after `-O`: how many placements may be evaluated, and how long exact
            solvers may take.
        evaluations: most placements that are evaluated; None for what the level allows.
        budget_s: wall time of the search, or None; with one, results need not be reproducible.
        seed: of everything random.
    """

    # fmt: off
    rule: Rule = asked(
        "choice", "Target", "Topology: none for all-to-all, or a one-way ring with this rule for "
        "dependencies.", "none", choices=get_args(Rule),
    )
    partitioner: str | None = asked(
        "text", "Search", "Partition strategy, listed by mcmc strategies.", names="STRATEGIES",
        metavar="NAME{...}", shown="the exact method of --cost",
    )
    level: int | str = asked(
        "level", "Search", "Search effort: 0 heuristic, 1 short, 2 about a minute, 3 several "
        "minutes; or a level listed by mcmc strategies, or a TOML file.", 1, flag="-O",
        metavar="LEVEL", names="LEVELS FILE", low=0,
    )
    evaluations: int | None = asked(
        "whole", "Search", "Maximum number of partitions that a search evaluates.",
        flag="--samples", low=1, shown="set by -O",
    )
    budget_s: float | None = asked(
        "duration", "Search", "Time limit of the search, such as 60s; results may differ between "
        "runs.", flag="--budget", low=0, shown="none",
    )
    # fmt: on
    seed: int = seed_field()

    def __post_init__(self) -> None:
        check_options(self)


@dataclass(frozen=True)
class TrainingRequest:
    """Request to a trainer; settings of single trainers are their own options.

    Attributes:
        folder: where everything is written.
        seed: of everything random.
        resume: go on with what is in the folder.
    """

    folder: Path
    seed: int = seed_field()
    resume: bool = asked("flag", "Input", "Resume the training in the output folder.")

    def __post_init__(self) -> None:
        check_options(self)


@dataclass(frozen=True)
class ExploreOptions:
    """Options of an exploration besides those of its compiles.

    Attributes:
        sweeps: `KEY=VALUES` each, of keys of the target's description.
        front: what fronts are of; empty for all that is known.
        jobs: points that are compiled at once; None for as many as there are cores.
        resume: go on with what the journal holds.
        scheduler: address of a Dask scheduler whose workers compile the points.
    """

    # fmt: off
    sweeps: tuple[str, ...] = asked(
        "patterns", "Target", "Values of a key of the target description, such as "
        "chip.sram_mib=16,32,64 or package.num_chips=4..36:8. Repeatable; all combinations are "
        "compiled.", (), flag="--sweep", metavar="KEY=VALUES", required=True,
    )
    front: tuple[Measure, ...] = asked(
        "choices", "Search", "Pareto objectives: some of "
        f"{', '.join(get_args(Measure))}.", (), choices=get_args(Measure), metavar="MEASURE,...",
        shown="all known ones",
    )
    jobs: int | None = asked(
        "whole", "", "Number of points compiled in parallel.", low=1, shown="the number of cores"
    )
    resume: bool = asked(
        "flag", "Input", "Resume an interrupted exploration from the journal next to --json.",
    )
    scheduler: str | None = asked(
        "text", "", "Address of a Dask scheduler whose workers compile the points, such as "
        "tcp://10.0.0.1:8786; they see the same files.",
    )
    # fmt: on

    def __post_init__(self) -> None:
        check_options(self)


T = TypeVar("T")


def silent(_text: str) -> None:
    """Report nothing."""


@dataclass(frozen=True, eq=False, kw_only=True)
class SearchRequest:
    """Limits that every search has; settings of single searches are their own options.

    Attributes:
        evaluations: candidates that it may evaluate.
        seed: of everything random.
        budget_s: time limit, or None; with one, results need not be reproducible.
        progress: called with a description of each step as it begins.
    """

    evaluations: int
    seed: int = 0
    budget_s: float | None = None
    progress: Callable[[str], None] = silent


@dataclass(frozen=True, eq=False)
class SearchAnswer(Generic[T]):
    """Result of a search.

    Attributes:
        found: the best candidate.
        method: search method, for reports, such as `clusters, then local search`.
        evaluations: candidates that were evaluated.
        history: pairs of evaluations and the best score by then, ascending; for curves.
        figures: further numbers by name, such as entropies of a policy; without units.
    """

    found: T
    method: str
    evaluations: int
    history: tuple[tuple[int, float], ...] = ()
    figures: tuple[tuple[str, float], ...] = ()


def in_form(found: object, kind: type[T], what: str = "", /, **own: Callable[[Any], Any]) -> T:
    """The answer of a component, with fields of the types that they declare.

    Counts and numbers are not negative, and become plain ones; texts have to be texts. Fields of
    other types stay as they are.

    Args:
        found: what the component gave.
        kind: what it should have given, a dataclass.
        what: what `found` is of an answer, for messages; empty for the answer itself.
        own: checks of single fields, which give the value that they end with.

    Raises:
        TypeError: for an answer or a field of another type.
        ValueError: for a number that cannot be.
    """
    if not isinstance(found, kind):
        wanted = f"{'an' if kind.__name__[0] in 'AEIOU' else 'a'} {kind.__name__}"
        given = type(found).__name__
        no_such = f"{what} is a {given}, no {kind.__name__}"
        raise TypeError(no_such if what else f"it gave a {given}, not {wanted}")
    values: dict[str, Any] = {}
    for field in fields(cast("Any", kind)):
        value = getattr(found, field.name)
        declared = str(field.type)
        form = _FORMS.get(declared.removesuffix(" | None"))
        if field.name in own:
            value = own[field.name](value)
        elif form is not None and (value is not None or not declared.endswith(" | None")):
            value = form(f"{field.name} of {what}" if what else field.name, value)
        values[field.name] = value
    return kind(**values)


def _count(what: str, given: object) -> int:
    if isinstance(given, bool) or not isinstance(given, numbers.Integral):
        raise TypeError(f"{what} is a {type(given).__name__}, no whole number")
    if given < 0:
        raise ValueError(f"{what} is {given}, less than none")
    return int(given)


def _number(what: str, given: object) -> float:
    if isinstance(given, bool) or not isinstance(given, numbers.Real):
        raise TypeError(f"{what} is a {type(given).__name__}, no number")
    number = float(given)
    if math.isnan(number) or number < 0.0:
        raise ValueError(f"{what} is {number}, and has to be at least 0")
    return number


def _text(what: str, given: object) -> str:
    if not isinstance(given, str):
        raise TypeError(f"{what} is a {type(given).__name__}, no text")
    return given


def _history(what: str, given: Any) -> tuple[tuple[int, float], ...]:
    found = tuple((_count(what, count), float(score)) for count, score in given)
    for _, score in found:
        if not math.isfinite(score):
            raise ValueError(f"{what} has the score {score}")
    return found


_FORMS: Mapping[str, Callable[[str, Any], Any]] = {
    "int": _count,
    "float": _number,
    "str": _text,
    "bool": lambda _, given: bool(given),
    "tuple[tuple[int, float], ...]": _history,
    "tuple[tuple[str, float], ...]": lambda _, given: tuple((str(n), float(v)) for n, v in given),
}
"""Checks of fields, by their types."""
