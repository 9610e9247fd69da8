"""Trade throughput for latency: the front of ResNet-50, each point with its bound.

Compiles the model at -O2 with all passes up to the simulator: for the least latency, for the most
throughput within each of some limits on the latency, without a limit, and on the fewest chips for a
throughput. Writes `tools/reproduce/data/latency_front.json`, `docs/results/latency-front.md` and
its picture. Nothing is random but the weights, which count for nothing here, and the seed of the
compile, 0.

    python tools/reproduce/latency_front.py
    python tools/reproduce/latency_front.py --page-only
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

from mcm_compiler import CompileOptions
from mcm_compiler.api import run_passes
from mcm_compiler.contracts.partition import PARTITION
from mcm_compiler.contracts.program import SIMULATION
from mcm_compiler.contracts.replication import REPLICATION
from mcm_compiler.text.units import count_text, percent_text, seconds_text

# Pictures are drawn as those of the README.
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from tools.readme_pictures import SMALL, WIDTH, adaptive_picture, svg_text

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT / "tools" / "reproduce" / "data" / "latency_front.json"
PAGE = ROOT / "docs" / "results" / "latency-front.md"
PLOT = ROOT / "docs" / "results" / "images" / "latency_front.svg"
VERSIONS = ("mcm-compiler", "numba", "numpy", "onnx")
PASSES = "simplify,fuse,annotate_cost,parallelize,partition,legalize,split,lower,simulate"
MODEL, TARGET, RATE_PER_S = "zoo:resnet50", "mcm36", 10_000.0
HEADS = (
    "options", "replicas", "chips", "latency, simulated", "inferences/s, simulated",
    "value of the objective", "over its bound",
)  # fmt: skip
LIMITS_MS = (2.29, 2.31, 2.35, 2.40, 2.45, 2.50)


def main(arguments: Sequence[str]) -> int:
    """Compiles unless told not to, and writes data, page and plot."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--page-only", action="store_true", help="take the data on record")
    if not parser.parse_args(arguments).page_only:
        DATA.write_text(json.dumps(measured(), indent=1) + "\n", encoding="utf-8")
    data = json.loads(DATA.read_text(encoding="utf-8"))
    PAGE.write_text(page(data), encoding="utf-8")
    PLOT.write_text(picture(data), encoding="utf-8")
    return 0


def asked() -> dict[str, dict[str, Any]]:
    """Options of each compile by their spelling on the command line."""
    limits = {f"--max-latency {limit:.2f}ms": {"max_latency_s": limit / 1e3} for limit in LIMITS_MS}
    chips = {"objective": "chips", "throughput": RATE_PER_S}
    return {
        "--objective latency": {"objective": "latency"},
        **limits,
        "": {},
        f"--objective chips --throughput {RATE_PER_S:.0f}": chips,
    }


def measured() -> dict[str, Any]:
    """A row for each compile, with what made it."""
    rows: list[dict[str, Any]] = []
    for option, chosen in asked().items():
        rows.append({"option": option, **point(MODEL, TARGET, chosen)})
        print(rows[-1], flush=True)
    return {
        "command": "python tools/reproduce/latency_front.py",
        "model": MODEL,
        "target": TARGET,
        "level": 2,
        "seed": 0,
        "versions": {name: metadata.version(name) for name in VERSIONS},
        "rows": rows,
    }


def point(model: str, target: str, chosen: Mapping[str, Any]) -> dict[str, Any]:
    """Figures of a compile with some options; seconds are those of the whole package."""
    options = CompileOptions(level=2, passes=PASSES, cost_model="roofline", **chosen)
    found, _, _ = run_passes(model, target, options)
    partition, simulation = PARTITION.get(found), SIMULATION.get(found)
    pipelines, figures = REPLICATION.get(found).replicas, partition.figures
    bounds: dict[str, Any] = {}
    if figures is not None:
        weakest = figures.weakest
        bounds = {
            "value": figures.value,
            "bound": figures.bound,
            "proof": weakest.proof if weakest is not None else "",
            "latency_s": figures.latency_s,
        }
    return {
        "pipelines": pipelines,
        "chips": pipelines * partition.num_chips_used,
        "period_s": partition.period_s / pipelines,
        **bounds,
        "simulated_period_s": simulation.period_s / pipelines,
        "simulated_latency_s": simulation.latency_s,
    }


