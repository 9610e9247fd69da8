"""The timeline of the steady state: what each chip and each link does in a few periods."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mcm_compiler.arrays.types import Floats, Longs
from mcm_compiler.contracts.program import SimulationResult, Timeline
from mcm_compiler.contracts.target import Simulates
from mcm_compiler.page import contents
from mcm_compiler.report.sentences import round_of
from mcm_compiler.report.timeline_tracks import NS_PER_S, Track, inferences_of, tracks_of
from mcm_compiler.text.units import bytes_text, count_text, percent_text, seconds_text

MAX_PLAYED = 4_000_000
"""Starts of kernels that are simulated for the picture."""

MAX_DRAWN = 60_000
"""Slices of more than one period."""

PERIODS = 4
"""That are shown where they fit."""


@dataclass(frozen=True, eq=False)
class Row:
    """Slices of one resource: M, one after another.

    Attributes:
        name: of the resource.
        kind: whether it works or carries.
        begin_s: `[M]`, ascending.
        length_s: `[M]`.
        label: `[M]`, index into the labels of the picture.
        group: `[M]`, for which inference; slices of one group have one colour.
    """

    name: str
    kind: str
    begin_s: Floats
    length_s: Floats
    label: Longs
    group: Longs


def timeline_section(compiled: contents.Compiled) -> contents.Section | None:
    """The steady state of the first pipeline; None where nothing was simulated."""
    program, target, report = compiled.program, compiled.target, compiled.report
    if program is None or report["period_s"] is None or not isinstance(target, Simulates):
        return None
    assert compiled.folder is not None
    verdict = compiled.folder.simulated(report["options"]["inferences"])
    played = _inferences(verdict, sum(len(chip.kernels) for chip in program.chips))
    timeline = target.simulator().timeline(program, played)
    rows, begin_s, span_s, first = _window(timeline, verdict.period_s, round_of(report))
    steady = verdict.steady_from is not None and first >= verdict.steady_from
    labels = [k.name for chip in program.chips for k in chip.kernels]
    labels += [program.transfers[hop.transfer].tensor for hop in timeline.hops]
    data = timeline_data(rows, labels, span_s)
    data["period"] = verdict.period_s
    data["word"] = "inference"
    periods = round(span_s / verdict.period_s)
    side = " of the first replica" if compiled.replicas > 1 else ""
    what = "the steady state" if steady else "the last inferences that were simulated"
    lead = (
        f"{count_text(periods, 'period')} of {seconds_text(verdict.period_s)}{side} in {what}, "
        f"from {seconds_text(begin_s)} after the start. A colour is an inference; where nothing is "
        "drawn the chip or link waits. Drag to move, turn the wheel or press + and - to zoom.",
    )
    view = contents.View("timeline", data, "Timeline of chips and links")
    return contents.Section("timeline", "Timeline", lead, view)


def timeline_data(rows: Sequence[Row], labels: Sequence[str], span_s: float) -> dict[str, Any]:
    """Data of drawn rows of slices."""

    def joined(parts: list[Any]) -> Any:
        return np.concatenate(parts) if parts else np.zeros(0)

    return {
        "span": span_s,
        "rows": [{"name": row.name, "kind": row.kind} for row in rows],
        "ptr": contents.pack_whole(np.cumsum([0, *(len(row.begin_s) for row in rows)])),
        "begin": contents.pack_floats(joined([row.begin_s for row in rows])),
        "length": contents.pack_floats(joined([row.length_s for row in rows])),
        "label": contents.pack_whole(joined([row.label for row in rows])),
        "group": contents.pack_whole(joined([row.group for row in rows])),
        "labels": contents.pack_texts(labels),
    }


def _inferences(verdict: SimulationResult, kernels: int) -> int:
    """How many to play so that the last periods before the last one enters are steady."""
    deep = math.ceil(2 * verdict.latency_s / verdict.period_s)
    wanted = (verdict.steady_from or verdict.inferences) + deep + PERIODS + 2
    return max(min(wanted, MAX_PLAYED // max(kernels, 1)), 2)


def _window(
    timeline: Timeline, period_s: float, classes: int
) -> tuple[list[Row], float, float, int]:
    """Rows of the last periods of which all is known, their begin, length and first period."""
    tracks = tracks_of(timeline)
    slices = timeline.kernel_start_s.shape[1] + timeline.hop_start_s.shape[1]
    periods = max(min(PERIODS, MAX_DRAWN // max(slices, 1)), 1)
    # What begins before the last inference does is complete: later ones begin after it.
    starts = np.concatenate([timeline.kernel_start_s, timeline.hop_start_s], axis=1)
    end_s = float(starts[-1].min())
    begin_s = max(end_s - periods * period_s, 0.0)
    cut = [_cut(track, inferences_of(timeline, track, classes), begin_s, end_s) for track in tracks]
    first = min((int(row.group.min()) for row in cut if row.group.size), default=0) // classes
    return [row for row in cut if row.begin_s.size], begin_s, end_s - begin_s, first


def _cut(track: Track, inferences: Longs, begin_s: float, end_s: float) -> Row:
    """The slices of a track that overlap a window, from its begin on."""
    seen = (track.end_ns > begin_s * NS_PER_S) & (track.begin_ns < end_s * NS_PER_S)
    begin = np.maximum(track.begin_ns[seen] / NS_PER_S - begin_s, 0.0)
    end = np.minimum(track.end_ns[seen] / NS_PER_S, end_s) - begin_s
    kind = "link" if track.chip is None else "chip"
    return Row(track.name, kind, begin, end - begin, track.activity[seen], inferences[seen])


KINDS = ("weight", "state", "activation", "receive", "send", "stream")
"""Kinds of buffers, in the order of the page's colours."""


