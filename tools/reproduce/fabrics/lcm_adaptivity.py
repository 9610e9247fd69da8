"""Change the lowering: the network of mappings is refused, and trained again.

    python tools/reproduce/fabrics/lcm_adaptivity.py
    python tools/reproduce/fabrics/lcm_adaptivity.py --page      writes the figures into the page

The lowering changes by three numbers (`CHANGED`). What the recorded network learned holds for
another lowering, by the hash that its file carries: it has to be refused. Then `mcmc train
mapping-network` measures blocks that the changed lowering lays out, and learns from them alone. On
held-out blocks, laid out by either lowering, the gain of a network is what its flow takes off the
periods of the heuristic as published, at as many evaluations.

The control is the old network on the new lowering, past its refusal.

The training goes on where it was stopped, if the script is started again with the same `--work`.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import onnx_ir as ir
from lcm_placers import BASE, FLOWS, MOST_CYCLES, Flow, cell
from lcm_study.blocks import HELD_OUT, blocks
from lcm_study.flow_table import compared
from lcm_study.tables import between_marks
from mapping_network.gnn import Gnn
from mapping_network.layout import RECORDED_NETWORK
from mapping_network.network_trainer import MODEL_NAME, NetworkTrainer

from mcm_compiler.contracts.fabrics.fabric import Fabric, MappingProblem
from mcm_compiler.contracts.fabrics.target import UnitChoice
from mcm_compiler.contracts.training import TrainingProgress, TrainingRequest
from mcm_compiler.diagnostics import CompileError
from mcm_compiler.processes.one_thread import use_one_thread
from mcm_compiler.processes.staging import write_whole
from mcm_compiler.registry import register
from mcm_hardware.families.fabric.fabric_package import FabricPackage, fabric_12
from mcm_hardware.families.fabric.layout.rules import RULES, LayoutRules, lowering_hash
from mcm_hardware.families.fabric.layout.subgraph_layout import mapping_problem

ROOT = Path(__file__).resolve().parents[3]
RECORD = ROOT / "tools" / "reproduce" / "data" / "lcm_adaptivity.json"
PAGE = ROOT / "docs" / "results" / "fabrics.md"

CHANGED = dataclasses.replace(RULES, tile=32, burst_flits=32, memory_load=0.9)
"""Products read their operands twice as often, units with products send twice as much at a time,
and fewer memory units serve more readers each."""

TARGET = "fabric-12-changed"

SIZES = {"fewest": 2, "units": 48, "longest": 1000}
"""Of the blocks that are learned from: about those of the compared ones, soon measured."""

LOWERINGS: dict[str, LayoutRules] = {"in use": RULES, "changed": CHANGED}

SHARED = (BASE, "round-trips")
"""Flows without a network, which are asked on either lowering."""


class ChangedFabric(FabricPackage):
    """fabric-12 whose blocks are laid out by other rules."""

    @property
    def lowering_hash(self) -> str:
        """Of the changed rules."""
        return lowering_hash(CHANGED)

    def mapping_problem(self, model: ir.Model, choice: UnitChoice) -> MappingProblem:
        """As the changed rules have it."""
        return mapping_problem(model, self.fabric, choice, CHANGED)


def changed_fabric() -> ChangedFabric:
    """fabric-12 with the changed lowering."""
    plain = fabric_12()
    return ChangedFabric(TARGET, plain.spec, plain.source_text)


def main(argv: Sequence[str] | None = None) -> int:
    """Trains, compares and records; or writes the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--work", type=Path, default=ROOT / "build" / "lcm-adaptivity")
    parser.add_argument("--graphs", type=int, default=300)
    parser.add_argument("--blocks", type=int, default=24)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--limit", default="2000 evaluations")
    parser.add_argument("--page", action="store_true")
    given = parser.parse_args(argv)
    if given.page:
        text = page_of(json.loads(RECORD.read_text(encoding="utf-8")))
        page = between_marks(PAGE.read_text(encoding="utf-8"), "adaptivity", text)
        write_whole(PAGE, page.encode())
        return 0
    use_one_thread()
    record: dict[str, Any] = {"refused": refusal()}
    record["training"] = retrained(given.work, given.graphs)
    record["limit"] = given.limit
    record["lowerings"] = {
        name: compared_flows(name, given.work / MODEL_NAME, given.blocks, given.seeds, given.limit)
        for name in LOWERINGS
    }
    write_whole(RECORD, (json.dumps(record, indent=1) + "\n").encode())
    print(page_of(record))
    return 0


def refusal() -> str:
    """The code of the diagnostic by which the recorded network is refused.

    Raises:
        SystemExit: if it is not.
    """
    target = changed_fabric()
    try:
        Gnn().check_learned_of(target.fabric, target.lowering_hash, target.mapping_judge().physics)
    except CompileError as error:
        return error.diagnostics[0].code
    raise SystemExit("a network that knows another lowering is not refused")


def retrained(work: Path, graphs: int) -> dict[str, Any]:
    """Measures and learns as `mcmc train mapping-network` does; no CPU-seconds where it goes on."""
    register("target", TARGET)(changed_fabric)
    begin, goes_on = time.process_time(), work.exists()
    request = TrainingRequest(work, resume=goes_on)
    result = NetworkTrainer(target=TARGET, graphs=graphs, **SIZES).train(request, _tell)
    return {
        "graphs": graphs,
        "measurements": result.samples,
        "cpu_s": None if goes_on else round(time.process_time() - begin, 1),
        "figures": {name: round(value, 4) for name, value in result.scores.items()},
    }


def _tell(progress: TrainingProgress) -> None:
    print(f"{progress.phase}: {progress.done} of {progress.total}", file=sys.stderr, flush=True)


def compared_flows(
    lowering: str, retrained_model: Path, count: int, seeds: int, limit: str
) -> list[dict[str, Any]]:
    """Flows on the held-out blocks of a lowering, each over the heuristic as published."""
    fabric: Fabric = fabric_12().fabric
    flows = [flow for flow in FLOWS if flow.name in SHARED]
    own = Flow("the recorded network", "gnn", learned=RECORDED_NETWORK)
    flows.append(own)
    if LOWERINGS[lowering] is CHANGED:
        model = f"gnn{{checkpoint={retrained_model}}}"
        flows.append(Flow("the network trained again", model, learned=retrained_model))
    problems = blocks(fabric, HELD_OUT, count, most_cycles=MOST_CYCLES, rules=LOWERINGS[lowering])
    rows = [
        cell(flow, fabric, problem, seed, limit, "short")
        for problem in problems
        for seed in range(seeds)
        for flow in flows
    ]
    found = compared(rows, [flow.name for flow in flows], BASE)
    return [dataclasses.asdict(row) for row in found]


def page_of(record: dict[str, Any]) -> str:
    """A line for each lowering, and the training."""
    lines: list[str] = []
    for lowering, rows in record["lowerings"].items():
        gains = [f"{row['flow']} {100 * (1 - row['ratio']):.1f} %" for row in rows[1:]]
        lines.append(f"- {lowering}: {', '.join(gains)}")
    training = record["training"]
    spent = f" in {training['cpu_s'] / 60:.0f} CPU-minutes" if training["cpu_s"] else ""
    lines += [
        "",
        f"{record['limit']} each. The recorded network is refused on the changed lowering "
        f"({record['refused']}). The new one learned from {training['measurements']} measurements "
        f"of {training['graphs']} blocks{spent}.",
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
