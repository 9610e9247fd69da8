"""PiPPy's `split_into_equal_size`, which later PyTorch no longer has."""

from __future__ import annotations

import time
from math import prod
from typing import Any

from peer_cases.answers import Asked, Row, Spent, row
from peer_cases.environments import Environment
from peer_cases.judging import judged, parts_of_ops

PIPPY = Environment("pippy", ("torchpippy==0.2.0", "torch==2.13.0", "packaging", "numpy"))
"""It imports packaging and numpy, which it does not ask for."""


def answer(asked: Asked) -> Row:
    """Its stages."""
    graph = asked.whole.proto.graph
    sizes = {w.name: prod(w.dims) for w in graph.initializer}
    ops: list[dict[str, Any]] = [
        {
            "name": node.name,
            "inputs": [name for name in node.input if name and name not in sizes],
            "outputs": list(node.output),
            "parameters": [sizes[name] for name in node.input if name in sizes],
        }
        for node in graph.node
    ]
    start = time.perf_counter()
    told, _ = PIPPY.ask("pippy_policy", {"ops": ops, "count": asked.count})
    spent = Spent(told["cpu_s"], time.perf_counter() - start)
    parts, divided = parts_of_ops(asked.case.problem, told["part_of"])
    note = f"cuts through {divided} fused units, which were kept whole" if divided else ""
    count = len(set(told["part_of"].values()))
    return row(asked, judged(asked.case.problem, parts), spent, parts=count, note=note)
