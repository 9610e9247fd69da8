"""PiPPy's `split_into_equal_size`, which later PyTorch no longer has."""

from __future__ import annotations

from math import prod
from typing import Any

from peer_cases.answers import Asked, Row, Spent, row
from peer_cases.environments import Environment, PeerFailedError
from peer_cases.judging import best_of, parts_of_ops

PIPPY = Environment("pippy", ("torchpippy==0.2.0", "torch==2.13.0", "packaging", "numpy"))
"""It imports packaging and numpy, which it does not ask for."""


def answer(asked: Asked) -> Row:
    """The best of all numbers of stages up to the one that is asked for."""
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
    told, child = PIPPY.ask("pippy_policy", {"ops": ops, "count": asked.count})
    spent = Spent(told["cpu_s"], child.seconds)
    if not told["found"]:
        raise PeerFailedError("AssertionError for every number of stages")
    problem = asked.case.problem
    translated = [parts_of_ops(problem, part_of) for part_of in told["found"]]
    best, chosen = best_of(problem, [parts for parts, _ in translated])
    note = f"its own assertion fails for {told['refused']} of {asked.count - 1} numbers of stages"
    count = int(translated[chosen][0].max()) + 1
    return row(asked, best, spent, parts=count, note=note if told["refused"] else "")
