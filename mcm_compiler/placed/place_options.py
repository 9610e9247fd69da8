"""Options of a placement, validated once at the edge."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, get_args

from mcm_compiler.machines.choices import QueueOrder
from mcm_compiler.options import DEFAULT_LEVEL, SET_BY_LEVEL, CompileOptions
from mcm_compiler.text.option_fields import asked, check_options, same_as

SegmentChoice = Literal["fastest", "fewest", "none"]
"""How segments are cut: for the shortest step, for the fewest dispatches, or not at all."""

DISPATCH_S = 50e-6
"""Time that the start of a segment takes where the user gives none. An assumption: the run of an
onnxruntime session of one op on a CPU takes 4 to 7 us, and where devices hand over, a process waits
for one and starts the other."""


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
            `mcm_compiler.placed.profiles.profiled_seconds`. They become a table for
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

    # fmt: off
    placer: str | None = asked(
        "text", "Search", "Placer, listed by mcmc placers, such as 'local_search{parts=4}'.",
        metavar="NAME{...}", names="PLACERS", shown=SET_BY_LEVEL,
    )
    level: int | str = asked(
        "level", "Search", "Search effort: 0 heuristic, 1 short, 2 about a minute, 3 several "
        "minutes; or a level listed by mcmc placers, or a TOML file.", DEFAULT_LEVEL, flag="-O",
        metavar="LEVEL", names="LEVELS FILE", low=0,
    )
    training: str | None = None
    pins: tuple[tuple[str, str], ...] = asked(
        "named pins", "Search", "Pin ops to a device; PATTERN may contain * and ?. Repeatable.",
        (), flag="--pin", metavar="PATTERN=DEVICE",
    )
    kinds: tuple[tuple[str, str], ...] = asked(
        "named pins", "Search", "Restrict ops to a kind of device. Repeatable.", (),
        flag="--kind", metavar="PATTERN=KIND",
    )
    together: tuple[str, ...] = asked(
        "patterns", "Search", "Keep these ops on one common device. Repeatable.", (),
        metavar="PATTERN",
    )
    evaluations: int | None = asked(
        "whole", "Search", "Maximum number of simulated placements.", low=1, high=10**9,
        shown=SET_BY_LEVEL,
    )
    seed: int = same_as(CompileOptions, "seed")
    budget_s: float | None = same_as(CompileOptions, "budget_s")
    order: QueueOrder = asked(
        "choice", "Target", "Order in which a free device starts ready ops.", "fifo",
        choices=get_args(QueueOrder),
    )
    times: Mapping[str, Mapping[str, float]] = asked(
        "profiles", "Target", "Profile from onnxruntime with times of ops on this kind of device. "
        "Repeatable.", {}, flag="--profile", metavar="KIND=FILE",
    )
    cost_models: Mapping[str, str] = asked(
        "costs by kind", "Target", "Cost model of ops on this kind of device, listed by mcmc "
        "costs, such as 'k40=table{file=times.csv}'. Repeatable.", {},
        flag="--cost-model", metavar="KIND=MODEL",
    )
    dims: Mapping[str, int] = same_as(CompileOptions, "dims")
    shapes: Mapping[str, tuple[int, ...]] = same_as(CompileOptions, "shapes")
    trip_counts: Mapping[str, int] = same_as(CompileOptions, "trip_counts")
    state: tuple[tuple[str, str], ...] | None = asked(
        "pairs", "Input", "Recurrent state kept on its device, as input=output; none for no "
        "states. Repeatable.", metavar="PAST=PRESENT", shown="detect KV-cache names",
    )
    segments: SegmentChoice = asked(
        "choice", "Search", "How the step is cut into single-device models.", "fastest",
        choices=get_args(SegmentChoice),
    )
    dispatch_s: float = asked(
        "duration", "Target", "Dispatch overhead of a segment.", DISPATCH_S,
        flag="--dispatch", shown="0.05ms",
    )
    # fmt: on

    def __post_init__(self) -> None:
        check_options(self, self._faults)

    @property
    def placer_text(self) -> str:
        """Text form of the placer that searches.

        Raises:
            CompileError: MCM-U001 to MCM-U003 for text, options and names of placers, and as
                `load_level`.
        """
        from mcm_compiler.contracts.boxes.placers import placer_of
        from mcm_compiler.contracts.levels import load_level

        text = self.placer or load_level(self.level).placer
        placer_of(text)
        return text

    def _faults(self) -> list[str]:
        if 0 <= self.dispatch_s < float("inf"):
            return []
        return [f"dispatch_s is {self.dispatch_s}, not a number of seconds from 0 on"]