def memory_section(compiled: contents.Compiled) -> contents.Section | None:
    """The memory plan of each chip; None where nothing was lowered."""
    program, target = compiled.program, compiled.target
    if program is None or target is None or not program.chips:
        return None
    limits = target.limits.sram_bytes
    buffers = [buffer for chip in program.chips for buffer in chip.buffers]
    data = {
        "kinds": list(KINDS),
        "chips": [
            {
                "chip": chip.chip,
                "name": f"chip {chip.chip}",
                "limit": limits[chip.chip],
                "need": chip.high_water_bytes,
                "kernels": len(chip.kernels),
            }
            for chip in program.chips
        ],
        "ptr": contents.pack_whole(np.cumsum([0, *(len(chip.buffers) for chip in program.chips)])),
        "address": contents.pack_sizes([b.address for b in buffers]),
        "size": contents.pack_sizes([b.size_bytes for b in buffers]),
        "first": contents.pack_whole([b.first for b in buffers]),
        "last": contents.pack_whole([b.last for b in buffers]),
        "kind": contents.pack_whole([KINDS.index(b.kind) for b in buffers]),
        "names": contents.pack_texts([b.name for b in buffers]),
        "kernels": contents.pack_texts([k.name for chip in program.chips for k in chip.kernels]),
    }
    lead = (
        "SRAM address (up) over kernel order (right); each rectangle is a live buffer. Weights and "
        "what channels need are live all the time.",
    )
    view = contents.View("memory", data, "Memory map of a chip")
    return contents.Section("memory", "Memory", lead, view, (_table(compiled),), folded=True)


def _table(compiled: contents.Compiled) -> contents.Table:
    assert compiled.program is not None
    assert compiled.target is not None
    rows: list[tuple[str, ...]] = []
    for chip in compiled.program.chips:
        by_kind = dict.fromkeys(KINDS, 0)
        for buffer in chip.buffers:
            if buffer.kind in ("weight", "receive", "send", "state", "stream"):
                by_kind[buffer.kind] += buffer.size_bytes
        limit = compiled.target.limits.sram_bytes[chip.chip]
        rows.append(
            (
                str(chip.chip),
                bytes_text(chip.high_water_bytes),
                bytes_text(limit),
                percent_text(chip.high_water_bytes / limit if limit else None),
                bytes_text(by_kind["weight"]),
                bytes_text(by_kind["receive"] + by_kind["send"]),
                bytes_text(chip.high_water_bytes - sum(by_kind.values())),
            )
        )
    heads = ("chip", "needs", "of", "share", "weights", "channels", "activations and gaps")
    return contents.Table(heads, tuple(rows), frozenset(range(7)), "SRAM of each chip")
