"""What a user can ask of a placement, validated once at the edge."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from mcm_compiler.contracts.boxes.evaluation import QueueOrder
from mcm_compiler.placed.segments import DISPATCH_S, SegmentChoice
from mcm_compiler.text.typed_options import take_types

DEFAULT_LEVEL = 2


@dataclass(frozen=True)
class PlaceOptions:
    """Options of one placement.

    Attributes:
        placer: text form, such as `local_search{restarts=4}`; None for that of the level.
        level: effort, as behind `-O`: says which placer searches, where `placer` does not, and how
            many placements may be simulated, where `evaluations` does not.
        training: text form of the pass that makes a training step of the model, such as
            `differentiate{optimizer=sgd}`; None for the model as it is.
        pins: patterns of op names and the device of the ops.
        kinds: patterns of op names and the kind of device of the ops.
        together: patterns; the ops of each run on one device.
        evaluations: placements that may be simulated; None for what the level allows.
        seed: of everything random.
        budget_s: wall time of the search, or None.
        order: which ready op a free device starts.
        times: seconds of ops that were measured, by kind of device and name of op; see
            `mcm_compiler.placed.measured_times.profiles.profiled_seconds`. They become a table for
            the cost model `table`.
        cost_models: text forms of cost models, such as `table{file=times.csv}`, by kind of device;
            those of the box hold for other kinds.
        dims: sizes of symbolic dimensions.
        shapes: full shapes of graph inputs.
        state: inputs and the outputs that the next step takes for them; None to go by names.
        segments: how segments are cut.
        dispatch_s: time that the start of a segment takes.

    Raises:
        CompileError: MCM-U004 with one diagnostic per value of another type.
    """

    placer: str | None = None
    level: int | str = DEFAULT_LEVEL
    training: str | None = None
    pins: tuple[tuple[str, str], ...] = ()
    kinds: tuple[tuple[str, str], ...] = ()
    together: tuple[str, ...] = ()
    evaluations: int | None = None
    seed: int = 0
    budget_s: float | None = None
    order: QueueOrder = "fifo"
    times: Mapping[str, Mapping[str, float]] = field(default_factory=dict[str, Mapping[str, float]])
    cost_models: Mapping[str, str] = field(default_factory=dict[str, str])
    dims: Mapping[str, int] = field(default_factory=dict[str, int])
    shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict[str, tuple[int, ...]])
    state: tuple[tuple[str, str], ...] | None = None
    segments: SegmentChoice = "fastest"
    dispatch_s: float = DISPATCH_S

    def __post_init__(self) -> None:
        take_types(self)
