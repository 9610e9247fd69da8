"""Sections of a report that only some compiles have."""

# ruff: noqa: UP013 - a row of few keys is one line here

from __future__ import annotations

from typing import Literal, NotRequired, TypedDict

from mcm_compiler.contracts.objectives import ObjectiveKind
from mcm_compiler.results.size_rows import PromptRow, SizeRow
from mcm_compiler.text.json_text import Amount, Count, Index, Size, Whole


class JouleFacts(TypedDict):
    """Energy of one inference by kind."""

    total_j: Amount
    compute_j: Amount
    sram_j: Amount
    links_j: Amount
    memory_j: Amount
    host_j: Amount


class ChipJoules(JouleFacts):
    """Energy of one inference on one chip of the first pipeline.

    Attributes:
        chip: the chip.
        total_j: of all kinds.
        compute_j: of its arithmetic.
        sram_j: of its reads and writes of SRAM.
        links_j: of what it sends to other chips, and passes on.
        memory_j: of what it reads from off-package memory.
        host_j: of what it exchanges with the host.
    """

    chip: Index


class EnergyFacts(JouleFacts):
    """Energy of one inference, nominal: computed from the keys of the target, without leakage.

    Attributes:
        total_j: of all kinds and chips.
        compute_j: of arithmetic: half of all operations are multiply-accumulates.
        sram_j: of reads and writes of SRAM, as the cost model counts them.
        links_j: of links between chips.
        memory_j: of off-package memory.
        host_j: of links between chips and the host.
        power_w: total_j by period_s: while inferences follow each other without a pause.
        energy_delay_js: total_j times latency_s.
        chips: of the first pipeline, ascending.
        package_mm2: area of all usable chips of the package; missing where the target says nothing
            of it.
    """

    power_w: Amount | None
    energy_delay_js: Amount | None
    chips: list[ChipJoules]
    package_mm2: NotRequired[Amount]


UnitCounts = TypedDict("UnitCounts", {"compute": Size, "memory": Size, "io": Size})
"""Units or sites of each kind.

Attributes:
    compute: those that compute.
    memory: those that hold samples or weights.
    io: those that samples come and leave by.
"""


class FloorPlan(TypedDict):
    """Where the units of a chip lie and what its links carry.

    Attributes:
        rows: of switches.
        cols: of switches.
        stages: names along the flow of data.
        units: row, column, kind (0 compute, 1 memory, 2 input and output) and stage of each; input
            and output lie in the columns -1 and `cols`.
        links: number of each link in use, and its flits per inference. Link `4 * switch + d` leaves
            east, west, north, south for d = 0 to 3; switches are numbered row by row.
    """

    rows: Count
    cols: Count
    stages: list[str]
    units: list[tuple[Index, Whole, Index, Index]]
    links: list[tuple[Index, Size]]


class FabricRow(TypedDict):
    """How a chip is laid out.

    Attributes:
        chip: the chip, of the first pipeline.
        like: the chip whose mapping it took, as they are laid out alike; null where it has its own.
        method: mapper and mapping model.
        stages: of its pipeline.
        units: that are in use.
        streams: between them.
        period_s: measured time between inferences.
        bound_s: no mapping of these units has a shorter period.
        latency_s: measured time from when an inference enters until it has left.
        error: by which share the period may be wrong; 0 where the chip was seen to repeat itself.
        utilisation: share of the period for which the chip's compute units work, over all of them.
        plan: where units lie; null where it is that of another chip.
    """

    chip: Index
    like: Index | None
    method: str
    stages: Count
    units: UnitCounts
    streams: Count
    period_s: Amount
    bound_s: Amount
    latency_s: Amount
    error: Amount
    utilisation: Amount
    plan: FloorPlan | None


FabricFacts = TypedDict("FabricFacts", {"sites": UnitCounts, "chips": list[FabricRow]})
"""How chips are laid out.

Attributes:
    sites: of each chip.
    chips: all used ones, ascending.
"""


