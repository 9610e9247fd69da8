"""Compare flows: periods found on the same blocks, from the same seeds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

DRAWS = 2000
"""Samples of the bootstrap."""

Row = Mapping[str, Any]


@dataclass(frozen=True)
class Compared:
    """A flow compared with another one; shares of periods.

    Attributes:
        flow: its name.
        ratio: geometric mean of its periods over those of the other.
        low: end of the 95 % interval of that, by bootstrap over blocks.
        high: the other end.
        over_bound: geometric mean of its periods over the bounds.
        evaluations: in the median.
    """

    flow: str
    ratio: float
    low: float
    high: float
    over_bound: float
    evaluations: int

    @property
    def text(self) -> str:
        """Ratio and interval."""
        return f"{self.ratio:.3f} ({self.low:.3f} to {self.high:.3f})"


def shared_cells(rows: Sequence[Row], flows: Sequence[str]) -> set[tuple[str, int]]:
    """Blocks and seeds that all of the flows have been run on."""
    found = [{(r["block"], r["seed"]) for r in rows if r["flow"] == flow} for flow in flows]
    return set.intersection(*found) if found else set()


def compared(rows: Sequence[Row], flows: Sequence[str], base: str) -> list[Compared]:
    """Each flow compared with `base`, on the cells that all of them share.

    Args:
        rows: with `block`, `seed`, `flow`, `over_bound` and `evaluations`.
        flows: in the order of the table; `base` is among them.
        base: what ratios are over.

    Raises:
        ValueError: where they share nothing.
    """
    cells = shared_cells(rows, flows)
    if not cells:
        raise ValueError("no block and seed has been run by all flows")
    blocks = sorted({block for block, _ in cells})
    picks = np.random.default_rng(0).integers(0, len(blocks), (DRAWS, len(blocks)))
    logs = {flow: _logs(rows, flow, blocks, cells) for flow in flows}
    found: list[Compared] = []
    for flow in flows:
        over = logs[flow] - logs[base]
        low, high = np.exp(np.quantile(over[picks].mean(axis=1), [0.025, 0.975]))
        asked = [
            r["evaluations"] for r in rows if r["flow"] == flow and (r["block"], r["seed"]) in cells
        ]
        found.append(
            Compared(
                flow,
                float(np.exp(over.mean())),
                float(low),
                float(high),
                float(np.exp(logs[flow].mean())),
                int(np.median(asked)),
            )
        )
    return found


def winners(rows: Sequence[Row], fitted: Mapping[str, bool]) -> tuple[str, str]:
    """The flow that wins, and the best one in which nothing is fitted to measurements.

    A fitted flow wins only where its interval over the other lies below 1.

    Args:
        rows: as for `compared`.
        fitted: of each flow that may win, whether something in it is.
    """
    flows = list(fitted)
    over_bound = {row.flow: row.over_bound for row in compared(rows, flows, flows[0])}
    plain = min((flow for flow in flows if not fitted[flow]), key=lambda f: over_bound[f])
    better = [row for row in compared(rows, flows, plain) if fitted[row.flow] and row.high < 1]
    return min(better, key=lambda row: row.ratio).flow if better else plain, plain


def table(columns: Mapping[str, Sequence[Compared]], shown: Sequence[str]) -> str:
    """In Markdown: a row for each flow that is shown, a column for each comparison."""
    lines = [f"| flow | {' | '.join(columns)} |", "|---" + "|---:" * len(columns) + "|"]
    found = [{row.flow: row.text for row in rows} for rows in columns.values()]
    lines += [
        f"| {flow} | {' | '.join(cells.get(flow, '') for cells in found)} |" for flow in shown
    ]
    return "\n".join(lines)


def _logs(
    rows: Sequence[Row], flow: str, blocks: Sequence[str], cells: set[tuple[str, int]]
) -> np.ndarray:
    """`[blocks]`, mean over seeds of the logarithm of the period over the bound."""
    of_block: dict[str, list[float]] = {block: [] for block in blocks}
    for row in rows:
        if row["flow"] == flow and (row["block"], row["seed"]) in cells:
            of_block[row["block"]].append(float(np.log(row["over_bound"])))
    return np.array([np.mean(of_block[block]) for block in blocks])
