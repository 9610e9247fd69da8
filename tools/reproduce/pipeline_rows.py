"""Rows 7 to 19 of the acceptance table: models, clusters, published cuts, and the rules to pass."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import onnx_ir as ir

from mcm_compiler.api import build_zoo_model
from mcm_compiler.components.target_loading import load_cluster
from mcm_compiler.contracts.cluster import ClusterTarget
from mcm_compiler.ir.reading.importer import import_model
from mcm_compiler.plugin_files import load_plugin
from mcm_passes.parallelism.pipelines.node_chain import Optimizer, PipelineSettings

DATA = Path(__file__).resolve().parent / "data"

MODELS: dict[str, tuple[str, Optimizer]] = {
    # Two sequences of 128 tokens per device and micro-batch, as DAPPLE profiles BERT-48.
    "BERT-48": (
        "bert-pretraining{layers=48,hidden=1024,heads=16,intermediate=4096,batch=16,"
        "shape_only=true}",
        "adam",
    ),
    # 512 tokens in, 114 out: the span corruption of Raffel et al. 2020, who train with Adafactor.
    "T5-base": ("t5-automap{batch=16,seq=512,decoder_seq=114,shape_only=true}", "adafactor"),
    "T5-3B": ("t5-3b{batch=8,seq=512,decoder_seq=114}", "adafactor"),
    "T5-11B": ("t5-11b{batch=8,seq=512,decoder_seq=114}", "adafactor"),
}
"""Zoo model and optimiser by the name in the table."""

LAYER_TOLERANCE, LENGTH_TOLERANCE, POSITION_TOLERANCE = 2, 1.02, 2.0


@dataclass(frozen=True)
class Row:
    """A row of the table.

    Attributes:
        number: of the row.
        model: key of `MODELS`.
        target: the cluster.
        layers: published cuts in layers; None where none are, or they do not count.
        devices: published device cuts that count; None where they do not.
        out_of_memory: whether the paper reports that nothing fits.
    """

    number: int
    model: str
    target: str
    layers: tuple[int, ...] | None = None
    devices: tuple[int, ...] | None = None
    out_of_memory: bool = False


ROWS = (
    Row(7, "BERT-48", "config-a", (23,), (8,)),
    Row(8, "BERT-48", "config-b", (17, 32), (8, 16)),
    Row(9, "BERT-48", "config-c", (14, 27, 40), (8, 16, 24)),
    Row(10, "T5-base", "config-a", None, (8,)),
    Row(11, "T5-base", "config-b", None, (8, 16)),
    Row(12, "T5-base", "config-c"),
    Row(13, "T5-3B", "config-a", None, (8,)),
    Row(14, "T5-3B", "config-b", None, (8, 16)),
    Row(15, "T5-3B", "config-c", None, (8, 16, 24)),
    Row(16, "T5-11B", "config-a", out_of_memory=True),
    Row(16, "T5-11B", "config-b", out_of_memory=True),
    Row(16, "T5-11B", "config-c", None, (8, 16, 24)),
)


def settings_of(model: str) -> PipelineSettings:
    """How a model of the table is trained."""
    return PipelineSettings(optimizer=MODELS[model][1])


def build(model: str) -> ir.Model:
    """A model of the table."""
    load_plugin(Path(__file__).parent / "automap_study" / "plugin.py")
    spec = MODELS[model][0]
    return import_model(build_zoo_model(spec), spec)[0]


def cluster(name: str) -> ClusterTarget:
    """A cluster of the table."""
    return load_cluster(name)


def passes(row: Row, layers: tuple[int, ...], devices: tuple[int, ...], gap: float) -> bool:
    """Whether a found pipeline passes its row.

    Args:
        row: the row.
        layers: cuts found, in layers.
        devices: device cuts found.
        gap: length over the exact optimum's, minus 1.
    """
    near = row.layers is None or all(
        abs(found - published) <= LAYER_TOLERANCE
        for found, published in zip(layers, row.layers, strict=True)
    )
    same = row.devices is None or devices == row.devices
    return near and same and 1.0 + gap <= LENGTH_TOLERANCE


def write(name: str, data: Any) -> None:
    """Writes a record into the folder of data."""
    DATA.mkdir(exist_ok=True)
    text = json.dumps(data, indent=1, allow_nan=False) + "\n"
    (DATA / name).write_text(text, encoding="utf-8")
