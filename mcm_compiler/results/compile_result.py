"""Result of a compile: everything that it found out, as data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import onnx_ir as ir

from mcm_compiler.artifact.emit import folder_manifest
from mcm_compiler.artifact.manifest import Manifest
from mcm_compiler.certificate.claims import Certificate, certificate_of
from mcm_compiler.contracts.partition import LEGALIZATION, Legalization, Partition, PartitionProblem
from mcm_compiler.contracts.program import LoweredProgram, SimulationResult
from mcm_compiler.contracts.replication import Replication
from mcm_compiler.contracts.sharding.divisions import DIVISION_BOUND
from mcm_compiler.contracts.target import ChipModel, Target, Wire
from mcm_compiler.contracts.verification import Verification
from mcm_compiler.diagnostics import Diagnostic, quote
from mcm_compiler.graph.source import SourceModel
from mcm_compiler.options import CompileOptions
from mcm_compiler.results.op_times import OpTime, program_op_times
from mcm_compiler.results.strictness import reasons_of_claims, reasons_of_verification, unproven
from mcm_compiler.text.headline import Headline, Shown

if TYPE_CHECKING:
    from mcm_compiler.results.points import SensitivityRow
    from mcm_compiler.results.size_rows import PromptRow, SizeRow


@dataclass(frozen=True, eq=False, repr=False)
class CompileResult(Shown):
    """Everything a compile found out. What the pipeline did not compute is None.

    Attributes:
        source: the model as given.
        target: the package.
        options: the options as given.
        pipeline: text of the passes that ran.
        model: the compiled graph, with its facts in `meta`.
        problem: the partition problem.
        partition: its answer, with the certificate.
        chips: one model per used chip.
        wires: tensors between chips and host.
        program: the lowered program.
        simulation: what the simulator measured.
        verification: equality in onnxruntime.
        diagnostics: warnings and notes.
        timings: `(stage, seconds)`; never part of a written file.
        folder: the output folder, or None where nothing was written.
        replication: how many pipelines like the simulated one run side by side.
        sensitivities: what changes of the target would bring; None where nobody asked.
        sizes: a decoder with other batches and contexts; empty where nobody asked.
        prompt: the profile that reads prompts for this one; None where it does so itself.
        report: as `report.json` has it; `compile_model` gives it.
    """

    source: SourceModel
    target: Target
    options: CompileOptions
    pipeline: str
    model: ir.Model
    problem: PartitionProblem | None
    partition: Partition | None
    chips: tuple[ChipModel, ...] | None
    wires: tuple[Wire, ...] | None
    program: LoweredProgram | None
    simulation: SimulationResult | None
    verification: Verification | None
    diagnostics: tuple[Diagnostic, ...]
    timings: tuple[tuple[str, float], ...]
    folder: Path | None
    replication: Replication | None = None
    sensitivities: tuple[SensitivityRow, ...] | None = None
    sizes: tuple[SizeRow, ...] = ()
    prompt: PromptRow | None = None
    report: Mapping[str, Any] | None = None

    @property
    def headline(self) -> Headline:
        """The verdict of its report."""
        if self.report is None:
            return Headline((self.source.name, self.target.name, "no report"), (), True)
        found = self.report["verdict"]
        ends = self.report["model"]["name"], self.report["target"]["name"], found["basis"]
        return Headline(ends, found["lines"], found["good"])

    @property
    def kernels(self) -> list[OpTime]:
        """Kernels of the simulated pipeline, each chip's in the order in which it runs them."""
        return [] if self.program is None else [*program_op_times(self.program)]

    @cached_property
    def manifest(self) -> Manifest:
        """The table of contents of the output folder, without its files."""
        chips, program = self.chips or (), self.program
        if program is not None and program.sequences:
            chips = tuple(replace(chip, sequences=program.sequences) for chip in chips)
        return folder_manifest(
            self.source,
            chips,
            self.wires or (),
            self.target,
            self.options,
            self.pipeline,
            self.replication,
        )

    @property
    def certificate(self) -> Certificate | None:
        """Certificate of the compile; None where nothing was placed."""
        if self.problem is None or self.partition is None:
            return None
        replication = self.replication or Replication(1, self.problem.num_chips)
        devices = self.options.chips or self.target.limits.num_chips
        if self.options.objective == "chips":
            # The others are left to something else.
            devices = replication.replicas * replication.chips_each
        return certificate_of(
            self.problem,
            self.partition,
            LEGALIZATION.find(self.model) or Legalization(),
            replication,
            cost_model=self.target.cost_model().name,
            devices=devices,
            pins=self.options.pins,
            divisions=DIVISION_BOUND.find(self.model),
        )

    @property
    def unproven(self) -> tuple[Diagnostic, ...]:
        """MCM-U051 for each thing that was not verified or not proven; proves bounds again."""
        path = self.source.path
        place = f"model {quote(path.name)}" if path is not None else "the model"
        reasons = chain(
            reasons_of_verification(self.verification),
            reasons_of_claims(self.certificate, self.target.limits),
        )
        return unproven(reasons, place)

    @property
    def throughput_per_s(self) -> float | None:
        """Inferences per second of the whole package, or None where nothing was simulated."""
        if self.simulation is None:
            return None
        at_once = self.replication.at_once if self.replication is not None else 1
        return at_once * self.simulation.throughput_per_s
