"""Published figures of multi-chip accelerators, next to what the simulator gives for them.

Compiles ResNet-50 for packages after Simba of 1 to 36 chips, as a whole and at the clock of the
published peak, and compares the results with figures from papers and from a public program. Writes
`tools/reproduce/data/published_figures.json` and `docs/results/published-figures.md`. The seed of
all compiles is 0.

    python tools/reproduce/packages/published_figures.py
    python tools/reproduce/packages/published_figures.py --page-only
"""

from __future__ import annotations

import argparse
import json
import sys
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

from mcm_compiler import CompileOptions
from mcm_compiler.api import run_passes
from mcm_compiler.components.target_loading import load_target, target_from_text
from mcm_compiler.contracts.cost import NODE_COST
from mcm_compiler.contracts.partition import PARTITION
from mcm_compiler.contracts.program import SIMULATION
from mcm_compiler.contracts.replication import REPLICATION
from mcm_compiler.contracts.target import Target
from mcm_compiler.diagnostics import CompileError
from mcm_compiler.text.toml_description import parse_description, to_toml

ROOT = Path(__file__).resolve().parents[3]
DATA = ROOT / "tools" / "reproduce" / "data" / "published_figures.json"
PAGE = ROOT / "docs" / "results" / "published-figures.md"
VERSIONS = ("mcm-compiler", "numba", "numpy", "onnx")
COSTS = "simplify,fuse,annotate_cost"
UNDIVIDED = "parallelize{search=false}"
"""The published systems map whole layers."""
PASSES = f"{COSTS},shard_oversized,{UNDIVIDED},partition,legalize,split,lower,simulate"
MODEL, TARGET = "zoo:resnet50", "simba36"
MACS_PER_CHIP = 1024
"""Multiply-accumulates of a chip of `simba36` in a cycle, as of the prototype."""

PEAK_OPS = 127.8e12
"""Operations a second of the whole prototype, by its authors (2020); each MAC counts as two."""

SIZES = ((1, 1), (1, 2), (2, 2), (2, 4), (4, 4), (4, 8), (6, 6))
"""Rows and columns of the packages."""

SHIPPED_MIB, LEAST_MIB, WHOLE_MIB = 2, 4, 32
"""SRAM of a chip: of the target that comes with the compiler, the least power of two at which 36
chips hold one pipeline, and what holds the weights of the whole model."""

SLOW_MHZ = 500
"""Clock of the target that comes with the compiler."""

PER_PIPELINE, COPIES, PUBLISHED_CLOCK = "one pipeline", "copies", "one pipeline, published clock"


@dataclass(frozen=True)
class Figure:
    """A figure that others published.

    Attributes:
        text: of what it is.
        value: in the unit of `text`.
        source: a key of `SOURCES`.
        status: how it was found.
        ours: the row it is compared with, by name, SRAM and chips.
        key: of our figure, as `figures_of` has it.
        differs: what is not the same.
    """

    text: str
    value: float
    source: str
    status: str
    ours: tuple[str, int, int]
    key: str
    differs: str


SOURCES = {
    "VLSI 2019": "Zimmer et al., A 0.11 pJ/Op, 0.32-128 TOPS, Scalable Multi-Chip-Module-based "
    "Deep Neural Network Accelerator with Ground-Reference Signaling in 16nm, VLSI Circuits 2019",
    "MICRO 2019": "Shao et al., Simba: Scaling Deep-Learning Inference with "
    "Multi-Chip-Module-Based Architecture, MICRO 2019",
    "JSSC 2020": "Zimmer et al., A 0.32-128 TOPS, Scalable Multi-Chip-Module-Based Deep Neural "
    "Network Inference Accelerator With Ground-Referenced Signaling in 16 nm, JSSC 2020",
    "SET": "the public program of Cai et al., Inter-layer Scheduling Space Definition and "
    "Exploration for Tiled Accelerators, ISCA 2023, on which Gemini (HPCA 2024) builds",
}
_FAST = (PUBLISHED_CLOCK, LEAST_MIB, 36)
_ONE_AT_A_TIME = (
    "Simba divides each layer among chips and finishes an image before the next. Our chips hold "
    "layers and work on several images at a time."
)
FIGURES = (
    Figure("images/s, batch 1", 1988, "MICRO 2019", "measured", _FAST, "rate", _ONE_AT_A_TIME),
    Figure("images/s, batch 1", 1903, "JSSC 2020", "measured", _FAST, "rate", "As above."),
    Figure(
        "images/s, batch not in the abstract",
        2615,
        "VLSI 2019",
        "measured",
        _FAST,
        "rate",
        "As above.",
    ),
    Figure(
        "share of the peak of 127.8 TOP/s, %",
        100 * 1988 * 2 * 4.089e9 / PEAK_OPS,
        "MICRO 2019",
        "derived",
        _FAST,
        "share",
        "Weights stay on our chips, the prototype reads them for each layer. Our arrays lose no "
        "cycle but at launches and where memory is slower.",
    ),
    Figure(
        "latency of an image, ms",
        0.50,
        "MICRO 2019",
        "measured",
        _FAST,
        "latency",
        "One image of ours visits the chips one after the other, so that one chip at a time works "
        "on it.",
    ),
    Figure(
        "36 chips over one: peak",
        127.8 / 4.01,
        "JSSC 2020",
        "derived",
        (COPIES, WHOLE_MIB, 36),
        "speedup",
        "The prototype lowers its clock with 36 chips; ours keeps it. Each of our chips has a copy "
        "of the model.",
    ),
    Figure(
        "36 chips over one: peak",
        127.8 / 4.01,
        "JSSC 2020",
        "derived",
        (PER_PIPELINE, WHOLE_MIB, 36),
        "speedup",
        "One copy of the model on all chips, as in the prototype: layers do not divide evenly.",
    ),
    Figure(
        "cycles over the least, 6 x 6 chips of 1,024 MACs",
        2.38,
        "SET",
        "computed by its program",
        (PER_PIPELINE, LEAST_MIB, 36),
        "cycles",
        "SET has 1 MiB a chip and reads weights from memory outside, for batches of 64 images; it "
        "copies layers where that helps. Our weights stay on the chips.",
    ),
)