class LackingRow(TypedDict):
    """An op type or element type that chips lack.

    Attributes:
        because: whether ops of a type are lacking, or tensors of an element type, or the host
            keeps large tables of the ops.
        what: the op, or the element type.
        ops: ops that fall back for it.
        inside: those of them that have it in a subgraph only.
        first: names of the first of them.
    """

    because: Literal["op", "type", "table"]
    what: str
    ops: Count
    inside: Size
    first: list[str]


class TripRow(TypedDict):
    """Round trips to the host of one kind, per inference.

    Attributes:
        ops: types of the ops that a trip is made for, each once.
        trips: round trips.
        up_bytes: what goes from chips to the host in all of them.
        down_bytes: what comes back.
        transfer_s: on the way.
        host_s: on the host.
        seconds: that chips wait, launches included.
        on_chips_s: what the reference chip would take under cost_model if it could run the ops.
    """

    ops: list[str]
    trips: Count
    up_bytes: Size
    down_bytes: Size
    transfer_s: Amount
    host_s: Amount
    seconds: Amount
    on_chips_s: Amount


class HostFacts(TypedDict):
    """Ops that the host runs for the chips of one pipeline, per inference.

    Attributes:
        lacking: why, by op type and element type.
        round_trips: what it costs, by the ops that share a trip; most seconds first.
        trips: all round trips.
        up_bytes: of all of them.
        down_bytes: of all of them.
        seconds: of all of them.
        on_chips_s: of all of them.
        chip: the chip that waits longest.
        chip_s: how long.
        share_of_period: chip_s as a share of the pipeline's period; null where nothing was
            simulated.
        link_share: the largest share of the period that a channel between chips and the host has to
            do for transfers and round trips together. Round trips take their time whatever else
            crosses the channel, so that more than 1 means a period that cannot be kept.
    """

    lacking: list[LackingRow]
    round_trips: list[TripRow]
    trips: Count
    up_bytes: Size
    down_bytes: Size
    seconds: Amount
    on_chips_s: Amount
    chip: Index
    chip_s: Amount
    share_of_period: Amount | None
    link_share: Amount | None


ObjectiveUnit = Literal["s", "chips", "J"]

ProvenFacts = TypedDict(
    "ProvenFacts",
    {"replicas": Count, "chips_each": Count, "bound": Amount | None, "proof": str | None},
)
"""A proven bound for one number of equal pipelines.

Attributes:
    replicas: of the pipeline, at the same time.
    chips_each: chips that each of them may use.
    bound: least value of any of them, in the unit of the value; null where none is valid at all.
    proof: kind of argument, or null.
"""


class DivisionFacts(TypedDict):
    """The bound over all divisions of the undivided kernels, numbers of copies and placements.

    Attributes:
        bound_s: seconds per inference of the package that none of them undercuts, under cost_model.
        argument: why.
        gap: analytic_period_s / bound_s - 1.
    """

    bound_s: Amount
    argument: str
    gap: float | None


class ObjectiveFacts(TypedDict):
    """An objective, the value of the placement, and its lower bound.

    Attributes:
        kind: what was to be small: period (within a latency), latency, chips or energy.
        unit: of value and bound.
        max_latency_s: the latest that one inference may be answered; missing where nothing was
            said.
        throughput_per_s: inferences per second that had to be reached; missing likewise.
        value: that of the placement under cost_model, all pipelines together; joules are those of
            one inference.
        bound: least value of any placement under cost_model, of all numbers of pipelines that could
            be chosen; null where times rest on assumed trip counts.
        bound_argument: why; empty without a bound.
        bound_proof: kind of the argument, as a checker knows it.
        gap: value / bound - 1.
        analytic_latency_s: when one inference is answered by an empty package, under cost_model.
        simulated_latency_s: the same as the simulator plays it.
        margin: of a limit, the share of it that is left under cost_model: of the latency, or of the
            seconds per inference that the throughput allows.
        simulated_margin: the same as the simulator plays it; negative where it is not kept there.
        proven: of each number of equal pipelines.
    """

    kind: ObjectiveKind
    unit: ObjectiveUnit
    max_latency_s: NotRequired[Amount]
    throughput_per_s: NotRequired[Amount]
    value: Amount
    bound: Amount | None
    bound_argument: str
    bound_proof: str | None
    gap: float | None
    analytic_latency_s: Amount | None
    simulated_latency_s: Amount | None
    margin: NotRequired[float]
    simulated_margin: NotRequired[float | None]
    proven: list[ProvenFacts]