def page(data: Mapping[str, Any]) -> str:
    """The document of the data."""
    rows = data["rows"]
    first, limited = rows[0], [row for row in rows if row["option"].startswith("--max")]
    plain = next(row for row in rows if not row["option"])
    fewest = rows[-1]
    versions = ", ".join(f"{name} {version}" for name, version in data["versions"].items())
    table = "\n".join(_line(row) for row in rows)
    each = first["chips"] // first["pipelines"]
    lost = plain["period_s"] / first["period_s"]
    extra = plain["simulated_latency_s"] / first["simulated_latency_s"] - 1.0
    gained = first["period_s"] / limited[0]["period_s"]
    return f"""\
# Throughput against latency

How much throughput does a limit on the latency cost? Little, for ResNet-50 on `{data["target"]}`:
the most throughput takes {percent_text(extra)} more latency than the least latency (simulated), and
`{limited[0]["option"]}` already gives {gained:.2f} times the throughput of the least latency.

Each row is a compile of `{data["model"]}` at `-O2` with the
[objective](../explanation/objectives.md) of its first column. Bounds are proven under
`--cost-model roofline`.

| {" | ".join(HEADS)} |
|---|{"---:|" * (len(HEADS) - 1)}
{table}

Latency is that of one inference in an empty package. The row without options has the least period.

![Throughput of ResNet-50 against its latency](images/latency_front.svg)

- The least latency takes {count_text(each, "chip")} for each replica, because branches of the
  network run on chips of their own. The package then has {percent_text(lost)} of its throughput
  without a limit.
- The model fits one chip. A replica of several chips saves only work off the longest path.
- {RATE_PER_S:,.0f} inferences/s take {count_text(fewest["chips"], "chip")};
  {fewest["bound"] - 1:.0f} cannot reach them (proven).

Written by `{data["command"]}` with {versions}, seed {data["seed"]}.
"""


def _line(row: Mapping[str, Any]) -> str:
    cells = [
        f"`{row['option']}`" if row["option"] else "none",
        str(row["pipelines"]),
        str(row["chips"]),
        _milliseconds(row["simulated_latency_s"]),
        f"{1.0 / row['simulated_period_s']:,.0f}",
        *_bound(row),
    ]
    return f"| {' | '.join(cells)} |"


def _bound(row: Mapping[str, Any]) -> tuple[str, str]:
    """Value of the objective, and its gap."""
    if "value" not in row:
        return seconds_text(row["period_s"]), "-"
    gap = percent_text(row["value"] / row["bound"] - 1.0)
    if "chips" in row["option"]:
        return f"{row['value']:.0f} chips", gap
    return (_milliseconds if "objective" in row["option"] else seconds_text)(row["value"]), gap


def _milliseconds(seconds: float) -> str:
    """With a digit more than elsewhere: limits are close together here."""
    return f"{seconds * 1e3:.3f} ms"


def picture(data: Mapping[str, Any]) -> str:
    """The front: simulated latency against throughput, each point with its replicas."""
    rows = [row for row in data["rows"] if row.get("latency_s") and "chips" not in row["option"]]
    points = [(row["simulated_latency_s"] * 1e3, 1.0 / row["simulated_period_s"]) for row in rows]
    (first, least), (last, most) = points[0], points[-1]
    left, right, top, bottom = 70, 110, 66, 330

    def at(latency_ms: float, rate_per_s: float) -> tuple[float, float]:
        share = (latency_ms - first) / (last - first)
        return left + (WIDTH - left - right) * share, bottom - (bottom - top) * rate_per_s / most

    line = " ".join(f"{x:.1f},{y:.1f}" for x, y in (at(*point) for point in points))
    marks = [
        f'<path d="M{left} {top}V{bottom}H{WIDTH - right}" stroke="var(--line)" fill="none"/>',
        f'<polyline points="{line}" stroke="var(--accent)" fill="none"/>',
    ]
    for row, point in zip(rows, points, strict=True):
        x, y = at(*point)
        text = count_text(row["pipelines"], "replica")
        marks += [
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="5" fill="var(--accent)"/>',
            svg_text(x + 8, y + 16, text, SMALL, "var(--ink)"),
        ]
    for latency_ms in (first, (first + last) / 2, last):
        x = at(latency_ms, 0)[0]
        label = f"{latency_ms:.2f} ms"
        marks.append(svg_text(x, bottom + 18, label, SMALL, "var(--soft)", anchor="middle"))
    for rate in (0.0, least, most):
        y = at(first, rate)[1] + 4
        marks.append(svg_text(left - 8, y, f"{rate:,.0f}/s", SMALL, "var(--soft)", anchor="end"))
    more, times = percent_text(last / first - 1), most / least
    return adaptive_picture(
        f"{more} more latency gives {times:.2f} times the throughput",
        "ResNet-50 on mcm36, simulated: the most throughput within each limit on the latency.",
        bottom + 28,
        marks,
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
