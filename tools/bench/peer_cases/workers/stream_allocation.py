"""Stream's genetic algorithm on a row of cores like those of its examples.

Runs in an environment with stream-dse: `python stream_allocation.py REQUEST.json ANSWER.json`.
"""

from __future__ import annotations

import importlib
import json
import signal
import sys
import time
from pathlib import Path
from types import ModuleType
from typing import Any

EXAMPLES = "stream.inputs.examples.hardware"
LINK_BITS = 64


def row_of_cores(count: int) -> Any:
    """Its TPU-like cores side by side, each with off-chip memory."""
    core: Any = importlib.import_module(f"{EXAMPLES}.cores.TPU_like").get_core
    offchip: Any = importlib.import_module(f"{EXAMPLES}.cores.offchip").get_offchip_core
    mesh: Any = importlib.import_module(f"{EXAMPLES}.nocs.mesh_2d").get_2d_mesh
    made: Any = importlib.import_module("stream.classes.hardware.architecture.accelerator")
    cores = [core(index) for index in range(count)]
    graph = mesh(cores, 1, count, LINK_BITS, 0, None, None, offchip(id=count))
    return made.Accelerator("row", graph, offchip_core_id=count)


def allocation(asked: dict[str, Any]) -> Any:
    """The graph of layers, each with its core."""
    count = asked["count"]
    mapping: Any = ModuleType("any_core")
    mapping.mapping = {"default": {"core_allocation": list(range(count))}}
    sys.modules["any_core"] = mapping
    stages: Any = importlib.import_module("stream.classes.stages")
    zigzag: Any = importlib.import_module("zigzag.classes.stages")
    main_stage = zigzag.MainStage(
        [
            stages.StreamONNXModelParserStage,
            stages.GenerateCNWorkloadHybridStage,
            stages.IntraCoreMappingStage,
            stages.InterCoreMappingStage,
        ],
        accelerator=row_of_cores(count),
        workload_path=asked["model"],
        mapping_path="any_core",
        loma_lpf_limit=asked["loops"],
        nb_ga_individuals=asked["individuals"],
        nb_ga_generations=asked["generations"],
        node_hw_performances_path=asked["out"],
        plot_hof=False,
        plot_file_name="",
        cn_define_mode=1,
        hint_loops=[],
        scheduler_candidate_selection="latency",
        operands_to_prefetch=[],
    )
    return main_stage.run()[0][0].workload


def main(request: Path, answer: Path) -> None:
    """Allocates the layers of the request's model."""
    asked = json.loads(request.read_text(encoding="utf-8"))
    limit_s = asked["limit_s"]

    def late(_number: int, _frame: object) -> None:
        raise TimeoutError(f"no answer after {limit_s} CPU-seconds")

    signal.signal(signal.SIGPROF, late)
    signal.setitimer(signal.ITIMER_PROF, limit_s)
    onnx: Any = importlib.import_module("onnx")
    names = [node.name for node in onnx.load(asked["model"]).graph.node]
    start = time.process_time()
    workload = allocation(asked)
    cpu_s = time.process_time() - start
    part_of = {names[node.id[0]]: int(node.core_allocation) for node in workload.nodes()}
    told = {"part_of": part_of, "cpu_s": cpu_s}
    answer.write_text(json.dumps(told), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
