"""The report as a whole.

Keys that need not be there are those that reports of earlier releases lack.
"""

# ruff: noqa: UP013 - a row of few keys is one line here

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal, NotRequired, TypedDict

from msgspec import Meta

from mcm_compiler.machines.choices import Routing
from mcm_compiler.options import CompileOptions
from mcm_compiler.report.records import sections
from mcm_compiler.report.records.activity import Bottleneck, ChipRow, LinkRow
from mcm_compiler.report.records.verdict import StoredWidth, Verdict, VerificationFacts
from mcm_compiler.results.points import SensitivityRow
from mcm_compiler.text.json_text import Amount, Count, Extent, Index, Seed, Size
from mcm_compiler.text.option_fields import Option, options_of

_TYPES: dict[str, Any] = {
    "text": str,
    "file": str,
    "level": Index | str,
    "duration": Amount,
    "rate": Amount,
    "flag": bool,
    "switch": bool,
    "places": list[Index],
    "pins": list[tuple[str, Index]],
    "sizes": dict[str, Size],
    "limits": dict[str, Amount],
    "shapes": dict[str, list[Size]],
    "pairs": list[tuple[str, str]],
}
"""By the form of an option."""


def options_record(name: str, record: type) -> Any:
    """The `TypedDict` of the options of a record; a report of an earlier release may lack any."""
    options = [one for one in options_of(record) if one.reported != "elsewhere"]
    # The function of that name is asked for a type that no reader of the source knows.
    made: Any = TypedDict(name, {one.name: _type(one) for one in options}, total=False)  # pyright: ignore
    lines = [f"    {one.name}: {one.help}" for one in options]
    made.__doc__ = "\n".join(["Options as given; null for the default.", "", "Attributes:", *lines])
    return made


def _type(option: Option) -> Any:
    if option.form == "choice":
        kind: Any = Literal[option.choices]
    elif option.form == "whole":
        kind = Extent if option.low else Seed
    else:
        kind = _TYPES[option.form]
    return kind | None if option.default is None and option.reported == "always" else kind


Sha256 = Annotated[str, Meta(pattern="^[0-9a-f]{64}$")]

Share = Annotated[float, Meta(ge=0, le=1)]

TensorFacts = TypedDict(
    "TensorFacts", {"name": str | None, "type": str | None, "shape": list[int | str | None] | None}
)
"""An input or output of the model.

Attributes:
    name: name in the model.
    type: ONNX element type in lower case, such as float or int64; null where unknown.
    shape: sizes; a string or null is a dimension left open. Null where the rank is unknown.
"""


class GraphFacts(TypedDict):
    """Facts of the model's graph alone."""

    ops: Size
    weight_bytes: Size
    inputs: list[TensorFacts]
    outputs: list[TensorFacts]
    trip_counts: NotRequired[dict[str, Size]]


_Source = TypedDict(
    "_Source", {"name": str, "sha256": Sha256, "dims": dict[str, int], "shape_only": bool}
)


class ModelFacts(_Source, GraphFacts):
    """The model as it was given.

    Attributes:
        name: file name of the model, or zoo:NAME.
        sha256: hash of the model and its external data.
        ops: ops that some chip must run; constants are not among them.
        weight_bytes: bytes of the constants that those ops read, in the file's own types.
        trip_counts: stated trip counts of loops; reports of earlier releases lack it.
        dims: sizes that were given to symbolic dimensions.
        shape_only: true where weights are placeholders.
    """


class TargetFacts(TypedDict):
    """The package that the model was compiled for.

    Attributes:
        name: name of the package.
        sha256: hash of its description.
        family: the family of machines, where the package is no ring.
        chips: chips of the package.
        sram_bytes: SRAM of each chip.
    """

    name: str
    sha256: Sha256
    family: NotRequired[str]
    chips: Size
    sram_bytes: list[Size]


if TYPE_CHECKING:
    OptionsFacts = dict[str, Any]
else:
    OptionsFacts = options_record("OptionsFacts", CompileOptions)


class CountFacts(TypedDict):
    """A number of replicas that was looked at.

    Attributes:
        replicas: pipelines.
        chips_each: chips of each.
        analytic_period_s: seconds per inference of the package under cost_model, with a first
            partition of one pipeline; null where none was found, or none that fits.
        simulated_period_s: the same on the simulator; null where it was not asked.
        lower_bound_s: seconds per inference of the package that no partition with this number of
            replicas can undercut, under cost_model; null where it is ruled out.
        bound_proof: name of the kind of argument of lower_bound_s.
        ruled_out: code of the diagnostic that proves that no pipeline fits these chips; null where
            nothing does.
    """

    replicas: Count
    chips_each: Count
    analytic_period_s: Amount | None
    simulated_period_s: NotRequired[Amount | None]
    lower_bound_s: NotRequired[Amount | None]
    bound_proof: NotRequired[str | None]
    ruled_out: NotRequired[str | None]


