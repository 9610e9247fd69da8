"""Clones and relays on BERT-large: priced by the evaluator, and outputs keep their bits.

Moves units of the default strategy's partition at random and repairs it (FIX), under the strict
and under the relay rule, until the evaluator lets one run that needs clones, and under the relay
rule relays as well. Compiles just that partition with all passes, compares the chips with the model
in onnxruntime, and the period and the memory with what the batch evaluator said. Writes
`tools/reproduce/data/legalization.json`.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir
from moved_units import with_moved_units

from mcm_compiler import CompileOptions
from mcm_compiler.api import run_passes
from mcm_compiler.components.capabilities import required_batch_evaluation_of
from mcm_compiler.components.target_loading import load_target
from mcm_compiler.contracts.evaluation import ResultKind
from mcm_compiler.contracts.fusion import FUSION_PLAN
from mcm_compiler.contracts.partition import LEGALIZATION, PARTITION, PARTITION_PROBLEM, Ints
from mcm_compiler.contracts.program import PROGRAM, SIMULATION
from mcm_compiler.contracts.target import Routing
from mcm_compiler.contracts.verification import VERIFICATION
from mcm_compiler.pipeline.passes import Pass
from mcm_compiler.placements.ring_rules import dependency_edges
from mcm_passes.families.ring.solver.batch import BatchSolver
from mcm_passes.mapping.machine.evaluation import evaluate
from mcm_passes.mapping.problem.rule_graph import rule_graph

DATA = Path(__file__).with_name("data") / "legalization.json"
VERSIONS = ("mcm-compiler", "numpy", "onnx", "onnxruntime")
BATCH = 256
MOVED_SHARE = 0.02
"""Units that move to a random chip before repair."""


@dataclasses.dataclass
class Replacement:
    """Puts a random partition in the place of the strategy's, as soon as that is found.

    Attributes:
        target: name of the package.
        routing: the rule.
        seed: of the draws.
        evaluated: what the batch evaluator said of it.
    """

    target: str
    routing: Routing
    seed: int
    evaluated: dict[str, Any] = dataclasses.field(default_factory=dict[str, Any])

    def __call__(self, done: Pass, model: ir.Model) -> None:
        """Called after each pass."""
        if done.name != "partition":
            return
        problem, partition = PARTITION_PROBLEM.get(model), PARTITION.get(model)
        chip_of = self._draw(model)
        PARTITION.set(
            model,
            dataclasses.replace(
                partition,
                chip_of=chip_of,
                period_s=evaluate(problem, chip_of).period_s,
                strategy="random",
            ),
        )

    def _draw(self, model: ir.Model) -> Ints:
        problem = PARTITION_PROBLEM.get(model)
        groups = FUSION_PLAN.get(model).group_names
        evaluating = required_batch_evaluation_of(load_target(self.target))
        evaluator = evaluating.batch_evaluator(model, problem, groups)
        graph = rule_graph(problem)
        solver = BatchSolver.of(graph, self.routing)
        rng = np.random.default_rng(self.seed)
        best = PARTITION.get(model).chip_of[graph.units]
        while True:
            proposals = with_moved_units(rng, best, problem.num_chips, BATCH, MOVED_SHARE)
            partitions = np.zeros((BATCH, problem.num_units), np.int32)
            partitions[:, graph.units] = solver.fix(rng, proposals)
            results = evaluator.evaluate(partitions)
            for row in np.flatnonzero(results.kind == ResultKind.RUNS).tolist():
                found = evaluate(problem, partitions[row])
                source, target = dependency_edges(problem)
                relays = (found.chip_of[target] - found.chip_of[source] > 1).any()
                if found.valid and (relays or self.routing == "strict"):
                    self.evaluated = {
                        "period_s": float(results.period_s[row]),
                        "latency_s": float(results.latency_s[row]),
                        "high_water_bytes": int(results.high_water_bytes[row].sum()),
                    }
                    return found.chip_of


def compiled(model: str, target: str, routing: Routing, seed: int) -> dict[str, Any]:
    """Compiles one random partition and says what came out."""
    replacement = Replacement(target, routing, seed)
    done, _, _ = run_passes(model, target, CompileOptions(routing=routing), after_pass=replacement)
    legalization, simulation = LEGALIZATION.get(done), SIMULATION.get(done)
    verification = VERIFICATION.get(done)
    program = PROGRAM.get(done)
    return {
        "clones": len(legalization.clones),
        "relays": len(legalization.relays),
        "outputs": [dataclasses.asdict(output) for output in verification.outputs],
        "equal": verification.holds,
        "analytic_period_s": PARTITION.get(done).period_s,
        "period_s": simulation.period_s,
        "latency_s": simulation.latency_s,
        "link_bytes": sum(link.bytes_per_inference for link in simulation.links),
        "high_water_bytes": sum(chip.high_water_bytes for chip in program.chips),
        "batch_judge": replacement.evaluated,
    }


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description="Clones and relays on BERT-large.")
    parser.add_argument("--model", default="zoo:bert-large")
    parser.add_argument("--target", default="mcm36")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--update", action="store_true", help="write the data")
    arguments = parser.parse_args()
    rules: tuple[Routing, ...] = ("strict", "relay")
    found = {r: compiled(arguments.model, arguments.target, r, arguments.seed) for r in rules}
    result = {
        "command": f"python tools/reproduce/legalization.py --model '{arguments.model}' "
        f"--target {arguments.target} --seed {arguments.seed} --update",
        "versions": {name: metadata.version(name) for name in VERSIONS},
        "rules": found,
    }
    text = json.dumps(result, indent=2)
    sys.stdout.write(text + "\n")
    if arguments.update:
        DATA.parent.mkdir(parents=True, exist_ok=True)
        DATA.write_text(text + "\n", encoding="utf-8")
    return 0 if all(figures["equal"] for figures in found.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
