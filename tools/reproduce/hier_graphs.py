"""Ops of the hierarchical planner's graphs, beside the numbers that its paper gives.

Builds the training step of each graph with and without TensorFlow's bookkeeping, and counts.
`--update` writes `tools/reproduce/data/hier_graphs.json` and a section of
`docs/results/hierarchical-planner.md`.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Iterable
from typing import Any

import onnx_ir as ir
from hier_study.page import read_rows, table, write_record, write_section
from hier_study.paper_graphs import GRAPHS, PaperGraph, chosen

from mcm_compiler.processes.one_thread import use_one_thread

MOST_DEVIATION = 0.05
"""By which numbers of ops may differ from the paper's where they are to be its."""

_PARTS = (("grad/", "backward"), ("clip/", "update"), ("clip", "update"), ("update/", "update"))


def part_of(node: ir.Node) -> str:
    """What an op of a training step is for: `forward`, `backward`, `wait` or `update`."""
    name = node.name or ""
    if "/wait/" in name:
        return "wait"
    return next((part for start, part in _PARTS if name.startswith(start)), "forward")


def census(nodes: Iterable[ir.Node]) -> dict[str, int]:
    """Ops by type, the most frequent first."""
    return dict(Counter(node.op_type for node in nodes).most_common())


def counted(graph: PaperGraph) -> dict[str, Any]:
    """The record of a graph."""
    began = time.process_time()
    model = graph.step().model
    built_s = time.process_time() - began
    plain = graph.step(bookkeeping=False).model
    kept, without = Counter(census(model.graph)), Counter(census(plain.graph))
    return {
        "graph": graph.name,
        "paper_ops": graph.paper_ops,
        "steps": getattr(graph.builder, "steps", None),
        "ops": len(model.graph),
        "deviation": len(model.graph) / graph.paper_ops - 1.0,
        "ops_without_bookkeeping": len(plain.graph),
        "parts_without_bookkeeping": dict(Counter(map(part_of, plain.graph))),
        "bookkeeping": dict((kept - without).most_common()),
        "types_without_bookkeeping": dict(without.most_common()),
        "build_cpu_s": round(built_s, 2),
    }


def section(rows: list[dict[str, Any]]) -> str:
    """The table of the page: numbers of ops by part."""
    by_name = {row["graph"]: row for row in rows}
    rows = [by_name[graph.name] for graph in GRAPHS if graph.name in by_name]
    return table(
        ["graph", "steps", "paper", "ops", "differs by", "forward", "backward",
         "waiting", "clipping, Adam", "bookkeeping", "CPU-s"],
        [
            [
                row["graph"],
                str(row["steps"] or "-"),
                f"{row['paper_ops']:,}",
                f"{row['ops']:,}",
                f"{row['deviation']:+.1%}",
                *(f"{row['parts_without_bookkeeping'].get(part, 0):,}"
                  for part in ("forward", "backward", "wait", "update")),
                f"{sum(row['bookkeeping'].values()):,}",
                f"{row['build_cpu_s']:.1f}",
            ]
            for row in rows
        ],
    )  # fmt: skip


def main() -> int:
    """The command line; 1 if a graph that is to have the paper's number of ops has not."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("graphs", nargs="*", help="names; all where none is given")
    parser.add_argument("--update", action="store_true", help="write the data and the page")
    options = parser.parse_args()
    use_one_thread()
    rows: list[dict[str, Any]] = []
    for graph in chosen(options.graphs):
        row = counted(graph)
        rows.append(row)
        print(f"{row['graph']}: {row['ops']:,} ops, {row['deviation']:+.2%}; "
              f"{row['build_cpu_s']} CPU-s", flush=True)  # fmt: skip
    if options.update:
        write_record("hier_graphs", "python tools/reproduce/hier_graphs.py --update", rows)
        write_section("graphs", section(read_rows("hier_graphs")))
    far = {graph.name for graph in chosen(options.graphs) if graph.counted}
    return int(any(abs(r["deviation"]) > MOST_DEVIATION for r in rows if r["graph"] in far))


if __name__ == "__main__":
    sys.exit(main())
