"""A placement as a side of a comparison of folders."""

from __future__ import annotations

import math
from pathlib import Path

import onnx_ir as ir

from mcm_compiler.ci.figures import Figures, ModelFigures
from mcm_compiler.difference.op_matching import placed_ops
from mcm_compiler.difference.sides import Load, Memory, Side, malformed_refused
from mcm_compiler.graph.constants import constant_values
from mcm_compiler.placed import records
from mcm_compiler.placed.folder_reading import OpenedPlacement
from mcm_compiler.placed.placement_checks import checked_placement
from mcm_compiler.placed.placement_report import placed_lines, times_of
from mcm_compiler.placed.records import DeviceFigures, PlacementRecord


def read_box(path: Path) -> Side:
    """A folder of `mcmc place`, whose hashes hold and whose step is simulated again.

    Raises:
        CompileError: as `checked_placement`; MCM-U080 if nothing is known about its speed.
    """
    opened = checked_placement(path).opened
    return malformed_refused(path, lambda: _device_side(str(path), opened))


def _device_side(folder: str, opened: OpenedPlacement) -> Side:
    record, graph = opened.record, opened.annotated.graph
    step_s = record.step.seconds
    if not 0 < step_s < math.inf:
        raise ValueError(f"a step takes {step_s} s")

    def device(node: ir.Node) -> tuple[str, ...]:
        found = record.device_of.get(node.name or "")
        return (found,) if found is not None else ()

    loads = [
        Load("compute", d.device, d.busy_s, d.busy_s / step_s) for d in record.devices if d.ops
    ]
    loads += [
        Load("links", f"copies from {d.device}", d.copy_s, d.copy_s / step_s)
        for d in record.devices
        if d.copy_s
    ]
    busiest = _busiest(record)
    times = None if opened.schedule is None else times_of(opened.schedule)
    delivered_s = step_s if times is None else times.seconds
    target = opened.manifest.files[records.TARGET]
    ops = placed_ops(graph, device)
    return Side(
        folder=folder,
        family="host",
        model=f"{record.model.name} (a training step)"
        if record.model.training
        else record.model.name,
        figures=_figures(record, delivered_s, target, graph, len(ops.names)),
        latency_s=delivered_s,
        bottleneck=None
        if busiest is None
        else f"{busiest.device} is busy for {busiest.busy_s / step_s:.1%} of the step",
        bound_argument=record.step.argument or None,
        places_each=len(record.devices),
        pins=tuple(f"{pattern}={device}" for pattern, device in record.asked.pins),
        loads=tuple(loads),
        memory=tuple(Memory(d.device, None, d.peak_bytes, d.memory_bytes) for d in record.devices),
        ops=ops,
        note=None,
        verdict={line["label"]: line["headline"] for line in placed_lines(record, times)},
    )


def _busiest(record: PlacementRecord) -> DeviceFigures | None:
    return max(record.devices, key=lambda d: d.busy_s, default=None)


def _figures(
    record: PlacementRecord, delivered_s: float, target_sha256: str, graph: ir.Graph, ops: int
) -> Figures:
    """Those of the step as it is delivered; bound and gap are of the step run op by op."""
    step, search, asked, busiest = record.step, record.search, record.asked, _busiest(record)
    weights = [v.const_value for v in constant_values(graph) if v.const_value is not None]
    models = ",".join(f"{kind}={text}" for kind, text in record.cost_models.items())
    dims = ",".join(f"{name}={size}" for name, size in record.model.dims.items())
    return Figures(
        throughput_per_s=1.0 / delivered_s,
        period_s=delivered_s,
        lower_bound_s=step.bound_s or None,
        gap=None if delivered_s != step.seconds else step.gap,
        model=ModelFigures(record.model.sha256, ops, sum(w.nbytes for w in weights)),
        target=record.target,
        target_sha256=target_sha256,
        options={
            "partitioner": search.placer,
            "seed": str(search.seed),
            "order": asked.order,
            "training": record.model.training or "none",
            "dim": dims or "none",
            "cost models": models or "none",
        },
        versions={"mcm-compiler": record.compiler},
        chips_used=sum(1 for d in record.devices if d.ops),
        chip_busy_s=math.fsum(d.busy_s for d in record.devices),
        link_bytes=0,
        added={},
        bottleneck=None if busiest is None else busiest.device,
        bottleneck_busy_s=None if busiest is None else busiest.busy_s,
        ops={},
        all_ops=False,
        words=("device", "step"),
    )
