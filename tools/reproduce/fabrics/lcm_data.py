"""Publishes a collection: one file of arrays, and a card that says what is in it.

    mcmc train mapping-model --set graphs=420 -o training
    python tools/reproduce/fabrics/lcm_data.py training/collection

The arrays go to `tools/reproduce/data/fabric_measurements.npz`, the card beside them. They are read
with `mcm_models.mapping_model.data_files.load_data`, which holds no pickle and checks every number.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from lcm_accuracy import labels_of
from lcm_study.graphs import read

from mcm_compiler.processes.staging import write_whole
from mcm_models.mapping_model.data_files import save_data
from mcm_models.mapping_model.data_set import ORIGINS, MappingData
from mcm_passes.families.fabric.learning.mapping_trainer import exact

OUT = Path(__file__).parents[1] / "data" / "fabric_measurements.npz"


def main(argv: Sequence[str] | None = None) -> int:
    """Writes both files and prints the card."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("collection", type=Path)
    given = parser.parse_args(argv)
    data = read(given.collection)
    save_data(OUT, data)
    text = json.dumps(card_of(data), indent=1) + "\n"
    write_whole(OUT.with_suffix(".json"), text.encode())
    print(text)
    return 0


def card_of(data: MappingData) -> dict[str, object]:
    """What a data set holds; quantiles are of 5, 50 and 95 %."""
    graphs = data.graphs
    origin = np.concatenate([graph.origin for graph in graphs])
    return {
        "fabric": data.fabric.name,
        "learned": dataclasses.asdict(data.learned),
        "seed": data.seed,
        "graphs": len(graphs),
        "graphs_by_family": dict(Counter(graph.family for graph in graphs)),
        "measurements": data.measurements,
        "measurements_by_origin": {
            name: int(np.sum(origin == number)) for number, name in enumerate(ORIGINS)
        },
        "inexact_share": round(float(np.mean(np.concatenate([~exact(g) for g in graphs]))), 4),
        "labels": labels_of(data),
        "bound_cycles": _quantiles([graph.bound_cycles for graph in graphs]),
        "units": _quantiles([float(graph.problem.num_units) for graph in graphs]),
        "streams": _quantiles([float(graph.problem.num_streams) for graph in graphs]),
    }


def _quantiles(values: Sequence[float]) -> list[float]:
    return [round(float(x), 2) for x in np.quantile(values, [0.05, 0.5, 0.95])]


if __name__ == "__main__":
    sys.exit(main())
