"""Measured graphs that studies look at: from files, and parts of them."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np

from mcm_compiler.contracts.fabrics.fabric import Mappings
from mcm_models.mapping_model.data_files import load_data
from mcm_models.mapping_model.data_set import MappingData, MeasuredGraph
from mcm_passes.families.fabric.learning.mapping_trainer import exact


def read(path: Path) -> MappingData:
    """A data set, or all parts of a collection as one."""
    paths = sorted(path.glob("graphs-*.npz")) if path.is_dir() else [path]
    if not paths:
        raise SystemExit(f"{path} holds no parts of a collection")
    parts = [load_data(part) for part in paths]
    if any(part.learned != parts[0].learned for part in parts):
        raise SystemExit("the parts are of several targets")
    graphs = tuple(graph for part in parts for graph in part.graphs)
    return dataclasses.replace(parts[0], graphs=graphs)


def part(graph: MeasuredGraph, rows: np.ndarray) -> MeasuredGraph:
    """Some mappings of a graph."""
    labels = ("period_cycles", "latency_cycles", "error", "origin")
    chosen = {name: getattr(graph, name)[rows] for name in labels}
    mappings = Mappings(graph.mappings.site[rows], graph.mappings.turn[rows])
    return dataclasses.replace(graph, mappings=mappings, **chosen)


def drawn_graphs(data: MappingData, count: int) -> list[MeasuredGraph]:
    """Mappings with exact labels of some graphs, drawn with the data's seed.

    Args:
        data: measured mappings.
        count: graphs that are drawn; those without an exact label are left out then.
    """
    chosen = np.random.default_rng(data.seed).permutation(len(data.graphs))[:count]
    graphs = [part(data.graphs[k], exact(data.graphs[k])) for k in chosen.tolist()]
    return [graph for graph in graphs if len(graph)]
