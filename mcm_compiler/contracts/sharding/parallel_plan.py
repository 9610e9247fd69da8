"""The contract of parallel plans: how a model is divided over devices, and how that was found.

A plan joins three ways. Data parallelism divides the inputs along their batch dimensions over
replicas of the model; operator parallelism divides weights and what is computed with them; a
pipeline cuts the graph into stages. `degrees` says over how many devices each of them goes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, Final, Literal

import onnx_ir as ir
from msgspec import Meta

from mcm_compiler.contracts.requests import Objective
from mcm_compiler.diagnostics import CompileError, Diagnostic, quote
from mcm_compiler.text import json_text

FORMAT: Final = "mcm-parallel-plan"
VERSION: Final = 1

REPLICATED = -1
"""The dimension of a tensor that every device holds as a whole."""

Decision = Literal["OPP", "ADP", "PP"]
"""Operator partitioning, automatic data parallelism, pipeline."""

MAX_FILE_BYTES = 1 << 26
MAX_DEGREE = 1 << 20
MAX_DIM = 1 << 10

Degree = Annotated[int, Meta(ge=1, le=MAX_DEGREE)]
"""How many devices, stages or pieces."""

Dim = Annotated[int, Meta(ge=REPLICATED, le=MAX_DIM)]
"""A dimension of a tensor, or `REPLICATED`."""


@dataclass(frozen=True)
class Degrees:
    """Over how many devices each kind of parallelism goes; the product is all devices.

    Attributes:
        data: replicas of the model.
        operator: devices that an op is divided over.
        pipeline: stages.
    """

    data: Degree = 1
    operator: Degree = 1
    pipeline: Degree = 1


@dataclass(frozen=True)
class PlannedPipeline:
    """Where the graph and the devices are cut.

    Attributes:
        cuts: `[stages - 1]`, position in the order of layers at which each further stage begins.
        device_cuts: `[stages - 1]`, number of the first device of each further stage.
        first_ops: `[stages - 1]`, names of the ops that the further stages begin with; empty where
            layers are given instead of a graph.
        micro_batches: pieces of a batch that are in the pipeline one after the other.
    """

    cuts: tuple[json_text.Extent, ...]
    device_cuts: tuple[json_text.Extent, ...]
    first_ops: tuple[str, ...] = ()
    micro_batches: Degree = 1


@dataclass(frozen=True)
class SearchRecord:
    """How one decision of a plan was found.

    Attributes:
        decides: which decision.
        method: what found it, such as `dp` or `cp-sat`.
        seed: of everything random.
        objective: the value that was found; a count for `paper-count`, seconds for `cost` and PP.
        oracle: the best possible value, where an exact method knows it.
        gap: how far `objective` is from `oracle`, as a share of the latter.
        seconds: how long the search took; None in files that must be the same every time.
    """

    decides: Decision
    method: str
    seed: json_text.Seed
    objective: json_text.Number
    oracle: json_text.Number | None = None
    gap: json_text.Number | None = None
    seconds: json_text.Number | None = None


@dataclass(frozen=True)
class ParallelPlan:
    """A plan for one model.

    Attributes:
        model: what the user called it.
        digest: `model_digest` of the model, of names and shapes but not of weights.
        target: name of the devices that the plan is for.
        objective: figure that the plan optimises.
        training: it is for training, with gradients and optimiser state.
        degrees: devices for each kind of parallelism.
        variables: dimension along which each trainable variable is divided over
            `degrees.operator` devices; `REPLICATED` for none.
        inputs: dimension along which each graph input is divided over `degrees.data` replicas;
            `REPLICATED` for none.
        pipeline: the pipeline, or None.
        search: how the decisions were found.
        servers: servers of a cluster that the plan uses, the first ones; None for all.
    """

    model: str
    digest: str
    target: str
    objective: Objective = "paper-count"
    training: bool = False
    degrees: Degrees = field(default_factory=Degrees)
    variables: Mapping[str, int] = field(default_factory=dict[str, int])
    inputs: Mapping[str, int] = field(default_factory=dict[str, int])
    pipeline: PlannedPipeline | None = None
    search: tuple[SearchRecord, ...] = ()
    servers: int | None = None

    def to_dict(self) -> dict[str, Any]:
        """The JSON form."""
        found = asdict(
            PlanFile(
                format=FORMAT,
                version=VERSION,
                model=_NamedModel(self.model, self.digest),
                target=self.target,
                objective=self.objective,
                training=self.training,
                degrees=self.degrees,
                variables={name: _Divided(dim) for name, dim in self.variables.items()},
                inputs={name: _Divided(dim) for name, dim in self.inputs.items()},
                pipeline=self.pipeline,
                search=self.search,
                servers=self.servers,
            )
        )
        if self.servers is None:
            del found["servers"]
        return found


@dataclass(frozen=True)
class _NamedModel:
    """The model of a plan file: its name, and `model_digest`."""

    name: str
    digest: str


@dataclass(frozen=True)
class _Divided:
    """The dimension along which a tensor of a plan file is divided."""

    dim: Dim


@dataclass(frozen=True)
class PlanFile:
    """Contents of a plan file, in its order; see `ParallelPlan`.

    Attributes:
        format: kind of file.
        version: of the format.
        model: the model that the plan is for.
        target: name of the devices that the plan is for.
        objective: figure that the plan optimises.
        training: it is for training, with gradients and optimiser state.
        degrees: devices for each kind of parallelism.
        variables: dimension along which each trainable variable is divided.
        inputs: dimension along which each graph input is divided over replicas.
        pipeline: the pipeline, or null.
        search: how the decisions were found.
        servers: servers of a cluster that the plan uses, the first ones; missing for all.
    """

    format: Literal["mcm-parallel-plan"]
    version: Literal[1]
    model: _NamedModel
    target: str
    objective: Objective
    training: bool
    degrees: Degrees
    variables: dict[str, _Divided]
    inputs: dict[str, _Divided]
    pipeline: PlannedPipeline | None
    search: tuple[SearchRecord, ...]
    servers: Degree | None = None


def plan_text(plan: ParallelPlan) -> str:
    """The text of a plan file."""
    return json_text.dump(plan.to_dict())


def read_plan(path: Path) -> ParallelPlan:
    """Reads a plan file.

    Raises:
        CompileError: MCM-S020 if it is no plan.
    """
    try:
        return plan_from_json(json_text.parse_json(json_text.read_bounded(path, MAX_FILE_BYTES)))
    except json_text.UnreadableError as error:
        message = f"the plan cannot be read: {error}"
        raise CompileError.of("MCM-S020", message, at=str(path)) from error


def plan_from_json(data: Any) -> ParallelPlan:
    """A plan from JSON that was read.

    Raises:
        UnreadableError: if it is no plan; the text says where.
    """
    found = json_text.record_of(data, PlanFile)
    stages = found.degrees.pipeline
    if found.pipeline is not None:
        _check_cuts(found.pipeline.cuts, "pipeline.cuts", stages)
        _check_cuts(found.pipeline.device_cuts, "pipeline.device_cuts", stages)
        if len(found.pipeline.first_ops) not in (0, stages - 1):
            raise json_text.UnreadableError(
                f"pipeline.first_ops has not {stages - 1} names, or none"
            )
    elif stages > 1:
        raise json_text.UnreadableError("degrees.pipeline is more than 1, and pipeline is null")
    return ParallelPlan(
        model=found.model.name,
        digest=found.model.digest,
        target=found.target,
        objective=found.objective,
        training=found.training,
        degrees=found.degrees,
        variables={name: entry.dim for name, entry in found.variables.items()},
        inputs={name: entry.dim for name, entry in found.inputs.items()},
        pipeline=found.pipeline,
        search=found.search,
        servers=found.servers,
    )


def _check_cuts(cuts: tuple[int, ...], place: str, stages: int) -> None:
    if len(cuts) != stages - 1:
        raise json_text.UnreadableError(
            f"{place} has {len(cuts)} cuts, {stages} stages need {stages - 1}"
        )
    if any(one >= other for one, other in pairwise(cuts)):
        raise json_text.UnreadableError(f"{place} does not ascend")


def model_digest(model: ir.Model) -> str:
    """A hash of the names, types and shapes of all tensors of a model's main graph.

    Weights may be trained on without a plan losing its meaning, so they don't count.
    """
    digest = hashlib.sha256()
    graph = model.graph
    values = [*graph.inputs, *graph.initializers.values()]
    values += [value for node in graph for value in node.outputs]
    for value in values:
        shape = None if value.shape is None else [str(extent) for extent in value.shape]
        digest.update(repr((value.name, str(value.dtype), shape)).encode("utf-8", "replace"))
    return digest.hexdigest()


def check_plan(plan: ParallelPlan, model: ir.Model, source: str | None = None) -> None:
    """Makes sure that a plan is for this model.

    Args:
        plan: from a file.
        model: as the importer gives it.
        source: where the plan comes from, for the message.

    Raises:
        CompileError: MCM-S021 if the plan is for another model, MCM-S022 if it divides a tensor
            that the model does not have, or along a dimension that the tensor does not have.
    """
    known = model_digest(model)
    if plan.digest != known:
        raise CompileError.of(
            "MCM-S021",
            f"the plan is for another model: it was made for {quote(plan.model)} "
            f"({quote(plan.digest[:12])}), whose tensors are not those of this one "
            f"({quote(known[:12])})",
            at=source,
        )
    values = {value.name: value for value in [*model.graph.inputs, *_weights(model)]}
    faults: list[Diagnostic] = []
    for name, dim in [*plan.variables.items(), *plan.inputs.items()]:
        value = values.get(name)
        if value is None:
            message = f"the plan divides {quote(name)}, which the model does not have"
        elif value.shape is None or dim >= len(value.shape):
            rank = "an unknown number of" if value.shape is None else len(value.shape)
            message = f"the plan divides dim {dim} of {quote(name)}, which has {rank} dimensions"
        else:
            continue
        faults.append(Diagnostic("MCM-S022", message, at=source))
    if faults:
        raise CompileError(faults[:20])


def _weights(model: ir.Model) -> list[ir.Value]:
    made = [node for node in model.graph if node.op_type == "ConstantOfShape"]
    return [*model.graph.initializers.values(), *(node.outputs[0] for node in made)]