@dataclass(frozen=True)
class Package:
    """A variant of the target.

    Attributes:
        name: how the model is to be on it.
        size: rows and columns of the mesh.
        sram_mib: of each chip.
        clock_mhz: of each chip.
        replicas: pipelines side by side; None for as many as are fastest.
    """

    name: str
    size: tuple[int, int]
    sram_mib: int
    clock_mhz: int = SLOW_MHZ
    replicas: int | None = 1


def packages() -> list[Package]:
    """All that are compiled for."""
    whole = (6, 6)
    fast_mhz = round(PEAK_OPS / (36 * MACS_PER_CHIP * 2) / 1e6)
    return [
        Package(PER_PIPELINE, whole, SHIPPED_MIB),
        Package(PUBLISHED_CLOCK, whole, LEAST_MIB, fast_mhz),
        *(Package(PER_PIPELINE, size, LEAST_MIB) for size in SIZES),
        *(Package(PER_PIPELINE, size, WHOLE_MIB) for size in SIZES),
        *(Package(COPIES, size, WHOLE_MIB, replicas=None) for size in SIZES),
    ]


def measured() -> dict[str, Any]:
    """A row for each package, with what made it."""
    rows: list[dict[str, Any]] = []
    for package in packages():
        rows.append(point(MODEL, package))
        print(rows[-1], flush=True)
    return {
        "command": "python tools/reproduce/packages/published_figures.py",
        "model": MODEL,
        "target": TARGET,
        "level": 2,
        "seed": 0,
        "macs": macs_of(MODEL),
        "versions": {name: metadata.version(name) for name in VERSIONS},
        "rows": rows,
    }


def macs_of(model: str) -> float:
    """Multiply-accumulates of one inference: half of the operations of convolutions and products.

    Additions of residuals and activations, which run on other engines, do not count.
    """
    found, _, _ = run_passes(model, TARGET, CompileOptions(level=2, passes=COSTS))
    products = [node for node in found.graph if node.op_type in ("Conv", "Gemm")]
    return sum(NODE_COST.get(node).flops for node in products) / 2


def point(model: str, package: Package) -> dict[str, Any]:
    """Throughput and latency of a model on a package, simulated; or why it is refused."""
    row = {
        "name": package.name,
        "sram_mib": package.sram_mib,
        "chips": package.size[0] * package.size[1],
        "clock_mhz": package.clock_mhz,
    }
    options = CompileOptions(level=2, passes=PASSES, replicas=package.replicas, round=1)
    try:
        found, _, _ = run_passes(model, target_of(package), options)
    except CompileError as error:
        code = error.diagnostics[0].code
        if not code.startswith("MCM-P"):
            raise
        return {**row, "refused": code}
    partition, simulation = PARTITION.get(found), SIMULATION.get(found)
    side = REPLICATION.get(found)
    return {
        **row,
        "replicas": side.replicas,
        "bound_s": partition.bound.seconds / side.at_once,
        "period_s": simulation.period_s / side.at_once,
        "latency_s": simulation.latency_s,
    }


def target_of(package: Package) -> Target:
    """The target with the mesh, memory and clock of a package."""
    data = dict(parse_description(TARGET, load_target(TARGET).source_text).data)
    chip = dict(data["chip"])
    clock = {"clock_mhz": package.clock_mhz}
    chip["mac_array"], chip["vector_unit"] = (
        {**chip[engine], **clock} for engine in ("mac_array", "vector_unit")
    )
    data["chip"] = {**chip, "sram_mib": package.sram_mib}
    data["topology"] = {**data["topology"], "size": list(package.size)}
    return target_from_text(TARGET, to_toml(data))


def figures_of(data: Mapping[str, Any], row: Mapping[str, Any]) -> dict[str, float]:
    """Our figures of a row, by the keys of `Figure.key`."""
    alone = _row(data, (row["name"], row["sram_mib"], 1))
    least_s = data["macs"] / (row["chips"] * MACS_PER_CHIP * row["clock_mhz"] * 1e6)
    known = {
        "rate": 1.0 / row["period_s"],
        "share": 100.0 * least_s / row["period_s"],
        "latency": 1e3 * row["latency_s"],
        "cycles": row["period_s"] / least_s,
    }
    if alone is not None and "period_s" in alone:
        known["speedup"] = alone["period_s"] / row["period_s"]
    return known


