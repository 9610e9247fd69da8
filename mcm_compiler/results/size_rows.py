"""A decoder with other batches, contexts and prompts than those that it was compiled for."""

from __future__ import annotations

from typing import Literal, TypedDict

from mcm_compiler.text.json_text import Amount, Size


class SizeRow(TypedDict):
    """A decoder with another batch or context, on the placement of the compile.

    Attributes:
        batch: sequences that go through together.
        context: positions that the states hold behind a step.
        status: `simulated` for the sizes of the compile; others are `estimated`, by the work of all
            kernels under the cost model and the sizes of states.
        fitting_sequences: of the package, whose states fit.
        tokens_per_s: of all sequences; null where none fits.
        tpot_s: seconds between output tokens of a sequence with those in flight; likewise.
        within_limits: whether steps keep the limits of the option `serve`.
    """

    batch: Size
    context: Size
    status: Literal["simulated", "estimated"]
    fitting_sequences: Size
    tokens_per_s: Amount | None
    tpot_s: Amount | None
    within_limits: bool


class PromptRow(TypedDict):
    """The profile of a folder that reads most tokens of a prompt in a step.

    Attributes:
        profile: its name.
        tokens: of a prompt as long as its context.
        tokens_per_step: that it reads at a time.
        ttft_s: seconds until it has read the prompt, with as many sequences in flight.
    """

    profile: str
    tokens: Size
    tokens_per_step: Size
    ttft_s: Amount
