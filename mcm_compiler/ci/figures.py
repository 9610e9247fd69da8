"""The figures of a compile that a later compile is compared with."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from mcm_compiler.graph.rounds import class_of, without_class
from mcm_compiler.results.op_times import OpTime


@dataclass(frozen=True)
class ModelFigures:
    """Identity key of a model.

    Attributes:
        sha256: hash of its file.
        ops: in it.
        weight_bytes: its weights.
    """

    sha256: str
    ops: int
    weight_bytes: int


@dataclass(frozen=True)
class Figures:
    """Figures of one report about speed and about what speed depends on.

    Attributes:
        throughput_per_s: inferences per second.
        period_s: its inverse.
        lower_bound_s: proven bound on the period, or None.
        gap: distance of the period from the bound, or None.
        model: that was compiled.
        target: name of the package.
        target_sha256: hash of its description.
        options: options and models of cost and time that the figures depend on, by name.
        versions: of the distributions, by name.
        chips_used: chips with ops, or None.
        chip_busy_s: all chips' work per inference.
        link_bytes: bytes over all links per inference.
        added: numbers of ops by why they were added: relays, clones, sharded operators.
        bottleneck: the busiest resource in words, or None.
        bottleneck_busy_s: its work per inference, or None.
        ops: times of kernels, by name; the heaviest of each chip only, unless `all_ops`.
        all_ops: whether `ops` has every kernel.
        bound_proof: kind of argument of the bound, or None.
        pipelines: side by side.
        words: what one of the parts is called, and what is counted per second.
    """

    throughput_per_s: float
    period_s: float
    lower_bound_s: float | None
    gap: float | None
    model: ModelFigures
    target: str
    target_sha256: str
    options: Mapping[str, str]
    versions: Mapping[str, str]
    chips_used: int | None
    chip_busy_s: float
    link_bytes: int
    added: Mapping[str, int]
    bottleneck: str | None
    bottleneck_busy_s: float | None
    ops: Mapping[str, OpTime]
    all_ops: bool
    bound_proof: str | None = None
    pipelines: int = 1
    words: tuple[str, str] = ("chip", "inference")


def figures_of(report: Mapping[str, Any], op_times: tuple[OpTime, ...] | None) -> Figures:
    """Reads the figures of a report.

    Args:
        report: as from `build_report`, or as stored by an earlier release.
        op_times: the time of every kernel, or None where only the report is at hand.

    Raises:
        AttributeError, KeyError, TypeError, ValueError: where a field is missing or malformed, or
            where there is no throughput; `read_baseline` turns these into a diagnostic.
    """
    model, target, worst = report["model"], report["target"], report["bottleneck"]
    chips: list[Mapping[str, Any]] = list(report["chips"] or ())
    classes = int((report.get("replication") or {}).get("round") or 1)
    heaviest = _heaviest(chips, worst)
    labels = {op.name: op.label for op in heaviest}
    times = heaviest if op_times is None else op_times
    times = tuple(replace(op, label=op.label or labels.get(op.name, "")) for op in times)
    busy_s = None if worst is None else _number(worst["busy_s"])
    return Figures(
        throughput_per_s=_positive(report["throughput_per_s"], "throughput_per_s"),
        period_s=_positive(report["period_s"], "period_s"),
        lower_bound_s=_number(report["lower_bound_s"]),
        gap=_number(report["gap"]),
        model=ModelFigures(str(model["sha256"]), int(model["ops"]), int(model["weight_bytes"])),
        target=str(target["name"]),
        target_sha256=str(target["sha256"]),
        options=_options(report) | ({"round": str(classes)} if classes > 1 else {}),
        versions={str(k): str(v) for k, v in report["versions"].items()},
        chips_used=None if report["chips_used"] is None else int(report["chips_used"]),
        chip_busy_s=math.fsum(_number(chip["busy_s"]) or 0.0 for chip in chips) / classes,
        link_bytes=sum(int(k["bytes_per_inference"]) for k in report["links"] or ()) // classes,
        added={
            "relays": len(report["relays"] or ()),
            "clones": len(report["clones"] or ()),
            "sharded operators": len(report["sharded_operators"] or ()),
        },
        bottleneck=None if worst is None else _resource(worst),
        bottleneck_busy_s=None if busy_s is None else busy_s / classes,
        ops=_by_name(times, classes),
        all_ops=op_times is not None,
        # Reports of the first release lack both.
        bound_proof=_text(report.get("bound_proof")),
        pipelines=int((report.get("replication") or {}).get("replicas") or 1),
    )


def stored_op_times(program: Mapping[str, Any]) -> tuple[OpTime, ...]:
    """Op times of a stored `program.json`, of which nothing else is read.

    Raises:
        KeyError, TypeError, ValueError: where a field is missing or malformed.
    """
    return tuple(
        OpTime(
            str(kernel["name"]),
            int(chip["chip"]),
            len(kernel["nodes"]),
            _finite(float(kernel["duration_s"])),
        )
        for chip in program["chips"]
        for kernel in chip["kernels"]
    )


_SEARCH_OPTIONS = ("chips", "samples", "budget_s")
"""Options that a report has nowhere else."""


def _options(report: Mapping[str, Any]) -> dict[str, str]:
    given = report.get("options") or {}  # reports of the first release lack it
    extra = {name: _option_text(given[name]) for name in _SEARCH_OPTIONS if name in given}
    if "shapes" in given:
        shapes = [f"{k}={','.join(map(str, v))}" for k, v in given["shapes"].items()]
        extra["shape"] = " ".join(shapes) or "none"
    return {
        **extra,
        "partitioner": str(report["strategy"]),
        "routing": str(report["routing"]),
        "passes": str(report["pipeline"]),
        "seed": str(report["seed"]),
        "inferences": str(report["inferences"]),
        "dim": ",".join(f"{k}={v}" for k, v in report["model"]["dims"].items()) or "none",
        "cost model": str(report["cost_model"]),
        "simulator": str(report["period_model"]),
    }


def _option_text(value: Any) -> str:
    return "none" if value is None else str(value)


def _heaviest(chips: list[Mapping[str, Any]], worst: Any) -> tuple[OpTime, ...]:
    from mcm_compiler.report.sentences import kernel_phrase

    rows = [(chip["chip"], chip["heaviest_op"]) for chip in chips if chip["heaviest_op"]]
    known = {(int(chip), str(op["name"])) for chip, op in rows}
    if worst is not None and worst["chip"] is not None:
        further = [(worst["chip"], op) for op in worst["heaviest_ops"]]
        rows += [(c, op) for c, op in further if (int(c), str(op["name"])) not in known]
    return tuple(
        OpTime(
            str(op["name"]),
            int(chip),
            int(op["ops"]),
            _finite(float(op["seconds"])),
            kernel_phrase(op),
        )
        for chip, op in rows
    )


def _by_name(times: tuple[OpTime, ...], classes: int) -> dict[str, OpTime]:
    """Times by name; those of all classes of a round count together, per inference."""
    found: dict[str, OpTime] = {}
    for op in times:
        own = class_of(op.name) if classes > 1 else None
        name, label = op.name, op.label
        if own is not None:
            name, label = own[0], without_class(label, own[1])
        before = found.get(name) or replace(op, name=name, seconds=0.0, label="")
        seconds = before.seconds + op.seconds / classes
        found[name] = replace(before, seconds=seconds, label=before.label or label)
    return found


def _resource(worst: Mapping[str, Any]) -> str:
    from mcm_compiler.report.sentences import resource_name

    if worst["chip"] is not None:
        return f"chip {int(worst['chip'])}"
    return resource_name(int(worst["source"]), int(worst["destination"]))


def _text(value: Any) -> str | None:
    return None if value is None else str(value)


def _number(value: Any) -> float | None:
    return None if value is None else _finite(float(value))


def _finite(number: float) -> float:
    if not math.isfinite(number):
        raise ValueError(f"{number} is not a finite number")
    return number


def _positive(value: Any, name: str) -> float:
    number = _number(value)
    if number is None:
        raise ValueError(f"{name} is null, so the compile was not simulated")
    if number <= 0:
        raise ValueError(f"{name} is {number}, not positive")
    return number
