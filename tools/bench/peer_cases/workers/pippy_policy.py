"""PiPPy's policy for equal stages, on a traced graph with a module per op and parameters like its.

Runs in the environment of torchpippy: `python pippy_policy.py REQUEST.json ANSWER.json`.
"""

from __future__ import annotations

import importlib
import json
import sys
import time
from pathlib import Path
from typing import Any


def traced(ops: list[dict[str, Any]]) -> Any:
    """A graph module whose calls are those of the ops, on meta tensors of the same sizes."""
    torch: Any = importlib.import_module("torch")
    fx: Any = importlib.import_module("torch.fx")
    root = torch.nn.Module()
    graph = fx.Graph()
    values: dict[str, Any] = {}
    call: Any = None
    for index, op in enumerate(ops):
        module = torch.nn.Module()
        for place, size in enumerate(op["parameters"]):
            empty = torch.empty(size, device="meta")
            module.register_parameter(f"p{place}", torch.nn.Parameter(empty, requires_grad=False))
        root.add_module(f"op{index}", module)
        for name in op["inputs"]:
            if name not in values:
                values[name] = graph.placeholder(f"given{len(values)}")
        call = graph.call_module(f"op{index}", tuple(values[name] for name in op["inputs"]))
        values |= dict.fromkeys(op["outputs"], call)
    graph.output(call)
    return fx.GraphModule(root, graph)


def stages(ops: list[dict[str, Any]], count: int) -> dict[str, int]:
    """The stage of each op; raises AssertionError where the policy cannot make so many."""
    policy: Any = importlib.import_module("pippy.ModelSplit").split_into_equal_size
    part_of: dict[str, int] = {}
    stage = 0
    for node in policy(count)(traced(ops)).graph.nodes:
        stage += node.op == "call_function"
        if node.op == "call_module":
            part_of[ops[int(node.target[2:])]["name"]] = stage
    return part_of


def main(request: Path, answer: Path) -> None:
    """Divides the ops of the request into stages, for each number of them that the policy takes."""
    asked = json.loads(request.read_text(encoding="utf-8"))
    importlib.import_module("pippy.ModelSplit")
    found: list[dict[str, int]] = []
    refused = 0
    start = time.process_time()
    for count in range(asked["count"], 1, -1):
        try:
            found.append(stages(asked["ops"], count))
        except AssertionError:
            refused += 1
    cpu_s = time.process_time() - start
    told = {"found": found, "refused": refused, "cpu_s": cpu_s}
    answer.write_text(json.dumps(told), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
