"""The claims of a report, and the comparison that they rest on."""

# ruff: noqa: UP013 - a row of few keys is one line here

from __future__ import annotations

from typing import Literal, NotRequired, TypedDict

from mcm_compiler.report.records.sections import ObjectiveUnit
from mcm_compiler.text.json_text import Amount, Count, Index, Size


class OutputRow(TypedDict):
    """An output of the chips against that of the model.

    Attributes:
        max_abs_error: largest absolute difference; null where it is not finite.
    """

    output: str
    holds: bool
    bit_equal: bool
    max_abs_error: float | None
    tolerance: Amount


ExpectedRow = TypedDict(
    "ExpectedRow", {"data_set": str, "output": str, "holds": bool, "max_abs_error": float | None}
)
"""An output of the chips against what the user's data expect.

Attributes:
    max_abs_error: null where it is not finite.
"""

WeakOutput = TypedDict("WeakOutput", {"output": str, "why": str})
"""An output whose equal bits say nothing.

Attributes:
    why: what the output was.
"""

UnprovenOp = TypedDict(
    "UnprovenOp", {"chip": Index, "node": str, "op_type": str, "origin": str, "what": str}
)
"""An op that structure does not prove.

Attributes:
    origin: the op of the source model that it says it comes from; empty where it says none.
    what: how it differs.
"""


class StructureFacts(TypedDict):
    """The proof without a run.

    Attributes:
        ops: ops on all chips, constants left out; clones, relays and shards count.
        proven: ops that are proven to compute a value of the source model.
        whole: whether all ops and all graph outputs are proven.
        unproven: ops that runs alone compare.
        outputs: graph outputs that are not proven.
        unfollowed_passes: passes of the pipeline for whose changes the proof has no rule.
        model: the user's model that was read again; null where annotated.onnx was taken for it.
    """

    ops: Size
    proven: Size
    whole: bool
    unproven: list[UnprovenOp]
    outputs: list[str]
    unfollowed_passes: list[str]
    model: str | None


class VerificationFacts(TypedDict):
    """The chips and the model on equal inputs in onnxruntime.

    Attributes:
        holds: whether all outputs agree; true where it was skipped.
        skipped: why nothing was compared.
        seeds: seeds of the random inputs.
        constant_outputs: outputs that did not change with the input.
        random_outputs: outputs that were not compared, because they depend on random numbers.
        data_sets: the user's data that were compared as well.
        expected: the chips' outputs against those that the user's data expect.
        weak_outputs: outputs that were empty, NaN, infinite or one number in all elements of every
            run, so that equal bits say nothing.
        redraws: sizes of random inputs that were drawn next to the standard normal ones, because
            some output showed nothing: small, large, positive.
        session_options: options of onnxruntime's sessions under which outputs were compared.
        stock_equal: whether all bits were equal under onnxruntime's own session options as well;
            null where that was not compared (mcmc check --model does, for folders of up to 256
            MiB).
        structure: what is proven without a run.
        steps: steps of a sequence that were compared, each on the states that the one before left
            on the chips; missing where no state stays there.
        classes: of inferences in a round, all of which were compared; missing where it is 1.
    """

    holds: bool
    skipped: str | None
    seeds: list[int]
    outputs: list[OutputRow]
    constant_outputs: list[str]
    random_outputs: list[str]
    data_sets: list[str]
    expected: list[ExpectedRow]
    weak_outputs: list[WeakOutput]
    redraws: list[str]
    session_options: dict[str, str]
    stock_equal: bool | None
    structure: StructureFacts | None
    steps: NotRequired[Size]
    classes: NotRequired[Count]


Tone = Literal["good", "warn", "bad", "plain"]
"""How a line is meant."""

StoredWidth = TypedDict("StoredWidth", {"type": str, "file_bits": Amount, "stored_bits": Amount})
"""An element type that chips store in another width than the file.

Attributes:
    type: ONNX element type in lower case.
    file_bits: bits of an element in the file.
    stored_bits: bits of an element in SRAM and on links.
"""


class FitClaim(TypedDict):
    """The fit of the chips' memory plans in their SRAM.

    Attributes:
        fits: null where no memory was planned.
        chips_used: chips with at least one op, of all replicas.
        chips: of the package.
        fullest_chip: the chip of the first replica whose plan takes the largest share of its SRAM.
        fullest_bytes: SRAM that its plan takes.
        fullest_sram_bytes: SRAM that it has.
        file_weight_bytes: weights in the file's own types.
        stored_weight_bytes: weights of one replica in its chips' SRAM, copies included; null where
            no memory was planned.
        stored_widths: types that chips store in another width than the file; empty where there is
            none.
    """

    fits: bool | None
    chips_used: Size | None
    chips: Size
    fullest_chip: Index | None
    fullest_bytes: Size | None
    fullest_sram_bytes: Size | None
    file_weight_bytes: Size
    stored_weight_bytes: Size | None
    stored_widths: list[StoredWidth]


