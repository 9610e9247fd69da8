"""The models of the table, each as the compiler's own search gets it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import onnx
import onnx_ir as ir

from mcm_compiler import CompileOptions
from mcm_compiler.api import run_passes
from mcm_compiler.components.capabilities import required_batch_evaluation_of
from mcm_compiler.components.cost_choice import with_cost_model
from mcm_compiler.components.cost_files import user_files
from mcm_compiler.components.target_loading import load_target
from mcm_compiler.contracts.fusion import FUSION_PLAN
from mcm_compiler.contracts.partition import PartitionProblem
from mcm_passes.mapping.problem.partition_problem import build_problem
from mcm_passes.mapping.solving.lowered_evaluator import LazyEvaluator

TARGET, COST_MODEL = "mcm36", "roofline"

PASSES = "simplify,fuse,annotate_cost,shard_oversized"
"""Before the search: what peers get is the graph after these."""

MODELS = {
    "ResNet-50": "zoo:resnet50",
    "MobileNetV2": "zoo:mobilenet-v2",
    "Inception-v3": "zoo:inception-v3",
    "dense CNN": "zoo:dense-cnn",
    "U-Net": "zoo:unet-cnn",
    "BERT-base": "zoo:bert-base",
    "GPT-2, 4 layers": "zoo:gpt2{layers=4}",
    "T5, 2 + 2 layers": "zoo:t5-small{layers=2,decoder_layers=2}",
    "NMT, 2 steps": "zoo:nmt{steps=2}",
    "CNN and LSTM": "zoo:conv-rnn",
}

QUICK = "U-Net"


@dataclass(frozen=True, eq=False)
class Case:
    """A model that is ready for every program.

    Attributes:
        name: in the table.
        source: its text for the compiler.
        model: the graph that is divided, with all weights.
        problem: the same as units, costs and a ring.
        evaluator: the simulator, which our search asks.
        seeds: how many each program may try.
    """

    name: str
    source: str
    model: ir.Model
    problem: PartitionProblem
    evaluator: LazyEvaluator
    seeds: int

    def write(self, path: Path) -> None:
        """Writes the graph that is divided as one ONNX file."""
        onnx.save(ir.to_proto(self.model), path)


def build_case(name: str, seeds: int) -> Case:
    """A model of `MODELS` up to the point where it is divided."""
    target = with_cost_model(load_target(TARGET), COST_MODEL, user_files(None))
    model, _, _ = run_passes(MODELS[name], target, CompileOptions(passes=PASSES))
    plan = FUSION_PLAN.get(model)
    problem = build_problem(model, target, "relay", plan)
    build = required_batch_evaluation_of(target).batch_evaluator
    groups = plan.group_names
    evaluator = LazyEvaluator(lambda: build(model, problem, groups))
    return Case(name, MODELS[name], model, problem, evaluator, seeds)
