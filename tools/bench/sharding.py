"""How long propagation of sharding takes, on a warm process.

`rules_classes_conflicts_5000_ms` is from a model of 5,000 nodes (T5 of 42 + 42 layers) to the
conflicts of all its dimension classes: rules of all ops, spelt-out normalisations, classes,
conflicts. `linkage_t5_11b_ms` is from the model of T5-11B to its linkage groups, which takes the
rules and classes of its 2,800 nodes, too. `decision_us` is one class partitioned, with the classes
that this forbids, in the decisions of T5-11B. All are processor time, as other load on the machine
would count otherwise. `first_call_s` is the wall time of the first classes of a process that finds
its kernels compiled.
"""

from __future__ import annotations

import gc
import sys
import time
from collections.abc import Callable

import numpy as np
import onnx_ir as ir
from harness.bars import Bar, median_bar
from harness.children import run_child
from harness.command_line import Settings, run_script

from mcm_compiler.ir.reading.importer import import_model
from mcm_models.zoo.t5 import T5
from mcm_passes.parallelism.classes.dimension_classes import (
    DimensionClasses,
    dimension_classes,
    linkage_groups,
)
from mcm_passes.parallelism.classes.variables import trainable_variables
from mcm_passes.parallelism.decisions.decision_problem import opp_problem
from mcm_passes.parallelism.rules.graph_rules import rules_of
from tests.generators.partial_decisions import ConflictMasks, PartialDecision

LAYERS = 42
DEGREE = 8
DECISIONS = 20_000
ELEVEN_BILLION = {
    "layers": 24,
    "decoder_layers": 24,
    "hidden": 1024,
    "heads": 128,
    "head_width": 128,
    "intermediate": 65_536,
}
FIRST = """
import time
import onnx_ir as ir
from mcm_compiler.ir.reading.importer import import_model
from mcm_models.zoo.t5 import T5
from mcm_passes.parallelism.decisions.decision_problem import opp_problem
model, _ = import_model(T5(shape_only=True).build(), "t5")
start = time.perf_counter()
opp_problem(model, 8)
print(time.perf_counter() - start)
"""


def measure(settings: Settings) -> list[Bar]:
    """All bars."""
    gc.set_threshold(100_000, 20, 20)  # as the command line does
    runs = max(settings.repetitions, 5)
    large = _imported(T5(layers=LAYERS, decoder_layers=LAYERS, shape_only=True))
    print(f"{len(large.graph):,} nodes", file=sys.stderr)
    eleven = _imported(T5(**ELEVEN_BILLION, shape_only=True))
    run_child([sys.executable, "-c", FIRST])
    first = [float(run_child([sys.executable, "-c", FIRST]).stdout) for _ in range(3)]
    return [
        median_bar("rules_classes_conflicts_5000_ms", _ms(lambda: _conflicts(large), runs), 150.0),
        median_bar("linkage_t5_11b_ms", _ms(lambda: _linkage(eleven), runs), 50.0),
        median_bar("decision_us", _decisions(eleven, runs), 5.0),
        median_bar("first_call_s", first, 2.0),
    ]


def _imported(builder: T5) -> ir.Model:
    return import_model(builder.build(), builder.name)[0]


def _classes(model: ir.Model) -> DimensionClasses:
    return dimension_classes(model, rules_of(model))


def _conflicts(model: ir.Model) -> None:
    _classes(model).conflicts()


def _linkage(model: ir.Model) -> None:
    linkage_groups(_classes(model), trainable_variables(model))


def _ms(work: Callable[[], None], runs: int) -> list[float]:
    work()
    samples: list[float] = []
    for _ in range(runs):
        gc.collect()
        start = time.process_time()
        work()
        samples.append((time.process_time() - start) * 1e3)
    return samples


def _decisions(model: ir.Model, runs: int) -> list[float]:
    problem = opp_problem(model, DEGREE)
    masks = ConflictMasks(problem)
    rng = np.random.default_rng(0)
    order = [int(k) for k in rng.permutation(problem.num_classes)]
    samples: list[float] = []
    for _ in range(runs):
        start = time.process_time()
        done = 0
        while done < DECISIONS:
            state = PartialDecision(masks)
            for index in order:
                state.partition(index)
            done += len(order)
        samples.append((time.process_time() - start) / done * 1e6)
    return samples


if __name__ == "__main__":
    sys.exit(run_script(__doc__, measure))
