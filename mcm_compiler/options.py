"""What a user can ask of a compile, validated once at the edge."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import cast

from mcm_compiler.contracts.objectives import Objective, ObjectiveKind, objective_faults
from mcm_compiler.contracts.target import Fallback, Routing
from mcm_compiler.diagnostics import CompileError, Diagnostic
from mcm_compiler.graph.states import MOST_SEQUENCES
from mcm_compiler.text.typed_options import take_types

DEFAULT_PIPELINE = (
    "simplify,fuse,annotate_cost,parallelize,partition,legalize,split,map_chips,lower,simulate,emit,"
    "verify"
)
"""The pass pipeline of `mcmc compile` where `--passes` does not give another."""

MOST_CHIPS = 2**31
"""Places of chips are below."""

AUTO = "auto"
"""The partition strategy that follows from the level."""

DEFAULT_LEVEL = 2


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
        chips: use only the first so many chips of the package; None for all of them.
        replicas: pipelines side by side, each on an equal share of the chips; None for as many as
            are fastest, or one where pins, an assignment or forbidden chips name places.
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
        test_data: whether `verify` also compares `test_data_set_N` folders beside the model's file
            with the outputs that they expect.
        state: graph inputs and the outputs that the next inference of a sequence takes for them,
            such as the keys and values of a cache; None to go by the customary names, empty for
            none. They stay on their chips where that is possible.
        sequences: whose states every chip must have room for; None for one at least, and as many
            as the pipeline needs where they fit.
        objective: what is to be small: `period`, `latency`, `chips` or `energy`; see
            `mcm_compiler.contracts.objectives`.
        max_latency_s: with the period, the latest that one inference may be answered by an empty
            package under the cost model; None for no limit.
        throughput: with `chips`, the inferences per second that they must reach; else None.

    A path is taken for the text of one, a list for a tuple, and a mapping for pairs.

    Raises:
        CompileError: MCM-U004 with one diagnostic per value of another type, or else out of range.
    """

    passes: str = DEFAULT_PIPELINE
    level: int | str = DEFAULT_LEVEL
    partitioner: str = AUTO
    mapper: str | None = None
    mapping_model: str | None = None
    cost_model: str | None = None
    routing: Routing = "relay"
    chips: int | None = None
    replicas: int | None = None
    forbidden_chips: tuple[int, ...] = ()
    pins: tuple[tuple[str, int], ...] = ()
    assignment: str | None = None
    repair_assignment: bool = False
    seed: int = 0
    dims: Mapping[str, int] = field(default_factory=dict[str, int])
    shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict[str, tuple[int, ...]])
    trip_counts: Mapping[str, int] = field(default_factory=dict[str, int])
    samples: int | None = None
    budget_s: float | None = None
    inferences: int = 64
    verify_seeds: int = 1
    input: str | None = None
    test_data: bool = True
    fallback: Fallback | None = None
    state: tuple[tuple[str, str], ...] | None = None
    sequences: int | None = None
    objective: ObjectiveKind = "period"
    max_latency_s: float | None = None
    throughput: float | None = None

    @property
    def goal(self) -> Objective:
        """What is asked of the placement."""
        return Objective(self.objective, self.max_latency_s, self.throughput)

    def __post_init__(self) -> None:
        take_types(self)
        faults = [
            f"{name} is {value}, not at least 1"
            for name in ("samples", "replicas", "inferences", "verify_seeds", "sequences")
            if (value := cast("int | None", getattr(self, name))) is not None and value < 1
        ]
        if isinstance(self.level, int) and self.level < 0:
            faults.append(f"level is {self.level}, not at least 0")
        if not 0 <= self.seed < 2**63:
            faults.append(f"seed is {self.seed}, not between 0 and 2^63 - 1")
        faults += [
            f"forbidden chip {chip} is negative" for chip in self.forbidden_chips if chip < 0
        ]
        faults += [
            f"pin of '{name}' is chip {chip}, not between 0 and {MOST_CHIPS - 1}"
            for name, chip in self.pins
            if not 0 <= chip < MOST_CHIPS
        ]
        if self.repair_assignment and self.assignment is None:
            faults.append("repair_assignment is given, and no assignment")
        if self.chips is not None and self.chips < 1:
            faults.append(f"chips is {self.chips}, not at least 1")
        if self.inferences > 100_000:
            faults.append(f"inferences is {self.inferences}, more than 100000")
        if self.budget_s is not None and not 0 < self.budget_s < float("inf"):
            faults.append(f"budget_s is {self.budget_s}, not a positive number of seconds")
        if self.sequences is not None and self.sequences > MOST_SEQUENCES:
            faults.append(f"sequences is {self.sequences}, more than {MOST_SEQUENCES}")
        faults += [
            f"trip count of '{k}' is {v}, not at least 0"
            for k, v in self.trip_counts.items()
            if v < 0
        ]
        faults += [f"dim '{k}' is {v}, not at least 0" for k, v in self.dims.items() if v < 0]
        faults += [
            f"shape of '{name}' is {','.join(map(str, shape))}; each dim must be at least 0"
            for name, shape in self.shapes.items()
            if any(dim < 0 for dim in shape)
        ]
        faults += objective_faults(self.objective, self.max_latency_s, self.throughput)
        if not self.goal.plain and self.assignment is not None:
            faults.append("an assignment is given, which leaves nothing to an objective")
        if faults:
            raise CompileError([Diagnostic("MCM-U004", fault) for fault in faults])
