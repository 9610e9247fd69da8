"""The answers at a glance of a compiled model: does it fit, how fast, what holds it back, why."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mcm_compiler.page.contents import Answer
from mcm_compiler.page.further_views import SENSITIVITIES, change_text
from mcm_compiler.page.sources import Compiled
from mcm_compiler.report.bottleneck import resource_name
from mcm_compiler.report.sentences import replication_phrase, verification_sentence
from mcm_compiler.report.state_section import state_sentences, throughput_text
from mcm_compiler.text.units import bytes_text, count_text, percent_text, seconds_text

Row = Mapping[str, Any]

ENGINES = {
    "array": "the array of multipliers",
    "vector": "the vector unit",
    "memory": "the bandwidth of its SRAM",
    "launch": "the launches of kernels",
    "host": "waiting for the host",
    "none": "kernels without an engine",
}
"""What sets the pace of a kernel, in words."""

STALLS = {
    "input": "for what it reads to be made",
    "link": "for what it reads to arrive",
    "buffer": "for room to write to",
}
"""Why a chip waits, in words."""

_WORTH = 1.02
"""Times the throughput from which on a change of the chip is told as one that helps."""

_NEAR = 0.05
"""A gap of which one need not look for more."""


def answers_of(compiled: Compiled) -> tuple[Answer, ...]:
    """The answers, in the order in which one asks."""
    report = compiled.report
    found = (
        _fits(report),
        _speed(report),
        _bottleneck(report),
        _gap(report),
        _change(report),
        _right(report),
        _deploy(compiled),
    )
    return tuple(answer for answer in found if answer is not None)


def _fits(report: Row) -> Answer:
    rows = [row for row in report["chips"] or () if row["sram_bytes"]]
    planned = [row for row in rows if row["sram_high_water_bytes"] is not None]
    chips = f"{report['chips_used'] or 0} of {count_text(report['target']['chips'], 'chip')} used"
    details = [chips]
    if (phrase := replication_phrase(report)) is not None:
        details.append(phrase)
    if not planned:
        return Answer("Does it fit?", "not planned", tuple(details), "warn")
    fullest = max(planned, key=lambda row: row["sram_high_water_bytes"] / row["sram_bytes"])
    need, have = fullest["sram_high_water_bytes"], fullest["sram_bytes"]
    details.insert(
        0,
        f"the fullest, chip {fullest['chip']}, holds {bytes_text(need)} of {bytes_text(have)} "
        f"({percent_text(need / have)})",
    )
    fits = need <= have
    return Answer(
        "Does it fit?", "yes" if fits else "no", tuple(details), "good" if fits else "bad", "memory"
    )


def _speed(report: Row) -> Answer:
    if report["throughput_per_s"] is None:
        analytic = report["analytic_period_s"]
        details = (f"not simulated; under the cost model a period of {seconds_text(analytic)}",)
        return Answer("How fast is it?", "not simulated", details, "warn")
    details = [
        f"one inference every {seconds_text(report['period_s'])}",
        f"latency {seconds_text(report['latency_s'])}, from the first input to the last output",
        *(f"{label}: {text}" for label, text in state_sentences(report)),
    ]
    return Answer("How fast is it?", throughput_text(report), tuple(details), "plain", "timeline")


def _bottleneck(report: Row) -> Answer | None:
    worst = report["bottleneck"]
    if worst is None:
        return None
    if worst["chip"] is not None:
        name = f"chip {worst['chip']}"
    else:
        name = resource_name(worst["source"], worst["destination"])
    details = [f"busy {percent_text(worst['share_of_period'])} of the time", *_cause(report, worst)]
    return Answer("What holds it back?", name, tuple(details), "warn", "bottleneck")


def _cause(report: Row, worst: Row) -> list[str]:
    """Why the bottleneck is one."""
    if not worst["sets_period"]:
        return ["nothing is busy all the time: a cycle of waits for buffers sets the period"]
    if worst["chip"] is None:
        tensors = worst["heaviest_tensors"]
        if not tensors:
            return []
        return [
            f"its largest tensor, '{tensors[0]['name']}', has {bytes_text(tensors[0]['bytes'])}"
        ]
    found: list[str] = []
    row = next((r for r in report["chips"] or () if r["chip"] == worst["chip"]), None)
    engines = row and row.get("engine_s")  # reports of the first release lack it
    if row and engines and row["busy_s"]:
        engine, seconds = max(engines.items(), key=lambda item: item[1])
        part = percent_text(seconds / row["busy_s"])
        found.append(f"{ENGINES.get(engine, engine)} sets the pace of {part} of its work")
    if ops := worst["heaviest_ops"]:
        part = percent_text(ops[0]["seconds"] / worst["busy_s"] if worst["busy_s"] else None)
        fused = f"{ops[0]['ops']} fused ops up to " if ops[0]["ops"] > 1 else ""
        found.append(f"{part} of it is {fused}'{ops[0]['name']}'")
    return found


def _gap(report: Row) -> Answer:
    gap, bound_s = report["gap"], report["lower_bound_s"]
    if bound_s is None:
        return Answer("How far from the optimum?", "not known", ("no bound was proven",), "warn")
    if gap is None:
        gap = report["analytic_gap"]
    side = "above" if gap is None or gap >= 0 else "below"
    details = [
        f"{side} the proven bound: no partition of this package has a period of less than "
        f"{seconds_text(bound_s)} under the cost model {report['cost_model']}"
    ]
    near = gap is not None and gap <= _NEAR
    if near:
        details.append("a better partition can hardly gain more; another package could")
    tone = "good" if near else "plain"
    shown = percent_text(None if gap is None else abs(gap))
    return Answer("How far from the optimum?", shown, tuple(details), tone, "bound")


def _change(report: Row) -> Answer | None:
    """What another chip would bring; None where nobody asked."""
    rows = [r for r in report.get(SENSITIVITIES) or () if r.get("speedup") is not None]
    if not rows:
        return None
    best = max(rows, key=lambda row: row["speedup"])
    least = min(rows, key=lambda row: row["speedup"])
    question = "What would another chip bring?"
    details = [f"{change_text(least)}: {least['speedup']:.2f} times the throughput"]
    if best["speedup"] < _WORTH:
        shown = "twice of nothing helps"
    else:
        shown = f"{best['speedup']:.2f} x"
        details.insert(0, f"the throughput with {change_text(best)}")
    return Answer(question, shown, tuple(details), "plain", SENSITIVITIES)


def _right(report: Row) -> Answer:
    verification = report["verification"]
    text = verification_sentence(verification)
    first, *rest = text.split("; ")
    if verification is None or verification["skipped"] is not None:
        return Answer("Does it compute the same?", "not compared", (first, *rest), "warn")
    if not verification["holds"]:
        return Answer("Does it compute the same?", "no", (first, *rest), "bad", "verification")
    exact = all(o["bit_equal"] for o in verification["outputs"])
    shown = "to the bit" if exact else "within its tolerance"
    return Answer("Does it compute the same?", shown, (first, *rest), "good", "verification")


def _deploy(compiled: Compiled) -> Answer | None:
    if compiled.folder is None:
        return None
    entries = compiled.folder.manifest.chips
    if not entries:
        return None
    first, last = entries[0].file, entries[-1].file
    shown = first if len(entries) == 1 else f"{first} to {last}"
    details = [
        f"{count_text(len(entries), 'plain ONNX model')}, with the .data files beside, that stock "
        "onnxruntime runs",
        "manifest.json says which tensor goes from where to where",
    ]
    if compiled.replicas > 1:
        details.insert(1, f"each runs on {compiled.replicas} chips, one of every pipeline")
    return Answer("What do I deploy?", shown, tuple(details), "plain", "files")