StateRow = TypedDict("StateRow", {"past": str, "present": str, "chip": Index})
"""A state that stays on a chip.

Attributes:
    past: input of the model.
    present: output of it, the past of the next step.
    chip: where it stays, in the first pipeline.
"""

ChipStateRow = TypedDict(
    "ChipStateRow", {"chip": Index, "sequence_bytes": Size, "held_bytes": Size}
)
"""The states on a chip of the first pipeline.

Attributes:
    chip: the chip.
    sequence_bytes: SRAM that the states of one more sequence take.
    held_bytes: SRAM that is taken by those of all sequences in flight.
"""


class StateFacts(TypedDict):
    """States that stay on their chips from one inference of a sequence to the next.

    Attributes:
        held: all of them; states that cross the host's link are not among them.
        chips: chips that hold any, ascending.
        sequences: in flight in each pipeline, whose states the chips hold; the figures are theirs.
        needed_sequences: with which a pipeline answers as often as for independent inferences:
            latency by period of those, rounded up.
        fitting_sequences: whose states would fit into the chips of a pipeline, at most 1,024.
        pipelines: replicas; each has sequences of its own.
        tokens_per_step: positions by which a state grows in one inference; 1 where none grows.
        batch: sequences that go through together and count as one in flight: rows of the inputs of
            whole numbers with a column for each token, or 1.
        context: positions that the states hold behind a step, or the length of the mask where they
            are one buffer.
        limits: seconds of the option `serve`: `tpot` for each token of the output, `ttft` until the
            first one of a prompt as long as the context.
        limited_by: why tokens_per_s are not more: chips are busy (`work`), no further states fit
            (`memory`), or the sequences in flight are as few as was asked for or as limits allow
            (`latency`).
        tpot_s: seconds between output tokens of a sequence, with all in flight.
        ttft_s: seconds until a prompt as long as the context has been read by such steps, or by
            those of another profile.
        prompt: that profile, where one of the folder reads more tokens in a step.
        users: sequences of the package whose states fit, and whose steps keep the limits.
        sizes: the decoder with other batches and contexts; empty where nobody asked.
        tokens_per_s: of all sequences together.
        tokens_per_s_alone: of one sequence that has the package for itself: tokens_per_step for
            each latency.
        package_sequences: whose states the memory of all chips has space for, next to one copy of
            the weights, or to none where they may be streamed.
        most_tokens_per_s: that no placement with this latency exceeds: the proven bound on the
            period, or tokens of package_sequences for each latency.
    """

    held: list[StateRow]
    chips: list[ChipStateRow]
    sequences: Count
    needed_sequences: Count | None
    fitting_sequences: Count
    pipelines: Count
    tokens_per_step: Count
    batch: Count
    context: Count
    limits: dict[str, Amount]
    limited_by: Literal["work", "memory", "latency"] | None
    tpot_s: Amount | None
    ttft_s: Amount | None
    prompt: NotRequired[PromptRow]
    users: Count | None
    sizes: list[SizeRow]
    tokens_per_s: Amount | None
    tokens_per_s_alone: Amount | None
    package_sequences: Count
    most_tokens_per_s: Amount | None


ShardedRow = TypedDict(
    "ShardedRow",
    {"node": str, "weight": str, "weight_bytes": Size, "axis": int, "pieces": list[str]},
)
"""An op that was replaced by several."""
