"""Times of the kernels of small models on a core of this machine, each in its model's session.

Each model of `MODELS` is compiled for one process, and measured as by `mcmc measure`. It is a line
of `tools/reproduce/data/kernel_times.jsonl`, in columns; models that are there are not measured
again. Times are CPU seconds. docs/results/kernel-times.md describes the file.

    python -m tools.reproduce.machines.kernel_times
    python -m tools.reproduce.machines.kernel_times "zoo:gpt2-tiny{seq=64}"
    python -m tools.reproduce.machines.kernel_times --twice "zoo:gpt2-tiny{seq=64}"

With `--twice`, models are measured two times, and the differences are printed instead.
"""

from __future__ import annotations

import argparse
import csv
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir

from mcm_compiler.api import compile_model
from mcm_compiler.checking.entry.gate import OpenedFolder, open_folder
from mcm_compiler.contracts.chips import is_relay, kernels_of
from mcm_compiler.contracts.cost import CostModel
from mcm_compiler.diagnostics import CompileError
from mcm_compiler.measuring.kernel_times import kernel_name, measure_folder
from mcm_compiler.measuring.measurement import PLAIN, device_of
from mcm_compiler.measuring.times_files import machine_facts
from mcm_compiler.options import DEFAULT_PIPELINE
from mcm_hardware.chip.kernel_work import likeness
from mcm_hardware.measured_times.times_file import op_kind
from tools.kept_records import KeptRecords, Record, digest_of

DATA = Path(__file__).parents[1] / "data" / "kernel_times.jsonl"
TARGET = "cpu-ring"

FEATURES = ("ops", "largest_op", "flops", "read_bytes", "write_bytes", "weight_bytes", "computed_s")
"""Columns of `distinct`: kernels that compute the same; seconds are those of the target."""

MODELS = (
    *(f"zoo:plain-cnn{{{options}}}" for options in (
        "image_size=32,stages=3,blocks=3,width=32",
        "image_size=64,stages=4,blocks=2,width=16",
        "image_size=48,stages=3,blocks=6,width=16,widen=1.5",
        "image_size=32,stages=2,blocks=4,width=24,kernel=5",
    )),
    *(f"zoo:residual-cnn{{{options}}}" for options in (
        "image_size=32,width=32",
        "image_size=64,width=16,blocks=2",
        "image_size=32,width=32,block=bottleneck",
        "image_size=32,width=32,block=bottleneck,groups=4",
        "image_size=32,width=32,gated=true",
        "image_size=56,width=24,stages=3,blocks=5",
    )),
    *(f"zoo:branched-cnn{{{options}}}" for options in (
        "width=16", "width=32,branches=4", "image_size=48,width=16,blocks=3",
    )),
    *(f"zoo:dense-cnn{{{options}}}" for options in (
        "growth=16", "growth=32,blocks=4", "image_size=48,growth=12,blocks=8",
    )),
    *(f"zoo:ensemble-cnn{{{options}}}" for options in ("width=16", "members=5,width=8,blocks=2")),
    *(f"zoo:unet-cnn{{{options}}}" for options in (
        "width=16", "width=8,image_size=96", "width=16,stages=3,image_size=48",
    )),
    *(f"zoo:separable-cnn{{{options}}}" for options in (
        "image_size=32,width=32", "image_size=48,width=24,expansion=4,blocks=2",
    )),
    *(f"zoo:mobilenet-v2{{image_size={size}}}" for size in (64, 96)),
    "zoo:inception-v3{image_size=107}",
    "zoo:resnet50{image_size=64}",
    *(f"zoo:gpt2-tiny{{{options}}}" for options in (
        "seq=128", "seq=64,layers=6", "seq=128,hidden=256,heads=4,intermediate=1024,layers=4",
        "seq=32,layers=8,batch=4",
    )),
    *(f"zoo:bert-tiny{{{options}}}" for options in (
        "", "layers=4,hidden=256,heads=4,intermediate=1024", "seq=64,layers=6", "seq=256,layers=3",
    )),
    *(f"zoo:llama-tiny{{{options}}}" for options in ("", "layers=6", "style=attention,layers=4")),
    *(f"zoo:t5{{vocab=2000,heads=4,head_width=32,{options}}}" for options in (
        "layers=3,decoder_layers=3,hidden=128,intermediate=512,seq=64,decoder_seq=64",
        "layers=2,decoder_layers=4,hidden=256,intermediate=512,seq=128,decoder_seq=32",
    )),
    *(f"zoo:nmt{{{options}}}" for options in ("", "hidden=256,steps=6", "layers=3,steps=5")),
    "zoo:lstm-lm{hidden=256,vocab=4000}",
    *(f"zoo:{name}" for name in (
        "stacked-rnn", "stacked-rnn{layers=4,cell=gru}", "bidirectional-rnn", "encoder-decoder-rnn",
        "conv-rnn{width=32}",
    )),
)  # fmt: skip


