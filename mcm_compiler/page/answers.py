"""The answers at a glance of a compiled model: does it fit, how fast, what holds it back, why."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mcm_compiler.page.contents import Answer
from mcm_compiler.page.sources import Compiled
from mcm_compiler.report.bottleneck import resource_name
from mcm_compiler.report.hardware.sensitivity_section import SENSITIVITY_SECTION, change_text
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

_BUSY = 0.95
"""Share of the period from which on a chip is hardly less busy than the busiest."""

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
    replication = report.get("replication") or {"replicas": 1}
    if worst["chip"] is not None and replication["replicas"] > 1:
        if replication["chips_each"] == 1:
            name = "every chip"
        else:
            name += " of each pipeline"
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
        found.append(f"its longest kernel, {fused}'{ops[0]['name']}', is {part} of it")
    busy = [
        row
        for row in report["chips"] or ()
        if row["chip"] != worst["chip"] and (row["utilisation"] or 0.0) >= _BUSY
    ]
    if busy:
        count = count_text(len(busy), "other chip")
        verb = "are" if len(busy) > 1 else "is"
        found.append(f"{count} {verb} busy {percent_text(_BUSY)} of the time or more")
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
    asked = report.get(SENSITIVITY_SECTION) or ()
    rows = [row for row in asked if row.get("speedup") is not None]
    if not rows:
        return None
    further = [row for row in rows if row["factor"] > 1]
    helping = sorted(
        (row for row in further if row["speedup"] >= _WORTH), key=lambda row: -row["speedup"]
    )
    # More chips are another package; the question is first of all about the chip.
    best = next((row for row in helping if not _is_of_package(row)), next(iter(helping), None))
    details: list[str] = []
    if best is not None:
        details.append(f"the throughput with {change_text(best)}")
        details += [
            f"{row['speedup']:.2f} x with {change_text(row)}" for row in helping if row is not best
        ]
    idle = [row["resource"] for row in further if 1 / _WORTH < row["speedup"] < _WORTH]
    if idle and best is not None:
        details.append(f"twice the {_listed(idle)} brings nothing")
    details += _with_less([row for row in asked if row["factor"] < 1])
    shown = "nothing" if best is None else f"{best['speedup']:.2f} x"
    return Answer(
        "What would another chip bring?", shown, tuple(details), "plain", SENSITIVITY_SECTION
    )


def _with_less(rows: Sequence[Row]) -> list[str]:
    """What half of each resource costs: the most, and nothing."""
    ran = [row for row in rows if row.get("speedup") is not None]
    found = [f"it does not run with {change_text(row)}" for row in rows if row not in ran]
    chip = [row for row in ran if not _is_of_package(row)] or ran
    if chip and (worst := min(chip, key=lambda row: row["speedup"]))["speedup"] < 1 / _WORTH:
        found.append(f"{worst['speedup']:.2f} x with {change_text(worst)}")
    if idle := [row["resource"] for row in ran if row["speedup"] > 1 / _WORTH]:
        found.append(f"half the {_listed(idle)} costs nothing")
    return found


def _is_of_package(row: Row) -> bool:
    return all(key.startswith("package.") for key in row["keys"])


def _listed(names: Sequence[str]) -> str:
    *first, last = names
    return f"{', the '.join(first)} or the {last}" if first else last


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
