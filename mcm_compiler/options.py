"""Options of a compile, validated once at the edge."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from mcm_compiler.contracts.objectives import KINDS, Objective, ObjectiveKind, objective_faults
from mcm_compiler.machines.choices import MOST_CLASSES, MOST_SEQUENCES, Fallback, Routing
from mcm_compiler.text.option_fields import asked, check_options, seed_field

DEFAULT_PIPELINE = (
    "simplify,fuse,annotate_cost,parallelize,partition,legalize,split,map_chips,lower,simulate,emit,"
    "verify"
)
"""The pass pipeline of `mcmc compile` where `--passes` does not give another."""

AUTO = "auto"
"""The partition strategy that follows from the level."""

DEFAULT_LEVEL = 2

SET_BY_LEVEL = "set by -O"
"""Default in the help of an option that the level decides."""

SERVED = ("tpot", "ttft")
"""Limits of the option `serve`."""


@dataclass(frozen=True)
class CompileOptions:
    """Options of one compile.

    Attributes:
        passes: pipeline text, such as `simplify,fuse{max_group=8},...`.
        level: effort of the search for a partition: number or name of a level, or the path of a
            description; see `mcm_compiler.contracts.levels`.
        partitioner: partition strategy, such as `dp` or `dp{orders=4}`; `auto` for that of the
            level.
        mapper: mapper of fabrics, such as `annealing{chains=8}`; None for that of the level.
        mapping_model: mapping model that it asks, such as `ridge`; None for that of the level.
        cost_model: cost model by its registered name, such as `table{file=times.csv}`; None for the
            target's own, or what its description names.
        routing: see `mcm_compiler.contracts.target.Routing`.
        chips: use only the first N chips of the package; None for all of them.
        replicas: of the pipeline, each on an equal share of the chips; None for as many as
            are fastest, or one where pins, an assignment or forbidden chips name places.
        round: inferences that each pipeline computes together, in as many classes; None for what
            the level chooses, 1 for one at a time.
        forbidden_chips: places in the package whose chips are not used.
        pins: names of ops or groups, or patterns with `*` and `?`, and the chip of each.
        assignment: CSV or JSON file with the chip of every op, or None to search for one.
        repair_assignment: take the nearest valid assignment where that one breaks a rule.
        seed: seed of everything random.
        dims: sizes of symbolic dimensions by name.
        shapes: full shapes of graph inputs by input name; wins over `dims`.
        trip_counts: how often the bodies of loops run, by name of the loop; wins over what the data
            of `input` give. See `mcm_compiler.graph.trip_counts.loops_of` for names.
        samples: most partitions that a strategy may evaluate; None for what the level allows.
        budget_s: wall-time limit of the strategy in seconds, or None; results under a limit need
            not be reproducible.
        inferences: inferences in the simulation.
        verify_seeds: number of random inputs that `verify` compares.
        input: `.npz` file with one array per input of the model: what the run sees that finds
            shapes which depend on values, and one more input that `verify` compares. None to draw
            inputs at random alone.
        fallback: what becomes of ops that chips cannot run: `host` runs them there, `error` refuses
            the model; None for what the target says, which is `host` where it says nothing.
        test_data: whether `verify` also compares `test_data_set_N` folders next to the model's file
            with the outputs that they expect.
        context: positions that a step of a decoder works on, new tokens included: sizes of its
            caches and masks follow; None leaves them to `dims`.
        state: graph inputs and the outputs that the next inference of a sequence takes for them,
            such as the keys and values of a cache; None to go by the customary names, empty for
            none. They stay on their chips where that is possible.
        sequences: whose states every chip must have space for; None for one at least, and as many
            as the pipeline needs where they fit.
        objective: what is to be small: `period`, `latency`, `chips` or `energy`; see
            `mcm_compiler.contracts.objectives`.
        max_latency_s: with the period, the latest that one inference may be answered by an empty
            package under the cost model; None for no limit.
        throughput: with `chips`, the inferences per second that they must reach; else None.
        serve: limits in seconds on what a user of a decoder waits for; None for none. `tpot` is the
            time for each token of the output, `ttft` that until the first one of a prompt that
            fills the context.
        sources: in the build of a project, what gave options their values, by name; the report
            states it.

    A path is taken for the text of one, a list for a tuple, and a mapping for pairs.

    Raises:
        CompileError: MCM-U004 with one diagnostic per value of another type, or else out of range.
    """

    # fmt: off
    passes: str = asked(
        "text", "Search", "Pass pipeline, such as 'simplify,fuse{...},...'.", DEFAULT_PIPELINE,
        names="PIPELINE", reported="elsewhere",
    )
    level: int | str = asked(
        "level", "Search", "Search effort: 0 dp over one order, 1 dp, 2 portfolio, 3 long search "
        "with the simulator; or a level listed by mcmc strategies, or a TOML file.", DEFAULT_LEVEL,
        flag="-O", key=None, metavar="LEVEL", names="LEVELS FILE", low=0,
    )
    partitioner: str = asked(
        "text", "Search", "Partition strategy, listed by mcmc strategies.", AUTO,
        names="STRATEGIES", metavar="NAME{...}", shown=SET_BY_LEVEL,
    )
    mapper: str | None = asked(
        "text", "Search", "Mapper for fabric chips, such as annealing.", metavar="NAME{...}",
        names="MAPPERS", reported="given", shown=SET_BY_LEVEL,
    )
    mapping_model: str | None = asked(
        "text", "Search", "Cost model that the mapper uses, such as round-trips.",
        metavar="NAME{...}", names="MAPPING_MODELS", reported="given", shown=SET_BY_LEVEL,
    )
    cost_model: str | None = asked(
        "text", "Target", "Cost model of ops, listed by mcmc costs.", metavar="NAME{...}",
        names="COST_MODELS", reported="elsewhere", shown="that of the target",
    )
    routing: Routing = asked(
        "choice", "Target", "Dependencies that skip chips: relay them through the chips between, "
        "or apply the strict triangle rule.", "relay", choices=("relay", "strict"),
    )
    chips: int | None = asked(
        "whole", "Target", "Use only the first N chips of the target.", low=1
    )
    replicas: int | None = asked(
        "whole", "Search", "Replicas of the pipeline, on equal shares of the chips.", low=1,
        shown="the fastest number",
    )
    round: int | None = asked(
        "whole", "Search", "Inferences that each pipeline computes together.",
        shown="the fastest number", low=1, high=MOST_CLASSES, reported="given",
    )
    forbidden_chips: tuple[int, ...] = asked(
        "places", "Target", "Exclude the chip at this position of the package. Repeatable.", (),
        flag="--forbid-chip", metavar="PLACE", each="forbidden chip",
    )
    pins: tuple[tuple[str, int], ...] = asked(
        "pins", "Search", "Pin an op or op group to a chip; NAME may contain * and ?. Repeatable.",
        (), flag="--pin", metavar="NAME=CHIP",
    )
    assignment: str | None = asked(
        "file", "Search", "CSV or JSON file with the chip of every op; replaces the search."
    )
    repair_assignment: bool = asked(
        "flag", "Search", "Use the nearest valid assignment if that of --assignment breaks a rule.",
    )
    seed: int = seed_field()
    dims: Mapping[str, int] = asked(
        "sizes", "Input", "Size of a symbolic dimension. Repeatable.", {},
        flag="--dim", key=None, metavar="NAME=N", each="dim",
    )
    shapes: Mapping[str, tuple[int, ...]] = asked(
        "shapes", "Input", "Shape of an input; wins over --dim. Repeatable.", {},
        flag="--shape", key=None, metavar="INPUT=N,N",
    )
    trip_counts: Mapping[str, int] = asked(
        "sizes", "Input", "Iterations of a loop whose count depends on data. Repeatable.", {},
        flag="--trip-count", metavar="LOOP=N", each="trip count of",
    )
    samples: int | None = asked(
        "whole", "Search", "Maximum number of partitions that a strategy evaluates.", low=1,
        shown=SET_BY_LEVEL,
    )
    budget_s: float | None = asked(
        "duration", "Search", "Time limit of the search, such as 60s; results may differ between "
        "runs.", flag="--budget", key="budget", low=0, shown="none",
    )
    inferences: int = asked(
        "whole", "Verification", "Number of simulated inferences.", 64, low=1, high=100_000
    )
    verify_seeds: int = asked(
        "whole", "Verification", "Number of random inputs whose outputs are compared.", 1, low=1
    )
    input: str | None = asked(
        "file", "Input", "An .npz file with one array per model input: resolves shapes that "
        "depend on values, and is compared too.", key=None,
    )
    test_data: bool = asked(
        "switch", "Verification", "Also compare test_data_set_N folders next to the model.",
        default=True,
    )
    fallback: Fallback | None = asked(
        "choice", "Target", "Unsupported ops: run on host, or fail.", choices=("host", "error"),
        reported="given", shown="that of the target, else host",
    )
    context: int | None = asked(
        "whole", "Input", "Context length of a decoder step, new tokens included; sets the "
        "symbolic sizes of caches and masks.", low=1, reported="given", shown="set by --dim",
    )
    state: tuple[tuple[str, str], ...] | None = asked(
        "pairs", "Input", "Recurrent state kept on chip, as input=output; none for no states. "
        "Repeatable.", key=None, metavar="PAST=PRESENT", shown="detect KV-cache names",
    )
    sequences: int | None = asked(
        "whole", "Input", "Number of sequences whose states must fit on the chips.", low=1,
        high=MOST_SEQUENCES, shown="as many as needed and fit",
    )
    objective: ObjectiveKind = asked(
        "choice", "Search", "Minimise: period (loaded package), latency (unloaded), chips for "
        "--throughput, or energy per inference.", "period", choices=KINDS,
    )
    max_latency_s: float | None = asked(
        "duration", "Search", "Maximise throughput subject to this latency, such as 5ms.",
        flag="--max-latency", key="latency_limit", reported="given",
    )
    throughput: float | None = asked(
        "rate", "Search", "Required inferences per second, for --objective chips.",
        metavar="N", reported="given",
    )
    serve: Mapping[str, float] | None = asked(
        "limits", "Search", "Maximise tokens/s of a decoder within limits on the time per output "
        "token and the time to first token of a full-context prompt.",
        metavar="tpot=50ms,ttft=1s", reported="given",
    )
    # fmt: on
    sources: Mapping[str, str] = field(default_factory=dict[str, str], compare=False, repr=False)

    @property
    def goal(self) -> Objective:
        """Objective of the placement."""
        return Objective(self.objective, self.max_latency_s, self.throughput)

    def __post_init__(self) -> None:
        check_options(self, self._faults)

    def _faults(self) -> list[str]:
        faults: list[str] = []
        if self.repair_assignment and self.assignment is None:
            faults.append("repair_assignment is given, and no assignment")
        faults += objective_faults(self.objective, self.max_latency_s, self.throughput)
        for name, value in (self.serve or {}).items():
            if name not in SERVED:
                faults.append(f"serve has '{name}', not {' or '.join(SERVED)}")
            elif not 0 < value < float("inf"):
                faults.append(f"serve has {value} for '{name}', not a positive number of seconds")
        if self.serve and self.objective != "period":
            faults.append(
                f"serve asks for the most tokens per second, and the objective is "
                f"'{self.objective}'"
            )
        if not self.goal.plain and self.assignment is not None:
            faults.append("an assignment is given, which leaves nothing to an objective")
        return faults
