"""The real road of a partition: the passes that `mcmc compile` runs, with a partition of ours."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
import onnx
import onnx.parser
import onnx_ir as ir
import pytest

from mcm_compiler import CompileOptions
from mcm_compiler.api import build_zoo_model, run_passes
from mcm_compiler.components.cost_choice import calibrated
from mcm_compiler.contracts.chips import CHIP_MODELS, WIRES
from mcm_compiler.contracts.evaluation import ResultKind
from mcm_compiler.contracts.fusion import FUSION_PLAN, FusionGroup, FusionPlan
from mcm_compiler.contracts.partition import PARTITION, PARTITION_PROBLEM
from mcm_compiler.contracts.target import OFF_PACKAGE
from mcm_compiler.pipeline.pass_manager import PassManager
from mcm_compiler.pipeline.passes import PassContext, parse_pipeline
from mcm_compiler.placements.machine_rules import find_placement_violations
from mcm_compiler.processes.staging import staging
from mcm_compiler.variants.prepared_model import kept_copy
from mcm_hardware.families.ring.ring_target import RingTarget
from mcm_passes.mapping.machine.evaluation import evaluate
from mcm_passes.mapping.problem.measured_names import planned_kernels
from mcm_passes.mapping.problem.partition_problem import CloningLimits, build_problem

BEFORE = "fuse,annotate_cost,partition"
AFTER = "legalize,split"

PACKAGE = """
family = "ring"
[package]
num_chips = {chips}
host_io = "{host_io}"
channel_slots = {slots}
spill = "{spill}"
[chip]
sram_mib = {sram_mib}
sram_bandwidth_gb_per_s = 256
buffer_alignment_bytes = 64
launch_overhead_ns = 150
{chip}
[chip.mac_array]
rows = 64
cols = 64
clock_mhz = 500
[chip.vector_unit]
lanes = 128
clock_mhz = 500
[link]
bandwidth_gb_per_s = 0.5
hop_latency_us = 1.0
{switching}
{forwarding}
[host]
bandwidth_gb_per_s = 4
latency_us = 1.0
{root}
[storage_bits]
FLOAT = 16
INT64 = 32
"""


@dataclasses.dataclass(frozen=True, kw_only=True)
class PackageOptions:
    """What tests change of `PACKAGE`; what is None or empty is left out."""

    chips: int = 4
    host_io: str = "any"
    slots: int = 2
    sram_mib: float = 64
    spill: str = "none"
    switching: str = ""
    root_gb_per_s: float | None = None
    forwarding: str = ""
    chip: str = ""
    more: str = ""

    def target(self) -> RingTarget:
        text = PACKAGE.format(
            chips=self.chips,
            host_io=self.host_io,
            slots=self.slots,
            sram_mib=self.sram_mib,
            spill=self.spill,
            chip=self.chip,
            forwarding=f'forwarding = "{self.forwarding}"' if self.forwarding else "",
            root=f"total_bandwidth_gb_per_s = {self.root_gb_per_s}" if self.root_gb_per_s else "",
            switching=f'switching = "{self.switching}"' if self.switching else "",
        )
        return RingTarget.from_text("test", text + self.more)


def parse(text: str) -> ir.Model:
    """A model from ONNX text, in which inputs named `w_...` are weights."""
    source = f'<ir_version: 10, opset_import: ["" : 21, "acme" : 1]>\n{text}'
    model = ir.from_proto(onnx.parser.parse_model(source))
    for index, node in enumerate(model.graph):
        node.name = f"{node.op_type}_{index}"
    for value in [v for v in model.graph.inputs if v.name.startswith("w_")]:
        numbers = np.ones(value.shape.numpy(), np.float32)
        value.const_value = ir.tensor(numbers, name=value.name)
        model.graph.inputs.remove(value)
        model.graph.register_initializer(value)
    return model


class Road:
    """One model on one package, whose search and simulator have the same durations of kernels.

    Attributes:
        problem: of the model as imported.
        evaluator: the batch evaluator of the same model.
        streams: transfers from off-package memory in the programs that were checked.
    """

    def __init__(
        self,
        source: str | ir.Model,
        target: RingTarget,
        *,
        routing: str = "relay",
        groups: Sequence[tuple[str, ...]] | None = None,
        clones: bool = False,
        use: int | None = None,
    ) -> None:
        source = build_zoo_model(source) if isinstance(source, str) else source
        self._target = target
        self._options = CompileOptions(passes=BEFORE, routing=routing, chips=use, level=0)
        self._groups = groups
        self._clones = clones
        self.streams = 0
        model, _, _ = run_passes(source, target, self._options, after_pass=self._prepare)
        self._placed = model
        self.problem = PARTITION_PROBLEM.get(model)
        plan = FUSION_PLAN.get(model)
        self._priced = calibrated(target, planned_kernels(model.graph, plan))
        self.evaluator = target.batch_evaluator(model, self.problem, plan.group_names)

    def _prepare(self, step, model):
        if step.name == "fuse" and self._groups is not None:
            groups = tuple(FusionGroup(g[-1], "test", g) for g in self._groups)
            FUSION_PLAN.set(model, FusionPlan(groups))
        if step.name == "partition" and self._clones:
            plan = FUSION_PLAN.get(model)
            problem = build_problem(
                model, self._target, self._options.routing, plan, cloning=CloningLimits(10.0, 1.0)
            )
            PARTITION_PROBLEM.set(model, problem)

    def lowered(self, chip_of):
        """The program that the passes make of a partition."""
        model = kept_copy(self._placed)
        placed = np.array(chip_of)
        clonable = self.problem.clonable
        placed[clonable] = self.first_copies(chip_of)[clonable]
        PARTITION.set(model, dataclasses.replace(PARTITION.get(model), chip_of=placed))
        with staging(None) as stage:
            context = PassContext(self._priced, self._options, stage, lambda _: None)
            PassManager(parse_pipeline(AFTER)).run(model, context)
        return self._target.lower(CHIP_MODELS.get(model), WIRES.get(model))

    def first_copies(self, chip_of):
        """The partition with each clonable unit on the first chip that reads it."""
        problem = self.problem
        placed = np.array(chip_of)
        for unit in np.flatnonzero(problem.clonable)[::-1]:
            made = np.flatnonzero(problem.tensor_producer == unit)
            readers = [
                placed[v]
                for t in made
                for v in problem.tensor_consumers[problem.tensor_ptr[t] : problem.tensor_ptr[t + 1]]
            ]
            placed[unit] = min(readers)
        return placed

    def is_valid(self, chip_of) -> bool:
        """What the authority says of a partition."""
        return not find_placement_violations(self.problem, self.first_copies(chip_of))

    def random_partitions(self, count, seed=0):
        """Contiguous cuts, some with a few units moved; not all are valid."""
        rng = np.random.default_rng(seed)
        units = self.problem.num_units
        partitions = np.zeros((count, units), np.int32)
        for row in partitions:
            chips = int(rng.integers(1, min(self.problem.num_chips, units) + 1))
            cuts = np.sort(rng.choice(np.arange(1, units), chips - 1, replace=False))
            row[:] = np.searchsorted(cuts, np.arange(units), side="right")
            for unit in rng.choice(units, int(rng.integers(0, 3)), replace=False):
                row[unit] = rng.integers(0, chips)
        return partitions

    def check(self, partitions) -> list[int]:
        """Compares the evaluator with the real road; returns how often each kind came."""
        results = self.evaluator.evaluate(partitions)
        for row, chip_of in enumerate(partitions):
            if not self.is_valid(chip_of):
                assert results.kind[row] == ResultKind.BREAKS_RULE
                assert np.isinf(results.period_s[row])
                continue
            program = self.lowered(chip_of)
            self.streams += sum(t.source == OFF_PACKAGE for t in program.transfers)
            used = len(program.chips)
            high_water = [chip.high_water_bytes for chip in program.chips]
            assert results.high_water_bytes[row, :used].tolist() == high_water
            assert not results.high_water_bytes[row, used:].any()
            if program.overflows:
                assert results.kind[row] == ResultKind.OVERFLOWS
                assert np.isinf(results.period_s[row])
                continue
            assert results.kind[row] == ResultKind.RUNS
            # A search counts inferences as independent; sequences in flight come afterwards.
            program = dataclasses.replace(program, sequences=0)
            result = self._target.simulator().run(program)
            assert results.period_s[row] == pytest.approx(result.period_s, rel=1e-12, abs=0)
            assert results.latency_s[row] == pytest.approx(result.latency_s, rel=1e-12, abs=0)
            busy = [chip.busy_s for chip in result.chips]
            analytic = evaluate(self.problem, chip_of).chip_busy_s[:used].tolist()
            # Clones leave out results that nothing reads, and measured times are compared first.
            if not self._clones and self._priced is self._target:
                assert analytic == pytest.approx(busy, rel=1e-9)
            assert results.chip_busy_s[row, :used].tolist() == pytest.approx(busy, rel=1e-12)
            for link in result.links:
                if 0 <= link.source < self.problem.num_chips and link.destination >= 0:
                    got = results.link_busy_s[row, link.source]
                    assert got == pytest.approx(link.busy_s, rel=1e-12)
        return np.bincount(results.kind, minlength=3).tolist()
