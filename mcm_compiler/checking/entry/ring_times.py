"""Numbers of a ring of processes: its period, the work of each chip, and what was predicted."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from mcm_compiler.contracts.program import LoweredProgram
from mcm_compiler.execution.ring.plan import RingPlan, RingResult
from mcm_compiler.text.units import count_text, percent_text, seconds_text

QUIET = 0.1
"""Share of the rounds of equal inputs that take a chip less than what counts. What others do on the
machine only adds to the others: on a busy one repeats differ by 1 to 5 %, and means by 4 to 9 %."""


def ring_data(
    plan: RingPlan, result: RingResult, program: LoweredProgram | None, classes: int
) -> dict[str, Any]:
    """A measurement as JSON-able data.

    CPU times are those of rounds that nothing disturbs, see `QUIET`. `repeat_error` is how far
    those of the blocks are apart. Of elapsed times the fastest block counts.

    Args:
        plan: of the run.
        result: of it.
        program: predicts the time of each chip; None where the target predicts none.
        classes: inferences of a round.
    """
    first, ends = plan.warm, plan.warm - 1 + np.arange(plan.blocks + 1) * plan.block
    all_s = np.diff(result.cpu_s, axis=-1)[..., first - 1 :]
    least_s = _quiet(plan, all_s, first)
    own_s = _quiet(plan, result.busy_s[..., first:], first)
    parts = range(0, plan.blocks * plan.block, plan.block)
    process_s = np.stack(
        [_quiet(plan, all_s[..., at : at + plan.block], first + at) for at in parts], axis=-1
    )
    # Pipelines take rounds in turn, each at its own pace.
    cpu_s = 1.0 / (classes / least_s.max(axis=1)).sum()
    block_s = 1.0 / (classes / process_s.max(axis=1)).sum(axis=0)
    wall_s = 1.0 / (classes * plan.block / np.diff(result.left_s[:, ends], axis=-1)).sum(axis=0)
    enough = len(plan.cores) >= plan.replicas * len(plan.chips)
    predicted_s = _predicted(plan, program)
    level = (
        None if predicted_s is None else float(least_s.sum() / predicted_s.sum()) / plan.replicas
    )
    rows: list[dict[str, Any]] = []
    for (replica, index), seconds in np.ndenumerate(least_s):
        row = {
            "chip": plan.chip_of(replica, index),
            "core": plan.core_of(replica, index),
            "busy_s": float(own_s[replica, index]),
            "overhead_s": max(0.0, float(seconds - own_s[replica, index])),
            "repeat_error": _spread(process_s[replica, index]),
            "predicted_s": None,
            "deviation": None,
        }
        if predicted_s is not None and level and predicted_s[index] > 0:
            row["predicted_s"] = float(predicted_s[index])
            row["deviation"] = float(seconds / (level * predicted_s[index]) - 1.0)
        rows.append(row)
    period_s = None
    if predicted_s is not None:
        period_s = float(predicted_s.max()) / (plan.replicas * classes)
    return {
        "period_cpu_s": float(cpu_s),
        "period_wall_s": float(wall_s.min()) if enough else None,
        "repeat_error": _spread(block_s),
        "predicted_period_s": period_s,
        "level": level,
        "inferences": plan.blocks * plan.block * plan.replicas * classes,
        "replicas": plan.replicas,
        "round": classes,
        "cores": len(plan.cores),
        "load": os.getloadavg()[0],
        "chips": rows,
    }


def _quiet(plan: RingPlan, rounds_s: np.ndarray, first: int) -> np.ndarray:
    """Seconds of each chip in a round that nothing disturbs, as a mean over inputs.

    Args:
        plan: of the run.
        rounds_s: `[replicas, chips, rounds]`.
        first: number of the first of these rounds.
    """
    found: list[np.ndarray] = []
    for replica, of_chips in enumerate(rounds_s):
        steps = [plan.step_of(replica, first + k)[0] for k in range(of_chips.shape[-1])]
        of_step = [of_chips[:, np.equal(steps, step)] for step in sorted(set(steps))]
        found.append(np.mean([np.quantile(one, QUIET, axis=-1) for one in of_step], axis=0))
    return np.stack(found)


def _spread(blocks: np.ndarray) -> float:
    return float(blocks.max() / blocks.min() - 1.0)


def _predicted(plan: RingPlan, program: LoweredProgram | None) -> np.ndarray | None:
    """Seconds of each chip's kernels in one round; None without any."""
    if program is None:
        return None
    work = {chip.chip: sum(k.duration_s for k in chip.kernels) for chip in program.chips}
    seconds = np.array([work.get(chip.chip, 0.0) for chip in plan.chips])
    return seconds if seconds.sum() > 0 else None


def ring_lines(data: Mapping[str, Any]) -> list[tuple[str, str]]:
    """A measurement in words, as rows of a label and a text."""
    elapsed = seconds_text(data["period_wall_s"]) if data["period_wall_s"] else "not measured"
    period = f"{seconds_text(data['period_cpu_s'])} of CPU time per inference"
    error, predicted = percent_text(data["repeat_error"]), "nothing"
    if data["predicted_period_s"]:
        factor = f"chips take {data['level']:.3g} times as long as predicted"
        predicted = f"{seconds_text(data['predicted_period_s'])} on {data['target']}; {factor}"
    drawn = count_text(data["random_inputs"], "random one")
    outputs = f"those of the chain within {data['max_abs_error']:.3g}"
    machine = f"{data['cores']} cores, load {data['load']:.1f} at the end"
    if data["scheduler"]:
        workers = count_text(data["cores"], "worker")
        machine = f"{workers} of {data['scheduler']}; tensors travel through this one"
    return [
        ("period", f"{period} (repeat error {error}); elapsed {elapsed}"),
        ("predicted", predicted),
        *([("inputs", drawn)] if data["random_inputs"] else []),
        ("outputs", "bit-identical to those of the chain" if data["outputs_equal"] else outputs),
        ("machine", machine),
    ]


def chip_table(rows: Sequence[Mapping[str, Any]]) -> list[tuple[str, ...]]:
    """A row for each chip below a head."""
    head = ("chip", "core", "busy", "overhead", "repeat error", "predicted", "deviation")
    return [head] + [
        (
            str(row["chip"]),
            str(row["core"]),
            seconds_text(row["busy_s"]),
            seconds_text(row["overhead_s"]),
            percent_text(row["repeat_error"]),
            seconds_text(row["predicted_s"]),
            percent_text(row["deviation"]),
        )
        for row in rows
    ]
