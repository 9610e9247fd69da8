"""What a user can ask of a placement, validated once at the edge."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from mcm_compiler.contracts.boxes.evaluation import QueueOrder
from mcm_compiler.diagnostics import CompileError, Diagnostic
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
        trip_counts: how often the bodies of loops run, by name of the loop.
        state: inputs and the outputs that the next step takes for them; None to go by names.
        segments: how segments are cut.
        dispatch_s: time that the start of a segment takes.

    Raises:
        CompileError: MCM-U004 with one diagnostic per value of another type, or else out of range.
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
    trip_counts: Mapping[str, int] = field(default_factory=dict[str, int])
    state: tuple[tuple[str, str], ...] | None = None
    segments: SegmentChoice = "fastest"
    dispatch_s: float = DISPATCH_S

    def __post_init__(self) -> None:
        take_types(self)
        faults: list[str] = []
        if isinstance(self.level, int) and self.level < 0:
            faults.append(f"level is {self.level}, not at least 0")
        if self.evaluations is not None and self.evaluations < 1:
            faults.append(f"evaluations is {self.evaluations}, not at least 1")
        if not 0 <= self.seed < 2**63:
            faults.append(f"seed is {self.seed}, not between 0 and 2^63 - 1")
        if self.budget_s is not None and not 0 < self.budget_s < float("inf"):
            faults.append(f"budget_s is {self.budget_s}, not a positive number of seconds")
        if not 0 <= self.dispatch_s < float("inf"):
            faults.append(f"dispatch_s is {self.dispatch_s}, not a number of seconds from 0 on")
        if faults:
            raise CompileError([Diagnostic("MCM-U004", fault) for fault in faults])
