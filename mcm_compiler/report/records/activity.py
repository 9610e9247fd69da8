"""Activity of chips and links in the report."""

# ruff: noqa: UP013 - a row of few keys is one line here

from __future__ import annotations

from typing import Annotated, Literal, NotRequired, TypedDict

from msgspec import Meta

from mcm_compiler.text.json_text import Amount, Index, Size

Sender = Annotated[int, Meta(ge=-4)]
"""A chip; -1 is the host, -2 off-package memory, and -3 and -4 what is behind a channel of theirs
that all chips share."""

Receiver = Annotated[int, Meta(ge=-3)]
"""A chip; -1, -2 and -3 as for senders."""


class OpRow(TypedDict):
    """A kernel and how long it takes.

    Attributes:
        name: the op's name; for a fused group that of its last op.
        ops: ops that run as this one kernel.
        seconds: its time on the chip.
        kinds: types of the ops of a fused group, each once, those of the MAC array first. Reports
            of earlier releases lack it.
        layer: path that the names of these ops share; the name of the first where they share none.
            Likewise.
        launch_s: part of seconds that is launch overhead. Missing where nothing was split.
        engines_s: under cost_model, how long each engine is busy with it; they overlap. Likewise,
            and missing where the model has no engines.
        lane_ops: operations of one lane of the vector unit, products left out. Likewise.
    """

    name: str
    ops: Size
    seconds: Amount
    kinds: NotRequired[list[str]]
    layer: NotRequired[str]
    launch_s: NotRequired[Amount]
    engines_s: NotRequired[dict[str, Amount]]
    lane_ops: NotRequired[Size]


LoadedTensor = TypedDict("LoadedTensor", {"name": str, "bytes": Size})
"""A tensor on a link."""


class MoveRow(TypedDict):
    """A move of an op to another chip that makes the package faster under cost_model.

    Attributes:
        name: the op, or the last op of the fusion group.
        ops: ops that stay together with it, itself included.
        along: further ops or groups that have to go along, because they depend on it or it on them.
        from_chip: where they are.
        to_chip: where they would go.
        need_bytes: SRAM that they need there at most: weights, receive and send buffers, results.
        free_bytes: SRAM that the memory plan leaves free there.
        busy_without_s: seconds that their chip is busy per inference without them, on the
            simulator.
        busy_there_s: seconds that the other chip is busy per inference with them; relays that the
            move adds or saves are not counted.
        period_s: seconds between inferences of the package with the changed placement, under
            cost_model, all rules and pipelines counted; to be compared with analytic_period_s.
            Reports of earlier releases lack it, and list moves that help nothing.
        gain: by what share that is shorter than analytic_period_s.
    """

    name: str
    ops: NotRequired[Size]
    along: Size
    from_chip: NotRequired[Index]
    to_chip: Index
    need_bytes: Size
    free_bytes: int
    busy_without_s: float
    busy_there_s: Amount
    period_s: NotRequired[Amount]
    gain: NotRequired[float]


class PinnedMoveRow(TypedDict):
    """A move that would make the package faster, and that a pin is in the way of.

    Attributes:
        name: the op, or the last op of the fusion group.
        ops: ops that stay together with it, itself included.
        along: further ops or groups that would have to go along.
        from_chip: where they are.
        to_chip: where they would go.
        pinned: that of them which is pinned.
        pin: the pin that the user gave, as PATTERN=CHIP; null where none says so.
        period_s: as of a move.
        gain: as of a move.
    """

    name: str
    ops: Size
    along: Size
    from_chip: Index
    to_chip: Index
    pinned: str
    pin: str | None
    period_s: Amount
    gain: float


class Bottleneck(TypedDict):
    """The busiest chip or link, and what fills it.

    Attributes:
        kind: host is a link between a chip and the host, memory a channel from off-package memory
            to a chip.
        chip: the chip, where it is one.
        source: sending end of the link; -1 is the host, -2 off-package memory, -3 and -4 what is
            behind a channel of theirs that all chips share.
        destination: receiving end of the link; -1, -2 and -3 as for source.
        busy_s: seconds of work per inference.
        share_of_period: busy_s / period_s.
        sets_period: whether it is busy all the time. Where not, the period comes from a cycle of
            waits; the text names their kind.
        heaviest_ops: longest kernels of the chip, at most eight.
        heaviest_tensors: largest tensors on the link, at most three.
        moves: moves of ops to other chips that make the package faster, the best first, at most
            three; whatever the bottleneck is. Empty where none does.
        pinned_moves: moves that would, were it not for pins; likewise. Missing where there are
            none.
        text: the same in words.
    """

    kind: Literal["chip", "link", "host", "memory"]
    chip: Index | None
    source: Sender | None
    destination: Receiver | None
    busy_s: Amount
    share_of_period: Amount | None
    sets_period: bool
    heaviest_ops: list[OpRow]
    heaviest_tensors: list[LoadedTensor]
    moves: list[MoveRow]
    pinned_moves: NotRequired[list[PinnedMoveRow]]
    text: str


class ChipRow(TypedDict):
    """Activity of a chip of the first pipeline in one inference.

    Attributes:
        chip: index on the ring.
        ops: ops placed on it, clones and relays included.
        kernels: launches per inference.
        busy_s: seconds that it works per inference.
        utilisation: busy_s / period_s.
        stall_s: seconds that it waits per inference, by reason: input (what it reads was not made
            yet), link (it was made, and on its way or queueing for a link), buffer (no space to
            write to).
        engine_s: the part of busy_s that each engine set the pace of; launch is launch overhead.
        engine_utilisation: engine_s / period_s.
        weight_bytes: SRAM held by weights, at the target's storage widths.
        sram_high_water_bytes: SRAM that its memory plan needs.
        sram_bytes: SRAM that it has.
        heaviest_op: its longest kernel.
    """

    chip: Index
    ops: Size | None
    kernels: Size | None
    busy_s: Amount | None
    utilisation: Amount | None
    stall_s: dict[str, float] | None
    engine_s: dict[str, Amount] | None
    engine_utilisation: dict[str, Amount | None] | None
    weight_bytes: Size | None
    sram_high_water_bytes: Size | None
    sram_bytes: Size | None
    heaviest_op: OpRow | None


class LinkRow(TypedDict):
    """Activity of a link in one inference.

    Attributes:
        source: sending chip; -1 is the host, -2 off-package memory, -3 and -4 what is behind a
            channel of theirs that all chips share.
        destination: receiving chip; -1, -2 and -3 as for source.
        busy_s: seconds that it is taken per inference.
        utilisation: busy_s / period_s.
        bytes_per_inference: bytes that it carries per inference.
        queue_s: seconds per inference that transfers stood ready while it served others, summed
            over them.
    """

    source: Sender
    destination: Receiver
    busy_s: Amount
    utilisation: Amount | None
    bytes_per_inference: Size
    queue_s: Amount
