"""What was compared and proven, as the report has it."""

# ruff: noqa: UP013 - an object of JSON is one definition here, as a class it were one per key

from __future__ import annotations

from typing import NotRequired, TypedDict

from mcm_compiler.text.json_text import Amount, Index, Size

OutputRow = TypedDict(
    "OutputRow",
    {
        "output": str,
        "holds": bool,
        "bit_equal": bool,
        "max_abs_error": float | None,
        "tolerance": Amount,
    },
)
"""An output of the chips against that of the model.

Attributes:
    max_abs_error: largest absolute difference; null where it is not finite.
"""

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

StructureFacts = TypedDict(
    "StructureFacts",
    {
        "ops": Size,
        "proven": Size,
        "whole": bool,
        "unproven": list[UnprovenOp],
        "outputs": list[str],
        "unfollowed_passes": list[str],
        "model": str | None,
    },
)
"""What is proven without a run.

Attributes:
    ops: ops on all chips, constants left out; clones, relays and shards count.
    proven: ops that are proven to compute a value of the source model.
    whole: whether all ops and all graph outputs are proven.
    unproven: ops that runs alone compare.
    outputs: graph outputs that are not proven.
    unfollowed_passes: passes of the pipeline for whose changes the proof has no rule.
    model: the user's model that was read again; null where annotated.onnx was taken for it.
"""

VerificationFacts = TypedDict(
    "VerificationFacts",
    {
        "holds": bool,
        "skipped": str | None,
        "seeds": list[int],
        "outputs": list[OutputRow],
        "constant_outputs": list[str],
        "random_outputs": list[str],
        "data_sets": list[str],
        "expected": list[ExpectedRow],
        "weak_outputs": list[WeakOutput],
        "redraws": list[str],
        "session_options": dict[str, str],
        "stock_equal": bool | None,
        "structure": StructureFacts | None,
        "steps": NotRequired[Size],
    },
)
"""The chips and the model on equal inputs in onnxruntime.

Attributes:
    holds: whether all outputs agree; true where it was skipped.
    skipped: why nothing was compared.
    seeds: seeds of the random inputs.
    constant_outputs: outputs that did not change with the input.
    random_outputs: outputs that were not compared, because they depend on random numbers.
    data_sets: the user's data that were compared as well.
    expected: the chips' outputs against those that the user's data expect.
    weak_outputs: outputs that were empty, NaN, infinite or one number in all elements of every run,
        so that equal bits say nothing.
    redraws: sizes of random inputs that were drawn beside the standard normal ones, because some
        output showed nothing: small, large, positive.
    session_options: options of onnxruntime's sessions under which outputs were compared.
    stock_equal: whether all bits were equal under onnxruntime's own session options as well; null
        where that was not compared (mcmc check --model does, for folders of up to 256 MiB).
    structure: what is proven without a run.
    steps: steps of a sequence that were compared, each on the states that the one before left on
        the chips; missing where no state stays there.
"""
