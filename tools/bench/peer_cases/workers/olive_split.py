"""Olive's two passes: `CaptureSplitInfo` divides modules, `SplitModel` the ONNX model by them.

`CaptureSplitInfo` wants the PyTorch model that was exported. It looks at the names of modules
alone, so that a skeleton of empty modules with the names in the ONNX model does as well.

Runs in the environment of olive-ai: `python olive_split.py REQUEST.json ANSWER.json`.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import time
from pathlib import Path
from typing import Any


def skeleton(names: list[str]) -> Any:
    """Empty modules, one in the other as the names of ops say."""
    torch: Any = importlib.import_module("torch")
    root = torch.nn.Module()
    for name in names:
        at = root
        for word in name.strip("/").replace("/", ".").split(".")[:-1]:
            children = vars(at)["_modules"]
            if word not in children:
                # Also as an attribute, since a name such as "forward" is that of a method.
                vars(at)[word] = children[word] = torch.nn.Module()
            at = children[word]
    return root


def numbered_blocks(root: Any) -> list[str]:
    """Outermost modules whose children are numbered, as users name them; the root without any."""
    found: list[str] = []
    waiting: list[tuple[str, Any]] = [("", root)]
    while waiting:
        name, module = waiting.pop()
        children = list(module.named_children())
        if len([child for child, _ in children if child.isdigit()]) > 1:
            found.append(name)
        else:
            waiting += [(f"{name}.{child}".lstrip("."), inner) for child, inner in children[::-1]]
    return found or [""]


def main(request: Path, answer: Path) -> None:
    """Divides the model of the request and writes its pieces."""
    os.environ["OLIVE_DISABLE_TELEMETRY"] = "1"  # read where it is imported
    onnx: Any = importlib.import_module("onnx")
    handlers: Any = importlib.import_module("olive.model")
    made: Any = importlib.import_module("olive.passes.olive_pass").create_pass_from_dict
    capture: Any = importlib.import_module("olive.passes.pytorch.capture_split_info")
    split: Any = importlib.import_module("olive.passes.onnx.split")
    asked = json.loads(request.read_text(encoding="utf-8"))
    graph = onnx.load(asked["model"], load_external_data=False).graph
    names = [node.name for node in graph.node]
    root = skeleton(names)
    blocks = numbered_blocks(root)
    start = time.process_time()

    def loaded(_path: object) -> Any:
        return root

    torch_model = handlers.PyTorchModelHandler(model_loader=loaded)
    options = {"num_splits": asked["count"], "block_to_split": blocks}
    chosen = made(capture.CaptureSplitInfo, options, disable_search=True).run(torch_model, "")
    assignments = chosen.model_attributes["split_assignments"]
    whole = handlers.ONNXModelHandler(asked["model"])
    settings = {"split_assignments": assignments}
    pieces = made(split.SplitModel, settings, disable_search=True).run(whole, asked["out"])
    cpu_s = time.process_time() - start
    told: list[dict[str, Any]] = []
    for piece in pieces.model_components:
        graph = onnx.load(piece.model_path, load_external_data=False).graph
        told.append({"file": piece.model_path, "ops": [node.name for node in graph.node]})
    answer.write_text(
        json.dumps({"pieces": told, "cpu_s": cpu_s, "blocks": blocks}), encoding="utf-8"
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
