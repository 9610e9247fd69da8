"""A small compile result made by hand, for the tests of the report and of the command line."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir

from mcm_compiler.api import CompileResult
from mcm_compiler.components.cost_choice import with_cost_model
from mcm_compiler.components.cost_files import user_files
from mcm_compiler.components.target_loading import load_target
from mcm_compiler.contracts.partition import LEGALIZATION, Legalization, LowerBound, Partition
from mcm_compiler.contracts.program import (
    Buffer,
    ChipActivity,
    ChipProgram,
    Kernel,
    LinkActivity,
    LoweredProgram,
    SimulationResult,
    Transfer,
)
from mcm_compiler.contracts.sharding.sharding import SHARDING_PLAN, OperatorSharding, ShardingPlan
from mcm_compiler.contracts.target import ChipModel, PackageLimits
from mcm_compiler.contracts.verification import OutputComparison, Verification
from mcm_compiler.diagnostics import Diagnostic, Severity
from mcm_compiler.graph.source import SourceModel
from mcm_compiler.machines.machine import Machine
from mcm_compiler.options import CompileOptions
from mcm_compiler.report.report_data import build_report
from mcm_hardware.families.ring.ring_target import RingTarget
from tests.generators.partition_problems import make_problem

MIB = 1 << 20


def ring_of(chips: int, host_io: str = "any") -> Machine:
    """The built-in ring with so many chips."""
    text = load_target("mcm4").source_text.replace("num_chips = 4", f"num_chips = {chips}")
    return RingTarget.from_text("r", text.replace('"any"', f'"{host_io}"')).machine


@dataclass(frozen=True)
class ExampleTarget:
    """A target with numbers only."""

    name: str = "example3"
    summary: str = "three small chips"
    source_text: str = 'family = "ring"\n'
    limits: PackageLimits = field(
        default_factory=lambda: PackageLimits(3, (64 * MIB,) * 3, 32e9, 1e-6, "any", 16e9)
    )

    @property
    def machine(self) -> Machine:
        return ring_of(3)

    def cost_model(self) -> Any:
        return with_cost_model(load_target("mcm4"), "roofline", user_files(None)).cost_model()

    def lower(self, chips: Any, wires: Any) -> Any:
        raise NotImplementedError

    def simulator(self) -> Any:
        raise NotImplementedError


def example_model() -> ir.Model:
    """x[1,4] -> MatMul(w) -> Relu -> y; `w` is a 4 x 2 float weight of 32 bytes."""
    weight = ir.tensor(np.ones((4, 2), np.float32), name="w")
    w = ir.Value(
        name="w", type=ir.TensorType(ir.DataType.FLOAT), shape=ir.Shape((4, 2)), const_value=weight
    )
    x = ir.Value(name="x", type=ir.TensorType(ir.DataType.FLOAT), shape=ir.Shape((1, 4)))
    h = ir.Value(name="h", type=ir.TensorType(ir.DataType.FLOAT), shape=ir.Shape((1, 2)))
    y = ir.Value(name="y", type=ir.TensorType(ir.DataType.FLOAT), shape=ir.Shape((1, 2)))
    nodes = [
        ir.Node("", "MatMul", [x, w], outputs=[h], name="fc"),
        ir.Node("", "Relu", [h], outputs=[y], name="relu"),
    ]
    graph = ir.Graph([x], [y], nodes=nodes, initializers=[w], name="g", opset_imports={"": 21})
    return ir.Model(graph, ir_version=11)


def _chip_program(chip: int, durations: tuple[float, ...]) -> ChipProgram:
    """Each kernel has a weight of (chip + 1) MiB and makes 1 MiB for the next."""
    end = len(durations) - 1
    kernels = tuple(
        Kernel(f"layer{chip}.{i}", (f"layer{chip}.{i}/a", f"layer{chip}.{i}/b"), seconds, (), ())
        for i, seconds in enumerate(durations)
    )
    size = (chip + 1) * MIB
    buffers = [
        Buffer(f"w{chip}.{i}", "weight", i * size, size, 0, end) for i in range(len(durations))
    ]
    buffers += [Buffer(f"h{chip}[0]", "receive", 10 * size, MIB, 0, end)]
    buffers += [Buffer(f"v{chip}.{i}", "activation", 11 * size, MIB, i, i + 1) for i in range(end)]
    buffers += [Buffer(f"h{chip + 1}[0]", "send", 12 * size - MIB, MIB, 0, end)]
    return ChipProgram(chip, kernels, tuple(buffers), 12 * size, 10 * size)


def chip_model(chip: int, kernels: int) -> ir.Model:
    """A chain with two ops per kernel of `_chip_program`."""
    kind, shape = ir.TensorType(ir.DataType.FLOAT), ir.Shape((1, 4))
    given = value = ir.Value(name=f"h{chip}", type=kind, shape=shape)
    nodes: list[ir.Node] = []
    weights: list[ir.Value] = []
    for i in range(kernels):
        data = ir.tensor(np.ones((4, 4), np.float32), name=f"w{chip}.{i}")
        weight = ir.Value(name=data.name, type=kind, shape=ir.Shape((4, 4)), const_value=data)
        weights.append(weight)
        inner = ir.Value(name=f"u{chip}.{i}", type=kind, shape=shape)
        made = f"v{chip}.{i}" if i + 1 < kernels else f"h{chip + 1}"
        outer = ir.Value(name=made, type=kind, shape=shape)
        name = f"layer{chip}.{i}"
        nodes.append(ir.Node("", "MatMul", [value, weight], outputs=[inner], name=f"{name}/a"))
        nodes.append(ir.Node("", "Relu", [inner], outputs=[outer], name=f"{name}/b"))
        value = outer
    graph = ir.Graph(
        [given], [value], nodes=nodes, initializers=weights, name="g", opset_imports={"": 21}
    )
    return ir.Model(graph, ir_version=11)


def _activity(chip: int, busy_s: float, stall_s: dict[str, float]) -> ChipActivity:
    engine_s = {"array": busy_s / 2, "vector": busy_s / 4, "launch": busy_s / 4}
    return ChipActivity(chip, busy_s, stall_s, engine_s, (chip + 1) * 12 * MIB)


def example_result(folder: Path | None = None) -> CompileResult:
    """Three chips of which the middle one is the bottleneck."""
    model = example_model()
    LEGALIZATION.set(
        model, Legalization(clones=(("mask", "mask/1", 1),), relays=(("skip", "skip/relay/1", 1),))
    )
    pieces = ("fc9/0", "fc9/1")
    for name in pieces:
        model.graph.append(ir.Node("", "Relu", [model.graph.inputs[0]], name=name))
    SHARDING_PLAN.set(model, ShardingPlan((OperatorSharding("fc9", "w9", 80 * MIB, 1, pieces),)))
    simulation = SimulationResult(
        simulator="ring-events",
        period_s=125e-6,
        latency_s=340e-6,
        inferences=64,
        chips=(
            _activity(0, 60e-6, {"input": 0.0, "link": 0.0, "buffer": 65e-6}),
            _activity(1, 124.9e-6, {"input": 0.0, "link": 0.1e-6, "buffer": 0.0}),
            _activity(2, 90e-6, {"input": 5e-6, "link": 30e-6, "buffer": 0.0}),
        ),
        links=(
            LinkActivity(-1, 0, 20e-6, 300_000),
            LinkActivity(0, 1, 25e-6, 800_000, queue_s=3e-6),
            LinkActivity(1, 2, 12.5e-6, 400_000),
            LinkActivity(2, -1, 1e-6, 4_000),
        ),
        steady_from=5,
    )
    program = LoweredProgram(
        target="example3",
        chips=(
            _chip_program(0, (40e-6, 20e-6)),
            _chip_program(1, (30e-6, 60.9e-6, 34e-6)),
            _chip_program(2, (90e-6,)),
        ),
        transfers=(
            Transfer("image", -1, 0, 300_000, 2),
            Transfer("h0", 0, 1, 400_000, 2),
            Transfer("skip", 0, 2, 400_000, 2),
            Transfer("logits", 2, -1, 4_000, 2),
        ),
    )
    result = CompileResult(
        source=SourceModel("zoo:example", None, "ab" * 32, example_model(), {"batch": 1}),
        target=ExampleTarget(),
        options=CompileOptions(),
        pipeline="simplify,partition",
        model=model,
        problem=make_problem([60, 121, 90], [(0, 1), (1, 2)]),
        partition=Partition(
            chip_of=np.array([0, 1, 2], np.int32),
            period_s=121e-6,
            bound=LowerBound(110e-6, "total work / 3 chips", "total_work"),
            strategy="portfolio",
            found_by="local_search",
        ),
        chips=tuple(
            ChipModel(chip, chip_model(chip, kernels), (f"h{chip}",), (f"h{chip + 1}",))
            for chip, kernels in enumerate((2, 3, 1))
        ),
        wires=(),
        program=program,
        simulation=simulation,
        verification=Verification((0,), (OutputComparison("y", True, 0.0, 0.0),)),
        diagnostics=(
            Diagnostic("MCM-P020", "op 'Odd' is not modelled", severity=Severity.WARNING),
        ),
        timings=(("import", 0.5), ("simplify", 0.25)),
        folder=folder,
    )
    return replace(result, report=build_report(result))


def bare_result() -> CompileResult:
    """The result of a pipeline that computed next to nothing."""
    result = replace(
        example_result(),
        model=example_model(),
        pipeline="simplify",
        problem=None,
        partition=None,
        chips=None,
        wires=None,
        program=None,
        simulation=None,
        verification=None,
        diagnostics=(),
    )
    return replace(result, report=build_report(result))


def example_verdict() -> Any:
    """The verdict of the example."""
    return build_report(example_result())["verdict"]
