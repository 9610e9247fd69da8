"""How long learned search takes: an iteration, a policy's draws, and a whole training.

`ppo_iteration_s` is one iteration of 20 rollouts on BERT-large with the default recipe, rewards of
the fast model included, once everything is compiled; `ppo_published_iteration_s` the same with the
published one. `zero_shot_s` begins where a fresh process has read BERT-large and built its problem,
and ends with 64 valid partitions from the policy that comes with the compiler and their periods;
the start of an empty interpreter is added, and JAX must not be loaded. `pretraining_s` is `mcmc
train policy` with its defaults: 20,000 samples, 200 checkpoints scored; not with `--quick`.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from harness.bars import Bar, median_bar
from harness.children import MCMC, run_child
from harness.command_line import Settings, run_script

MODEL = "zoo:bert-large{shape_only=true}"
TARGET = "mcm36"

DRAW = f"""
import sys, time
import numpy as np
from mcm_compiler.contracts.partition import Budget
from mcm_compiler.components.target_loading import load_target
from mcm_passes.families.ring.learning.training_problems import partition_problem
problem = partition_problem({MODEL!r}, load_target({TARGET!r}))
start = time.perf_counter()
from mcm_passes.mapping.machine.periods import AnalyticPeriods
from mcm_passes.families.ring.learning.rl import RlZeroshot
outcome = RlZeroshot().solve(
    problem, AnalyticPeriods(problem), np.random.default_rng(0), Budget(evaluations=64)
)
assert outcome.chip_of is not None and "jax" not in sys.modules
print(time.perf_counter() - start)
"""


def measure(settings: Settings) -> list[Bar]:
    """All bars, without the training where `settings.quick`."""
    bars = [
        median_bar("ppo_iteration_s", _iterations_s("default", settings.repetitions), 3.0),
        median_bar(
            "ppo_published_iteration_s", _iterations_s("published", settings.repetitions), 3.0
        ),
        median_bar("zero_shot_s", _draws_s(settings.repetitions), 1.0),
    ]
    if not settings.quick:
        bars.append(median_bar("pretraining_s", [_training_s()], 900.0))
    return bars


def _iterations_s(recipe_name: str, repetitions: int) -> list[float]:
    from mcm_compiler.processes.one_thread import use_one_thread

    use_one_thread()
    import numpy as np

    from mcm_compiler.components.target_loading import load_target
    from mcm_models.policy.layout import initial_weights
    from mcm_passes.families.ring.learning.learner import PolicyLearner
    from mcm_passes.families.ring.learning.recipes import RECIPES
    from mcm_passes.families.ring.learning.tasks import Task, fast_rewards
    from mcm_passes.families.ring.learning.training_problems import partition_problem

    problem = partition_problem(MODEL, load_target(TARGET))
    recipe = RECIPES[recipe_name]
    task = Task.of(problem, recipe, fast_rewards(problem, 1e-3))
    learner = PolicyLearner(recipe, initial_weights(recipe.layout, 0))
    rng = np.random.default_rng(0)
    learner.iterate(task, rng)
    return [_seconds_of(lambda: learner.iterate(task, rng)) for _ in range(repetitions)]


def _draws_s(repetitions: int) -> list[float]:
    empty_s = min(run_child((sys.executable, "-c", "")).seconds for _ in range(repetitions))
    draw = (sys.executable, "-c", DRAW)
    run_child(draw)
    return [empty_s + float(run_child(draw).stdout) for _ in range(repetitions)]


def _training_s() -> float:
    with tempfile.TemporaryDirectory() as folder:
        return run_child((MCMC, "train", "policy", "-o", Path(folder) / "policy")).seconds


def _seconds_of(action: Callable[[], object]) -> float:
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


if __name__ == "__main__":
    sys.exit(run_script(__doc__, measure))