RoleRow = TypedDict(
    "RoleRow",
    {"chip": Index, "pipeline": Index, "runs": Index, "classes": NotRequired[list[Index]]},
)
"""Role of a chip of the package.

Attributes:
    chip: place in the package.
    pipeline: the pipeline that it belongs to.
    runs: the chip of one pipeline whose model it runs: chip_NN.onnx.
    classes: of the inferences of a round that it serves; missing without rounds.
"""


class ReplicationFacts(TypedDict):
    """Replicas of the pipeline.

    Attributes:
        replicas: pipelines that take inferences in turn.
        chips_each: chips that each of them may use; chip r * chips_each + c runs the model of chip
            c.
        pipeline_period_s: seconds between two inferences of one pipeline, from period_model.
        pipeline_bound_s: proven lower bound on the period of every valid partition of one pipeline,
            under cost_model.
        round: inferences that each pipeline computes together; missing where it is 1. Seconds of
            one pipeline, of its chips and links, and bytes of links are then those of a round.
        simulated_replicas: replicas that were simulated in place of all, with the transfers of all
            over shared channels; missing where none stands for others.
        considered: all numbers of pipelines that count: any other leaves each pipeline as many
            chips as a larger one that is listed.
        chips: what every used chip of the package runs, all pipelines included; reports of earlier
            releases lack it.
    """

    replicas: Count
    chips_each: Count
    pipeline_period_s: Amount | None
    pipeline_bound_s: Amount | None
    round: NotRequired[Count]
    simulated_replicas: NotRequired[Count]
    considered: list[CountFacts]
    chips: NotRequired[list[RoleRow]]


CloneRow = TypedDict("CloneRow", {"node": str, "clone": str, "chip": Index})
"""An op that was copied to a further chip."""

RelayRow = TypedDict("RelayRow", {"tensor": str, "relay": str, "chip": Index})
"""An op that passes a tensor on."""


class DiagnosticRow(TypedDict):
    """A warning or note."""

    severity: Literal["error", "warning", "note"]
    code: str
    message: str
    at: str | None
    hint: str | None


CoverageFacts = TypedDict(
    "CoverageFacts",
    {
        "ops": Size,
        "measured_ops": Size,
        "measured_share": Share,
        "period_deviation": NotRequired[Amount],
    },
)
"""How much of the chips' time was measured.

Attributes:
    ops: ops of one pipeline.
    measured_ops: those whose time was measured, alone or with their kernel.
    measured_share: share of the seconds of all kernels that was measured.
    period_deviation: share by which the period may be longer, by repeat errors of measured times
        and the error of computed ones; missing where neither is known.
"""

CostChoice = TypedDict("CostChoice", {"model": str, "files": dict[str, str]})
"""Choice of a cost model by name."""


class ChosenCosts(CostChoice):
    """The cost model that was chosen by name.

    Attributes:
        model: its text form; files are those of the output folder.
        files: SHA-256 of its files by their names in the output folder.
        coverage: how much was measured; null where all times are computed, or nothing was split.
            Copies and relays are not counted.
    """

    coverage: CoverageFacts | None


class _Inputs(TypedDict):
    schema_version: Literal[1]
    model: ModelFacts
    target: TargetFacts
    strategy: str | None
    found_by: str | None
    routing: Routing
    seed: Seed
    pipeline: str
    options: NotRequired[OptionsFacts]
    option_sources: NotRequired[dict[str, str]]


class _Figures(TypedDict):
    throughput_per_s: Amount | None
    period_s: Amount | None
    latency_s: Amount | None
    period_model: str | None
    inferences: Size | None
    steady_from: Size | None
    analytic_period_s: Amount | None
    cost_model: str | None
    lower_bound_s: Amount | None
    bound_argument: str | None
    bound_proof: str | None
    gap: float | None
    analytic_gap: float | None
    divisions: NotRequired[sections.DivisionFacts]
    learned_gain: Amount | None
    bottleneck: Bottleneck | None


class _Parts(TypedDict):
    chips_used: Size | None
    replication: NotRequired[ReplicationFacts | None]
    chips: list[ChipRow]
    links: list[LinkRow] | None
    clones: list[CloneRow] | None
    relays: list[RelayRow] | None
    sharded_operators: list[sections.ShardedRow] | None
    verification: VerificationFacts | None
    diagnostics: list[DiagnosticRow]
    versions: dict[str, str | None]
    chosen_cost_model: NotRequired[ChosenCosts]
    host_fallback: NotRequired[sections.HostFacts]
    states: NotRequired[sections.StateFacts]
    fabrics: NotRequired[sections.FabricFacts]
    objective: NotRequired[sections.ObjectiveFacts]
    energy: NotRequired[sections.EnergyFacts]
    sensitivities: NotRequired[list[SensitivityRow]]
    stored_widths: NotRequired[list[StoredWidth]]
    verdict: NotRequired[Verdict]
    assumed_trips: NotRequired[dict[str, Size]]