LatencyLoad = Literal["one inference, empty package", "one round, empty package"]


class RateClaim(TypedDict):
    """How fast the package is.

    Attributes:
        throughput_per_s: inferences per second of the loaded package in steady state, simulated.
        period_s: its inverse.
        latency_s: from the start of one inference to its last output, simulated.
        latency_load: the load under which latency_s holds.
        replicas: of the pipeline, at the same time.
        chips_each: chips that each of them may use.
        round: inferences that each of them computes together; missing where it is 1.
        simulator: that the figures come from; null where nothing was simulated.
    """

    throughput_per_s: Amount | None
    period_s: Amount | None
    latency_s: Amount | None
    latency_load: LatencyLoad
    replicas: Count
    chips_each: Size | None
    round: NotRequired[Count]
    simulator: str | None


class OptimalityClaim(TypedDict):
    """How far from the optimum the result can be at most.

    Attributes:
        status: proven: `mcmc check` repeats the proof; stated: by a strategy, without a proof that
            can be repeated; none: there is no bound, or something makes it meaningless.
        of: the quantity, such as `period`.
        unit: of reached and bound.
        reached: the result, under `model`.
        bound: no result within the scope is below it, under `model`.
        gap: reached / bound - 1.
        model: the model under which both hold.
        model_kind: of that model; null where there is none. Reports of earlier releases lack it.
        proof: kind of the argument.
        scope: the results that the bound is about, as phrases; without a bound why there is none,
            where there is a reason.
        simulated_over_model: simulated period over that under the cost model, less 1; null where
            one is unknown, or both are one model.
    """

    status: Literal["proven", "stated", "none"]
    of: str
    unit: ObjectiveUnit
    reached: Amount | None
    bound: Amount | None
    gap: float | None
    model: str | None
    model_kind: NotRequired[Literal["cost model", "simulator"] | None]
    proof: str | None
    scope: list[str]
    simulated_over_model: float | None


class LimitClaim(TypedDict):
    """The bottleneck.

    Attributes:
        resource: the busiest chip or channel.
        engine: the engine that takes most of its time, where it is a chip.
        share_of_period: of its busy time.
        sets_period: whether it is busy all the time; otherwise back-pressure sets the period.
        chips_full: chips of the first replica that are busy all the time.
        chips_near: those that are busy 95 % of the time or more.
        chips: used chips of the first replica.
    """

    resource: str
    engine: str | None
    share_of_period: Amount | None
    sets_period: bool
    chips_full: Size
    chips_near: Size
    chips: Size


class VerifiedClaim(TypedDict):
    """The comparison of the chips' models with the source model in onnxruntime.

    Attributes:
        state: of all outputs together.
        precision: both sides run as ONNX models at the precision of the file, whatever width the
            chips store.
        outputs: compared.
        random_inputs: compared on.
        data_sets: of the user's, likewise.
        ops_matched: ops on the chips, constants aside, that are proven by structure to be the
            source's.
        ops: ops on the chips of one replica, constants aside, copies and relays included; null
            where nothing was proven by structure.
    """

    state: Literal["bit-identical", "within tolerance", "failed", "skipped", "not run"]
    precision: Literal["file"]
    outputs: Size
    random_inputs: Size
    data_sets: Size
    ops_matched: Size | None
    ops: Size | None


VerdictLine = TypedDict(
    "VerdictLine", {"label": str, "headline": str, "details": list[str], "tone": Tone}
)
"""One line of the headline, as every surface shows it.

Attributes:
    label: the claim, in a word.
    headline: its figure or answer.
    details: conditions, scope and reasons.
    tone: how it is meant.
"""


class Verdict(TypedDict):
    """All claims of a report's headline.

    Every surface renders `lines`, and words no claim of its own.

    Attributes:
        basis: where the figures come from.
        good: whether the model fits and every comparison that ran holds.
        fit: memory.
        rate: speed.
        optimality: gap to a bound, with scope and model.
        limit: the bottleneck; null where nothing was simulated.
        verified: equality with the source model.
        lines: the same in words.
    """

    basis: str
    good: bool
    fit: FitClaim
    rate: RateClaim
    optimality: OptimalityClaim
    limit: LimitClaim | None
    verified: VerifiedClaim
    lines: list[VerdictLine]