def main(arguments: list[str]) -> int:
    """Measures what is not there yet."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("models", nargs="*", default=MODELS)
    parser.add_argument("--twice", action="store_true")
    given = parser.parse_args(arguments)
    if given.twice:
        off = [change for model in given.models for change in changes(model)]
        print(f"{len(off)} kernels: median {np.median(off):.1%}, 90th {np.quantile(off, 0.9):.1%}")
        return 0
    records = KeptRecords(DATA, "code")
    for model in given.models:
        key = digest_of(model, TARGET)
        if records.find(key) is None:
            start = time.process_time()
            try:
                record = measured(model)
            except CompileError as error:
                print(f"{model}: {error}", flush=True)
                continue
            records.keep({"key": key, "model": model, **record})
            print(f"{model}: {len(record['names'])} kernels, {len(record['distinct'])} distinct, "
                  f"{record['session_s'] * 1e3:.3g} ms, {time.process_time() - start:.3g} s",
                  flush=True)  # fmt: skip
    return 0


def kept() -> list[Record]:
    """The records of all models that were measured."""
    records = KeptRecords(DATA, "code")
    return [one for model in MODELS if (one := records.find(digest_of(model, TARGET))) is not None]


def measured(model: str) -> Record:
    """Kernels of a model with their times and what they compute."""
    with tempfile.TemporaryDirectory() as scratch:
        chips = Path(scratch) / "chips.csv"
        with chips.open("w", encoding="utf-8", newline="") as file:
            csv.writer(file).writerows([("name", "chip"), ("*", 0)])
        passes = DEFAULT_PIPELINE.removesuffix(",verify")
        options = replace(PLAIN, passes=passes, assignment=str(chips))
        compile_model(model, TARGET, options, output=Path(scratch) / "out")
        opened = open_folder(Path(scratch) / "out")
        device = device_of(opened.target, None)
        found = measure_folder(opened, device)
        return {
            "machine": machine_facts(device),
            "session_s": found.chip_s[0],
            "unmapped_share": found.unmapped_share,
            **_columns(opened, {k.kernel: (k.seconds, k.spread) for k in found.kernels}),
        }


def changes(model: str) -> list[float]:
    """Differences of the times of kernels between two measurements, as shares of their mean."""
    seconds = np.array([measured(model)["seconds"] for _ in range(2)])
    one, other = seconds[:, seconds.any(axis=0)]
    return (2.0 * abs(one - other) / (one + other)).tolist()


def _columns(opened: OpenedFolder, times: Mapping[str, tuple[float, float]]) -> Record:
    costs = opened.target.cost_model()
    kinds: dict[Any, int] = {}
    distinct: list[Sequence[Any]] = []
    columns: Record = {"names": [], "kind": [], "seconds": [], "spread": []}
    for nodes in kernels_of(n for n in opened.chips[0].model.graph if not is_relay(n)):
        key = likeness(nodes) or kernel_name(nodes)
        if key not in kinds:
            kinds[key] = len(distinct)
            distinct.append(_features(nodes, costs))
        seconds, spread = times.get(kernel_name(nodes), (0.0, 0.0))
        row = (kernel_name(nodes), kinds[key], float(f"{seconds:.4g}"), float(f"{spread:.3g}"))
        for column, cell in zip(columns.values(), row, strict=True):
            column.append(cell)
    return {**columns, "distinct": distinct}


def _features(nodes: Sequence[ir.Node], costs: CostModel) -> Sequence[Any]:
    largest = op_kind(max(nodes, key=lambda node: costs.node_cost(node).seconds))
    cost = costs.group_cost(nodes)
    return (
        " ".join(node.op_type for node in nodes),
        f"{largest.op_type} {largest.inputs} {largest.type}",
        *(getattr(cost, name) for name in FEATURES[2:-1]),
        float(f"{cost.seconds:.6g}"),
    )


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