def _row(data: Mapping[str, Any], which: tuple[str, int, int]) -> dict[str, Any] | None:
    rows = data["rows"]
    return next((r for r in rows if (r["name"], r["sram_mib"], r["chips"]) == which), None)


def page(data: Mapping[str, Any]) -> str:
    """The document of the data."""
    versions = ", ".join(f"{name} {version}" for name, version in data["versions"].items())
    compared = "\n".join(_compared(data, figure) for figure in FIGURES)
    differing = "\n".join(_listed(f"{n}.", f.differs) for n, f in enumerate(FIGURES, start=1))
    scaling = "\n".join(_scaled(data, rows) for rows in _by_chips(data))
    sources = "\n".join(_listed("-", f"**{key}**: {text}.") for key, text in SOURCES.items())
    refused = data["rows"][0]["refused"]
    return f"""\
# Published figures

How near the simulator is to published figures of multi-chip accelerators, for ResNet-50 on packages
after Simba. Nothing here was measured on a chip of ours: *ours* is simulated. This page is
generated by

    {data["command"]}

with {versions}, at `-O{data["level"]}`, seed {data["seed"]},
cost model `cycles`.

| | figure | published | status | source | ours | ours / published |
|---:|---|---:|---|---|---:|---:|
{compared}

What differs, row by row:

{differing}

Rows 1 to 5 and 8 have {LEAST_MIB} MiB of SRAM a chip and one pipeline, rows 6 and 7
{WHOLE_MIB} MiB. Rows 1 to 5 have the clock at which 36 chips reach the published peak, the others
{SLOW_MHZ} MHz. *Derived* figures are quotients of published ones; ResNet-50 has
{data["macs"] / 1e9:.2f} G multiply-accumulates. The figures of Simba are those of its abstracts.

## Scaling

Images/s at {SLOW_MHZ} MHz, and the speed-up over one chip.

| chips | one pipeline, {LEAST_MIB} MiB | one pipeline, {WHOLE_MIB} MiB | copies, {WHOLE_MIB} MiB |
|---:|---:|---:|---:|
{scaling}

- On `{TARGET}` as it comes, with {SHIPPED_MIB} MiB a chip, no placement of ResNet-50 is found
  ({refused}). A chip of ours stores whole tensors, those that it receives twice. Simba stores
  tiles.
- In one pipeline the heaviest layers set the pace of many chips. A copy on each chip scales with
  their number.

## What is not reproduced

- Simba's speed-up of single layers by number of chips: it is published as a figure without numbers.
- The factor 1.98 of Gemini over Simba's architecture: it compares two programs on a template of
  their own, averaged over networks and batches, without absolute times.
- Stream's validation: its chips compute in analog arrays or fuse lines of layers, which no target
  here describes. Its program answers none of [our models](peers.md).

## Sources

{sources}
"""


def _by_chips(data: Mapping[str, Any]) -> list[list[dict[str, Any]]]:
    columns = ((PER_PIPELINE, LEAST_MIB), (PER_PIPELINE, WHOLE_MIB), (COPIES, WHOLE_MIB))
    counts = [rows * columns_of_mesh for rows, columns_of_mesh in SIZES]
    found = [[_row(data, (*column, chips)) for column in columns] for chips in counts]
    return [[row for row in rows if row is not None] for rows in found]


def _scaled(data: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> str:
    return f"| {rows[0]['chips']} | {' | '.join(_speed(data, row) for row in rows)} |"


def _speed(data: Mapping[str, Any], row: Mapping[str, Any]) -> str:
    if "refused" in row:
        return f"refused ({row['refused']})"
    known = figures_of(data, row)
    times = f" ({known['speedup']:.3g}x)" if "speedup" in known else ""
    return f"{known['rate']:,.0f}{times}"


def _listed(mark: str, text: str) -> str:
    indent = " " * (len(mark) + 1)
    return textwrap.fill(f"{mark} {text}", 100, subsequent_indent=indent, break_on_hyphens=False)


def _compared(data: Mapping[str, Any], figure: Figure) -> str:
    row = _row(data, figure.ours)
    assert row is not None, figure
    ours = figures_of(data, row)[figure.key]
    cells = [
        str(FIGURES.index(figure) + 1),
        figure.text,
        _three_digits(figure.value),
        figure.status,
        figure.source,
        _three_digits(ours),
        f"{ours / figure.value:.3g}",
    ]
    return f"| {' | '.join(cells)} |"


def _three_digits(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def main(arguments: Sequence[str]) -> int:
    """Compiles unless `--page-only` is given, and writes data and page."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--page-only", action="store_true", help="take the data on record")
    if not parser.parse_args(arguments).page_only:
        DATA.write_text(json.dumps(measured(), indent=1) + "\n", encoding="utf-8")
    data = json.loads(DATA.read_text(encoding="utf-8"))
    PAGE.write_text(page(data), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
