"""The bottleneck, idle chips and levers of a report as lines of its verdict."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mcm_compiler.additions import shown_by
from mcm_compiler.report.hardware.sensitivity_section import SENSITIVITY_SECTION
from mcm_compiler.report.records.verdict import LimitClaim, VerdictLine
from mcm_compiler.report.sentences import kernel_phrase, resource_name
from mcm_compiler.report.verdict.words import line_of
from mcm_compiler.text.units import bytes_text, count_text, percent_text, seconds_text

FULL = 0.995
"""Share of the period from which on a resource is busy all the time."""

NEAR = 0.95
"""Share of the period from which on a chip is nearly as busy."""

IDLE = 0.5
"""Share of the period below which a chip is called idle."""

WORTH = 1.02
"""Times the throughput from which on a change of hardware helps."""

ENGINES = {
    "array": "MAC array",
    "vector": "vector unit",
    "memory": "SRAM bandwidth",
    "launch": "kernel launches",
    "host": "host round trips",
    "none": "kernels without an engine",
    "fabric": "mapped units",
}
"""Engines of a chip, in words."""


def limit_of(report: Mapping[str, Any]) -> LimitClaim | None:
    """The bottleneck of a report; None where nothing was simulated or busy."""
    worst = report["bottleneck"]
    if worst is None:
        return None
    rows = [row for row in report["chips"] or () if row["utilisation"] is not None]
    shares = [row["utilisation"] for row in rows]
    engine: str | None = None
    if worst["chip"] is not None:
        own = next((row for row in rows if row["chip"] == worst["chip"]), None)
        engines = own and own.get("engine_s")  # reports of the first release lack it
        if (found := _added(report, worst["chip"])) is not None:
            engine = found[0]
        elif engines:
            engine = max(engines.items(), key=lambda item: item[1])[0]
        name = _chip_name(report, worst["chip"])
    else:
        name = resource_name(worst["source"], worst["destination"])
    return {
        "resource": name,
        "engine": engine,
        "share_of_period": worst["share_of_period"],
        "sets_period": worst.get("sets_period", True),  # likewise
        "chips_full": sum(share >= FULL for share in shares),
        "chips_near": sum(share >= NEAR for share in shares),
        "chips": len(rows),
    }


def busy_parts(row: Mapping[str, Any]) -> str:
    """The busy time of a chip by the engine that bounds it: `MAC array 92.6 %, vector unit 7.4 %`.

    Empty where it is not known, or one engine bounds all of it.
    """
    engines: Mapping[str, float] = row.get("engine_s") or {}  # likewise
    busy_s = sum(engines.values())
    shares = {name: s / busy_s for name, s in engines.items() if s > 5e-4 * busy_s}
    if len(shares) < 2:
        return ""
    parts = sorted(shares.items(), key=lambda part: -part[1])
    return ", ".join(f"{ENGINES.get(name, name)} {percent_text(share)}" for name, share in parts)


def _chip_name(report: Mapping[str, Any], chip: int) -> str:
    """The chip, or those of all replicas that do the same."""
    replication = report.get("replication") or {"replicas": 1}  # likewise
    if replication["replicas"] == 1:
        return f"chip {chip}"
    return "every chip" if replication["chips_each"] == 1 else f"chip {chip} of each replica"


def limit_line(report: Mapping[str, Any], claim: LimitClaim | None) -> VerdictLine:
    """The bottleneck in words."""
    if claim is None:
        return line_of("limited by", "unknown", ["not simulated"], "warn")
    worst, details = report["bottleneck"], list[str]()
    headline = busy = f"{claim['resource']} {percent_text(claim['share_of_period'])} busy"
    if not claim["sets_period"]:
        headline = "back-pressure: full buffers stall the chips"
        details.append(f"busiest: {busy}")
    elif worst["chip"] is not None:
        engine = ENGINES.get(claim["engine"] or "", claim["engine"] or "chip")
        rows = report["chips"] or ()
        parts = busy_parts(next((row for row in rows if row["chip"] == worst["chip"]), {}))
        if claim["chips_full"] > 1:
            full = {percent_text(s) for row in rows if (s := row["utilisation"] or 0.0) >= FULL}
            share = full.pop() if len(full) == 1 else f"above {percent_text(FULL)}"
            count = f"{claim['chips_full']} of {count_text(claim['chips'], 'chip')}"
            headline = f"{engine}: {count} {share} busy"
            details += [f"busy time of {claim['resource']}: {parts}"] if parts else []
        else:
            headline = f"{engine}: {busy}{', of which ' if parts else ''}{parts}"
        if claim["chips_near"] > max(claim["chips_full"], 1):
            details.append(f"{claim['chips_near']} chips above {percent_text(NEAR)}")
    found = None if worst["chip"] is None else _added(report, worst["chip"])
    details += _largest(worst) if found is None else found[1]
    return line_of("limited by", headline, details)


def _added(report: Mapping[str, Any], chip: int) -> tuple[str, list[str]] | None:
    added = shown_by(report)
    return None if added is None else added.busy_with(report, chip)


def _largest(worst: Mapping[str, Any]) -> list[str]:
    """Largest parts of its time."""
    if worst["heaviest_ops"]:
        op = worst["heaviest_ops"][0]
        part = percent_text(op["seconds"] / worst["busy_s"] if worst["busy_s"] else None)
        took = f"{seconds_text(op['seconds'])}, {part} of the chip's work"
        return [f"largest kernel {kernel_phrase(op)}: {took}"]
    if worst["heaviest_tensors"]:
        tensor = worst["heaviest_tensors"][0]
        return [f"largest tensor '{tensor['name']}': {bytes_text(tensor['bytes'])}"]
    return []


def idle_line(report: Mapping[str, Any]) -> VerdictLine | None:
    """Chips that do little or nothing; None where all are busy most of the time."""
    details: list[str] = []
    rows = [row for row in report["chips"] or () if row["utilisation"] is not None]
    idle = [row for row in rows if row["utilisation"] < IDLE]
    if len(rows) > 1 and idle:
        least = min(idle, key=lambda row: row["utilisation"])
        share = percent_text(1.0 - least["utilisation"])
        text = f"chip {least['chip']} is idle {share} of the time"
        need, have = least["sram_high_water_bytes"], least["sram_bytes"]
        if need is not None and have:
            text += f", its SRAM holds {bytes_text(need)} of {bytes_text(have)}"
        details.append(text)
        if len(idle) > 1:
            details.append(f"{len(idle)} of {len(rows)} chips are idle more than half of the time")
    used, chips = report["chips_used"], report["target"]["chips"]
    if used is not None and used < chips:
        details.append(f"{count_text(chips - used, 'chip')} of {chips} unused")
    return line_of("idle", details[0], details[1:]) if details else None


def next_line(report: Mapping[str, Any]) -> VerdictLine | None:
    """Changes that would make it faster: hardware where it was tried, else a move; None without."""
    rows = [r for r in report.get(SENSITIVITY_SECTION) or () if r.get("speedup") is not None]
    more = [row for row in rows if row["factor"] > 1]
    if more:
        helps = sorted((r for r in more if r["speedup"] >= WORTH), key=lambda r: -r["speedup"])
        idle = [row["resource"] for row in more if 1 / WORTH < row["speedup"] < WORTH]
        shown = [_change(row) for row in helps] or ["no single resource helps"]
        details = [*shown[1:], *([f"no effect: {', '.join(idle)}"] if idle else [])]
        return line_of("next", shown[0], details)
    moves: Sequence[Mapping[str, Any]] = (report["bottleneck"] or {}).get("moves") or ()
    best = next((move for move in moves if "gain" in move), None)
    if best is None:
        return None
    text = f"moving '{best['name']}' from chip {best['from_chip']} to chip {best['to_chip']}"
    faster = f"period {percent_text(best['gain'])} shorter ({report['cost_model']})"
    return line_of("next", text, [faster])


def _change(row: Mapping[str, Any]) -> str:
    return f"{row['factor']:g}x {row['resource']}: {row['speedup']:.2f}x"
