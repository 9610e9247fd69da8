"""The family of boxes: a `BoxTarget` made from a TOML description."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from mcm_compiler.contracts.boxes.box import Box
from mcm_compiler.contracts.boxes.evaluation import StepConditions, StepEvaluator
from mcm_compiler.contracts.boxes.step import StepProblem
from mcm_compiler.text.toml_description import parse_description
from mcm_hardware.families.box.box_file import BoxSpec, parse_box

if TYPE_CHECKING:
    import onnx_ir as ir

    from mcm_compiler.contracts.cost import CostModel
    from mcm_compiler.graph.states import StatePair


@dataclass(frozen=True, eq=False)
class BoxPackage:
    """Implements `mcm_compiler.contracts.boxes.box.BoxTarget`.

    Attributes:
        name: as the user names it.
        spec: its numbers.
        source_text: the TOML that it was made from.
    """

    name: str
    spec: BoxSpec
    source_text: str

    @classmethod
    def from_text(cls, name: str, text: str) -> BoxPackage:
        """Makes the box from a description.

        Raises:
            CompileError: as `parse_box`, one diagnostic per fault.
        """
        return cls(name, parse_box(name, text), text)

    @property
    def summary(self) -> str:
        """One line for `mcmc targets`."""
        return self.spec.summary or f"box of {self.box.num_devices} devices"

    @property
    def box(self) -> Box:
        """The numbers that placements are made with."""
        return self.spec.box

    def details(self) -> Mapping[str, Mapping[str, str | float]]:
        """All numbers by section and key, for `mcmc targets show`."""
        box = self.box
        sections: dict[str, dict[str, str | float]] = {
            "box": {"devices": ", ".join(box.devices), "host": box.devices[box.host]}
        }
        for index, kind in enumerate(self.spec.kinds):
            sections[kind.name] = {
                "devices": len(box.of_kind(index)),
                "usable_memory_mib": kind.memory_bytes / 2**20,
                "memory_bandwidth_gb_per_s": kind.memory_bytes_per_s / 1e9,
                "peak_tflop_per_s": kind.flops_per_s / 1e12,
                "launch_overhead_us": kind.launch_s * 1e6,
                "flops_per_memory_byte": kind.flops_per_s / kind.memory_bytes_per_s,
                **({"summary": kind.summary} if kind.summary else {}),
            }
        description = parse_description(self.name, self.source_text).data
        sections["copy"] = dict(description["copy"])
        for link in description.get("link", ()):
            rest = {key: value for key, value in link.items() if key != "between"}
            sections[f"link {' - '.join(link['between'])}"] = rest
        return sections

    def cost_model(self) -> CostModel:
        """The roofline of its fastest kind; `step_problem` has times of all kinds."""
        from mcm_hardware.families.box.op_times import kind_roofline

        return kind_roofline(max(self.spec.kinds, key=lambda kind: kind.flops_per_s))

    def step_problem(self, model: ir.Model, states: tuple[StatePair, ...] = ()) -> StepProblem:
        """What there is to place of a model.

        Raises:
            CompileError: MCM-D010 for ops that no device runs, MCM-D011 for values of unknown size.
        """
        from mcm_hardware.families.box.step_builder import build_step

        return build_step(model.graph, states, self.spec)

    def step_evaluator(
        self, problem: StepProblem, conditions: StepConditions | None = None
    ) -> StepEvaluator:
        """The simulator of steps."""
        from mcm_hardware.families.box.step_simulator import StepSimulator

        return StepSimulator(problem, self.box, conditions or StepConditions())
