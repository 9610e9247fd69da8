"""OpenVINO's heterogeneous plugin: what it would place where, and what it computes.

Runs in the environment of openvino: `python openvino_hetero.py REQUEST.json ANSWER.json`.
"""

from __future__ import annotations

import importlib
import json
import sys
import time
from pathlib import Path
from typing import Any


def main(request: Path, answer: Path) -> None:
    """Places the model of the request and runs it once."""
    np: Any = importlib.import_module("numpy")
    ov: Any = importlib.import_module("openvino")
    asked = json.loads(request.read_text(encoding="utf-8"))
    core = ov.Core()
    devices = [name for name in core.available_devices if name != "GNA"]
    text = "HETERO:" + ",".join(devices)
    model = core.read_model(asked["model"])
    start = time.process_time()
    affinities = core.query_model(model, text)
    cpu_s = time.process_time() - start
    feeds = np.load(asked["inputs"])
    exact = {"INFERENCE_PRECISION_HINT": "f32"}
    compiled = core.compile_model(model, text, exact)
    names = [port.get_any_name() for port in model.inputs]
    found = compiled({name: feeds[name] for name in names})
    # Names may be others than those of the model, the order is the same.
    outputs = {name: found[at] for at, name in enumerate(asked["names"])}
    np.savez(asked["outputs"], **outputs)
    told = {
        "devices": devices,
        "device": text,
        "ops": len(affinities),
        "used": sorted(set(affinities.values())),
        "cpu_s": cpu_s,
    }
    answer.write_text(json.dumps(told), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