class Report(_Inputs, _Figures, _Parts):
    """`report.json` of a compiled folder. A field is null where the pipeline did not compute it.

    Attributes:
        schema_version: version of this schema.
        model: the model as it was given.
        target: the package that the model was compiled for.
        strategy: text form of the partition strategy that found the partition.
        found_by: the member of a portfolio that was the first to find the partition; null for other
            strategies.
        routing: the rule for long dependencies that the partition is valid under.
        seed: seed of everything random.
        pipeline: text form of the passes that ran.
        options: the options of the compile; reports of the first release lack them.
        option_sources: by name of an option, what gave its value: `command line`, `mcmc.toml`, or
            `command line, over mcmc.toml` where both give one. All others have their defaults.
            In builds of a project only: a compile of its own has one source, and equal options
            give equal bytes from the command line and from Python code.
        throughput_per_s: inferences per second in steady state; the inverse of period_s.
        period_s: seconds between two inferences that leave the package in steady state, from
            period_model; with several replicas, that of one divided by their number.
        latency_s: seconds from the start of one inference to its last output in an otherwise empty
            package, from period_model.
        period_model: name of the simulator that period_s, latency_s, chips and links come from.
        inferences: inferences that were simulated.
        steady_from: the inference from which on all starts repeat with the period; null where they
            do not within the inferences that were simulated, so that period_s is the maximum cycle
            ratio of the event graph.
        analytic_period_s: period of the partition under cost_model.
        cost_model: name of the analytic model that analytic_period_s and lower_bound_s come from.
        lower_bound_s: proven lower bound on the seconds per inference of every valid partition, and
            of every number of equal pipelines where that was free to choose and the first choice
            ran, under cost_model.
        bound_argument: why the bound holds. It is a limit that nothing can beat, and says nothing
            of how to come near it.
        bound_proof: kind of the argument, as a checker of bounds knows it: heaviest_unit,
            total_work, fractional_work, indivisible_work, copied_weights, host_transfers,
            streamed_weights, tensors_too_large_to_cross, outputs_passed_on, work_around_a_unit,
            chain_of_units, heavy_chains, windows, packed_windows, link_cuts, ideals, cpsat; null
            where the strategy names none.
        gap: period_s / lower_bound_s - 1. The two come from different models, so that it can be
            negative; it is no space that is known to be there.
        analytic_gap: analytic_period_s / lower_bound_s - 1: how far from optimal the partition can
            be at most, under cost_model.
        learned_gain: throughput that learned search added to that of the best partition of the
            classical strategies, as a share of it, by the measure that the partition was chosen by.
            0 where it found no better one, null where no policy has learned.
        bottleneck: the busiest chip or link.
        chips_used: chips with at least one op, those of all pipelines together.
        replication: replicas, each with the programs of the first one on chips of its
            own; reports of earlier releases lack it.
        chips: one entry per used chip of the first pipeline, ascending.
        links: one entry per used link, host links included. A channel that all chips share has the
            seconds and bytes of all replicas.
        clones: ops that were copied to a further chip that reads them.
        relays: identity ops that pass a tensor on.
        sharded_operators: ops that were replaced by several because their weight fits no chip.
        verification: the chips and the model on equal inputs in onnxruntime.
        diagnostics: warnings and notes.
        versions: versions of the distributions that decide the result, and of Python; null where
            not installed.
        chosen_cost_model: the cost model that was chosen by name; missing where the target's own
            holds.
        host_fallback: what the host runs because chips lack it; missing where they run everything.
        fabrics: how chips are laid out that are fabrics; missing where they are none.
        divisions: bound over all divisions of kernels, numbers of copies and placements; missing
            where none is known.
        objective: what was to be small, the value of the placement, and its bound; missing where
            that is the plain period, which lower_bound_s and gap are about in any case.
        energy: joules of an inference by chip and kind; missing where the target says nothing of
            energy, or nothing was simulated.
        assumed_trips: trip counts of loops that times assume, because data decide them; bounds and
            gaps are then null. Missing where all counts are known.
        sensitivities: what twice and half of each resource of the target would bring; missing
            where nobody asked.
        stored_widths: types that chips store in another width than the file; reports of earlier
            releases lack it.
        verdict: the claims of the headline, derived from the other fields; likewise.
        states: what stays on the chips from one inference of a sequence to the next, and tokens per
            second; missing where there is nothing of the kind. Inferences are then steps of
            sequences, and not independent: throughput_per_s and period_s are those of all sequences
            in flight.
    """
