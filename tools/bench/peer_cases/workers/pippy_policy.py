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
    graph.output(call if ops else None)
    return fx.GraphModule(root, graph)


def main(request: Path, answer: Path) -> None:
    """Divides the ops of the request into stages."""
    asked = json.loads(request.read_text(encoding="utf-8"))
    policy: Any = importlib.import_module("pippy.ModelSplit").split_into_equal_size
    ops = asked["ops"]
    module = traced(ops)
    start = time.process_time()
    module = policy(asked["count"])(module)
    cpu_s = time.process_time() - start
    part_of: dict[str, int] = {}
    stage = 0
    for node in module.graph.nodes:
        if node.op == "call_function":
            stage += 1
        if node.op == "call_module":
            part_of[ops[int(node.target[2:])]["name"]] = stage
    answer.write_text(json.dumps({"part_of": part_of, "cpu_s": cpu_s}), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
