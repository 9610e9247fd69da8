"""The page `docs/results/calibration.md`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_HEAD = """\
# Calibration: the analytic model against the simulator

Does the analytic model rank partitions as the simulator does? On BERT-large on `mcm36` it does:
Pearson's correlation is above 0.999, and both reject the same partitions. Xie et al. 2022 (section
5.4) compare an analytic model with hardware: Pearson 0.91, and 13.5 % of the samples invalid.

The analytic model is that of `--cost-model roofline`: a roofline per op and the busiest resource of
a partition, in microseconds. The simulator lowers and simulates. Both get the same random
partitions:

    {command}

- `uniform` is the paper's random search: uniform probabilities, SAMPLE, random node order.
- `uniform, roomy` is the same on chips with 1 GiB, so all partitions fit.
- `near` is what search evaluates in the end: 5 % of the op groups of the default strategy's
  partition are moved to random chips, and FIX repairs the result.

"""

_COLUMNS = (
    "population, rule",
    "rejected by the simulator",
    "by the analytic model",
    "Pearson",
    "Spearman",
    "simulated / analytic, median",
)

_TAIL = """
Each row has {partitions:,} partitions. None is accepted by the analytic model and rejected by the
simulator.

![All partitions are on one line: simulated by analytic period](images/calibration.svg)

## Why they agree

- **The busiest chip alone sets the period.** In every partition that fits, the busiest resource of
  the analytic model is a chip, and the simulated period is that chip's busy time: waits are
  {waits:.2f} % of it. Channels are double-buffered and the ring has no cycles, so the slowest chip
  never starves. Links carry at most 1.2 MiB per inference in the default partition, 41 µs of a
  period of 746 µs.
- **Kernels are bound by the MAC array.** BERT-large's matrix products have inner dimensions of 64
  to 4096 on an array of 64 × 64. Fill and drain, and operands that are read once for each pass, add
  {kernels:.2f} % in the mean, nearly the same share on every chip. A common factor does not change
  a correlation.

Convolutional models with small inner dimensions differ more: single kernels take up to twice their
analytic time, because of
[what the cycle model adds](../explanation/kernel-work.md). Only the
simulator has latencies and memory plans.

## Why partitions are rejected

Random cuts are uneven. The embedding table takes 59.6 of the 64 MiB of its chip, so whatever shares
that chip overflows (chip 0 in {first:.0f} % of the rejected uniform partitions). 64 MiB are 3.6
times the mean of 17.7 MiB; the longest of 36 random runs is expected to have 4.2 times the mean.

The analytic model's memory is an upper estimate, {estimate:.3f} times the plan in the median of the
chips, because the plan reaches the peak of live bytes.
"""


def page(result: Mapping[str, Any]) -> str:
    """The page as Markdown, from the data of `calibration.py`."""
    populations: Mapping[str, Any] = result["populations"]
    rows = [_row(name, figures) for name, figures in populations.items()]
    roomy, uniform = populations["uniform, roomy, relay"], populations["uniform, relay"]
    rejected = uniform["rejected_by_judge_share"] * uniform["partitions"]
    if any(figures["false_positives"] for figures in populations.values()):
        raise ValueError("the page says that there are no false positives")
    tail = _TAIL.format(
        partitions=uniform["partitions"],
        waits=max(figures["causes"].get("waits", 0.0) for figures in populations.values()) * 100,
        kernels=roomy["causes"]["kernels"] * 100,
        first=uniform["overflowing_chips"]["0"] / rejected * 100,
        estimate=populations["near, relay"]["median_estimate_over_plan"],
    )
    table = f"| {' | '.join(_COLUMNS)} |\n|---{'|---:' * (len(_COLUMNS) - 1)}|\n"
    return _HEAD.format(command=result["command"]) + table + "".join(rows) + tail


def _row(name: str, figures: Mapping[str, Any]) -> str:
    agreement, ratio = figures["analytic_model"], figures["judge_over_analytic"]
    cells = [
        name,
        f"{figures['rejected_by_judge_share']:.1%}".replace("%", " %"),
        f"{figures['rejected_by_analytic_share']:.1%}".replace("%", " %"),
        f"{agreement['pearson']:.6f}" if agreement else "none runs",
        f"{agreement['spearman']:.6f}" if agreement else "none runs",
        f"{ratio['median']:.4f}" if ratio else "none runs",
    ]
    return f"| {' | '.join(cells)} |\n"
