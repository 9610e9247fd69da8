"""The family of boxes: a `BoxTarget` made from a TOML description."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from mcm_compiler.components.cost_choice import CostBasis, CostChoice, choose_cost_model
from mcm_compiler.components.cost_files import cost_model_texts, user_files, with_cost_model_text
from mcm_compiler.contracts.boxes.box import Box, StepProblem
from mcm_compiler.contracts.boxes.evaluation import StepConditions, StepEvaluator
from mcm_compiler.machines.machine_builder import joined_devices
from mcm_compiler.text.toml_description import parse_description
from mcm_hardware.descriptions.packaged_targets import packaged
from mcm_hardware.families.box.box_file import BoxSpec, DeviceKind, parse_box

if TYPE_CHECKING:
    import onnx_ir as ir

    from mcm_compiler.contracts.cost import CostModel
    from mcm_compiler.graph.states import StatePair


SCALED: Mapping[str, str] = {
    "arithmetic rate": "flops_per_s",
    "memory rate": "memory_bytes_per_s",
    "memory": "memory_bytes",
    "rate of copies": "",
}
"""Resources of a box, and the number of each kind of device that they scale."""


@dataclass(frozen=True, eq=False)
class BoxPackage:
    """Implements `BoxTarget` and `ScalesResources` of contracts, and `TakesDeviceCosts`.

    Attributes:
        name: as the user names it.
        spec: its numbers.
        source_text: the TOML that it was made from.
        cost_choices: cost models instead of its own, by kind of device.
    """

    addition: ClassVar[str] = "placement"
    name: str
    spec: BoxSpec
    source_text: str
    cost_choices: Mapping[str, CostChoice] = field(
        default_factory=dict[str, CostChoice], kw_only=True
    )

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
        return self.spec.summary or f"host with {self.box.num_devices} devices"

    @property
    def box(self) -> Box:
        """The numbers that placements are made with."""
        return self.spec.box

    @property
    def resources(self) -> tuple[str, ...]:
        """See `ScalesResources`; all devices have more or less of them."""
        return tuple(SCALED)

    def scaled(self, resource: str, factor: float) -> BoxPackage:
        """See `ScalesResources`."""
        box, kinds, rate = self.box, self.spec.kinds, self.box.copy_bytes_per_s
        if name := SCALED[resource]:
            values = [getattr(kind, name) for kind in kinds]
            scaled = [type(value)(value * factor) for value in values]
            kinds = tuple(replace(k, **{name: v}) for k, v in zip(kinds, scaled, strict=True))
        else:
            rate = rate * factor
        memory = np.array([kinds[kind].memory_bytes for kind in box.kind_of.tolist()], np.int64)
        machine = joined_devices("box", memory, rate, box.copy_latency_s, box.kind_of)
        spec = replace(self.spec, kinds=kinds, box=replace(box, machine=machine))
        return replace(self, spec=spec)

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
        for kind, text in self._cost_texts.items():
            sections[kind]["cost_model"] = text
        description = parse_description(self.name, self.source_text).data
        sections["copy"] = dict(description["copy"])
        for link in description.get("link", ()):
            rest = {key: value for key, value in link.items() if key != "between"}
            sections[f"link {' - '.join(link['between'])}"] = rest
        return sections

    def cost_model(self) -> CostModel:
        """The roofline of its fastest kind; `step_problem` has times of all kinds."""
        from mcm_hardware.chip.roofline import device_roofline

        return device_roofline(max(self.spec.kinds, key=lambda kind: kind.flops_per_s))

    def device_costs(self, kind: str) -> CostModel:
        """The cost model of devices of a kind: what was chosen, or else the roofline.

        Raises:
            CompileError: MCM-C004 where the description names a cost model with files, and was not
                loaded from a file.
            KeyError: for a kind that the box does not have.
        """
        if kind not in self._models:
            self._models[kind] = self._model_of({one.name: one for one in self.spec.kinds}[kind])
        return self._models[kind]

    def with_cost_models(self, choices: Mapping[str, CostChoice]) -> BoxPackage:
        """The same box with times from other cost models for some kinds of devices.

        Raises:
            CompileError: MCM-C008 if the description cannot name them, and as `CostChoice.model`.
        """
        text = self.source_text
        for kind, choice in choices.items():
            text = with_cost_model_text(self.name, text, choice.text, kind)
        chosen = replace(self, source_text=text, cost_choices={**self.cost_choices, **choices})
        for kind in choices:
            chosen.device_costs(kind)  # faults are told before anything is placed
        return chosen

    @cached_property
    def _cost_texts(self) -> Mapping[str, str]:
        """Cost model texts of the description, by kind."""
        return cost_model_texts(parse_description(self.name, self.source_text))

    @cached_property
    def _models(self) -> dict[str, CostModel]:
        """Cost models by kind, those that somebody asked for."""
        return {}

    def _model_of(self, kind: DeviceKind) -> CostModel:
        """The cost model of a kind.

        A description that names one, and was not loaded from a file, gets it here.
        """
        from mcm_hardware.chip.roofline import device_roofline

        own = device_roofline(kind)
        choice = self.cost_choices.get(kind.name)
        if choice is None:
            if kind.name not in self._cost_texts:
                return own
            choice = choose_cost_model(self._cost_texts[kind.name], user_files(None))
        return choice.model(CostBasis(own, own, {kind.name: self.details()[kind.name]}))

    def step_problem(self, model: ir.Model, states: tuple[StatePair, ...] = ()) -> StepProblem:
        """Return the placement problem of a model's step.

        Raises:
            CompileError: MCM-D010 for ops that no device runs, MCM-D011 for values of unknown size;
                as `device_costs`, MCM-C001 and MCM-C002 from cost models that were chosen.
        """
        from mcm_hardware.families.box.step_builder import build_step

        named = {**self._cost_texts, **self.cost_choices}
        chosen = {kind: self.device_costs(kind) for kind in named}
        return build_step(model.graph, states, self.spec, chosen)

    def step_evaluator(
        self, problem: StepProblem, conditions: StepConditions | None = None
    ) -> StepEvaluator:
        """The simulator of steps."""
        from mcm_hardware.families.box.step_simulator import StepSimulator

        return StepSimulator(problem, self.box, conditions or StepConditions())


box_cpu_gpu, box_2gpu, box_4gpu, box_8gpu = packaged(
    BoxPackage.from_text,
    "mcm_hardware.families.box",
    *("box-cpu-gpu", "box-2gpu", "box-4gpu", "box-8gpu"),
)
"""A CPU and GPUs like a K40; the box with 2 is after Mirhoseini et al. 2018."""

box_2gpu_h100, box_4gpu_h100, box_8gpu_h100, box_4core = packaged(
    BoxPackage.from_text,
    "mcm_hardware.families.box",
    *("box-2gpu-h100", "box-4gpu-h100", "box-8gpu-h100", "box-4core"),
)
"""A CPU and GPUs like an H100, and a desktop whose 4 cores run ops of their own."""
