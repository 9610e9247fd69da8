"""Options of `mcmc parallelize`, `partition`, `train` and `explore`; this module loads no NumPy."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

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

    training: bool = asked("flag", "Input", "Plan a step of training instead of inference.")
    objective: Objective = asked(
        "choice",
        "Search",
        "Least seconds, or most divided variables as in the Auto-MAP paper.",
        "cost",
        choices=("cost", "paper-count"),
    )
    seed: int = seed_field()
    data: int | None = asked("whole", "Search", "Replicas of the model.", low=1, high=MOST_DEVICES)
    operator: int | None = asked(
        "whole", "Search", "Devices that ops are divided over.", low=1, high=MOST_DEVICES
    )
    stages: int | None = asked(
        "whole", "Search", "Stages of the pipeline.", low=1, high=MOST_DEVICES
    )
    micro_batches: int = asked("whole", "Input", "Of a step.", 16, low=1, high=MOST_DEVICES)
    optimizer: str = asked(
        "choice",
        "Input",
        "Whose state is held in training.",
        "adam",
        choices=("sgd", "momentum", "adam", "adafactor"),
    )
    shards: tuple[str, ...] = asked(
        "patterns",
        "Search",
        "Divide the variables of this name so, or keep them whole with -1. Repeatable.",
        (),
        flag="--shard",
        metavar="PATTERN=DIM",
    )

    def __post_init__(self) -> None:
        check_options(self)


@dataclass(frozen=True)
class PlacementRequest:
    """How a placement is asked for.

    Attributes:
        rule: see `Rule`.
        partitioner: text of a partition strategy, or None for the cost's own method.
        evaluations: most placements that are evaluated.
        budget_s: wall time of the search, or None; with one, results need not be reproducible.
        seed: of everything random.
    """

    rule: Rule = asked(
        "choice",
        "Target",
        "Devices that all reach each other, or a one-way ring with this rule.",
        "none",
        choices=get_args(Rule),
    )
    partitioner: str | None = asked(
        "text",
        "Search",
        "Strategy, as listed by mcmc strategies, instead of the cost's own method.",
        names="STRATEGIES",
    )
    evaluations: int = asked(
        "whole",
        "Search",
        "Most partitions that a strategy evaluates.",
        10_000,
        flag="--samples",
        low=1,
    )
    budget_s: float | None = asked(
        "duration",
        "Search",
        "Time limit of a strategy, such as 60s; results need not be reproducible.",
        flag="--budget",
        low=0,
    )
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
    resume: bool = asked("flag", "Input", "Go on with the training that the folder holds.")

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
    """

    sweeps: tuple[str, ...] = asked(
        "patterns",
        "Target",
        "Values of a key of the target's description, such as chip.sram_mib=16,32,64 or "
        "package.num_chips=4..36:8. Repeatable; all combinations are compiled.",
        (),
        flag="--sweep",
        metavar="KEY=VALUES",
        required=True,
    )
    front: tuple[Measure, ...] = asked(
        "choices",
        "Search",
        f"Pareto objectives: some of {', '.join(get_args(Measure))} (all that is known).",
        (),
        choices=get_args(Measure),
        metavar="MEASURE,...",
    )
    jobs: int | None = asked(
        "whole", "", "Points that are compiled at once (as many as there are cores).", low=1
    )
    resume: bool = asked(
        "flag",
        "Input",
        "Go on with an exploration that was interrupted, from the journal next to --json.",
    )

    def __post_init__(self) -> None:
        check_options(self)
