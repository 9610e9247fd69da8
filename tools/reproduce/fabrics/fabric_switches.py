"""Compare the switches of the flit simulator with booksim2, an independent network simulator.

Single flits on a mesh of 8 x 8, X before Y, one virtual channel: latency without load, and what a
node takes in per cycle when nodes make 0.5. Booksim2 is built outside the project; with
`--booksim PATH` it is run and its answers are recorded, without it the recorded ones are used. Two
facts of its router have to be allowed for: a flit passes a channel of a cycle before the first
router and behind the last, and a place behind a link is free again one cycle later than ours, so
that its buffers have one place more.

The record is `tools/reproduce/data/fabric_switches.json`; `--page` only writes its section of
`docs/results/fabrics.md`.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from lcm_study.open_loop import open_loop

# What writes records and pages is shared by all studies; generators are those of the tests.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parents[3]))
from hier_study.page import ROOT, read_rows, table, write_record, write_section

from mcm_compiler.contracts.fabrics.fabric import Fabric
from mcm_hardware.families.fabric.fabric_package import fabric_12
from tests.generators.small_fabric import small_fabric

NAME = "fabric_switches"
COMMAND = "python tools/reproduce/fabrics/fabric_switches.py --booksim booksim"
REVISION = "28f43299f1706a3160ffac721ca461d74eb6e618"
"""Of booksim2."""

PAGE = ROOT / "docs" / "results" / "fabrics.md"
CASES = (
    ("uniform", 4, 0.01),
    *((pattern, fifo, 0.5) for pattern in ("uniform", "transpose") for fifo in (4, 6, 8, 12)),
)
"""Traffic, places behind a link, flits that a node makes per cycle."""

SIDE = 8
CYCLES = 12_000
SEED = 1

CONFIG = """
topology = mesh; k = 8; n = 2; routing_function = dor; num_vcs = 1;
vc_allocator = islip; sw_allocator = islip; alloc_iters = 1; speculative = 1;
credit_delay = 0; routing_delay = 0; vc_alloc_delay = 1; sw_alloc_delay = 1; st_final_delay = 1;
packet_size = 1; use_read_write = 0; sim_type = latency;
"""
"""A router of two cycles and a channel of one: three cycles for each hop."""


def mesh() -> Fabric:
    """A mesh of 8 x 8 with the switches of the built-in fabrics."""
    base = fabric_12().fabric
    return replace(small_fabric(SIDE, SIDE), hop_cycles=base.hop_cycles)


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the script."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--booksim", type=Path, help="the built program")
    parser.add_argument("--page", action="store_true", help="write the section of the page")
    options = parser.parse_args(arguments)
    if options.page:
        write_section("switches", _section(read_rows(NAME)), PAGE)
        return 0
    recorded = {} if options.booksim else {_key(row): row for row in read_rows(NAME)}
    rows: list[dict[str, Any]] = []
    for pattern, fifo, rate in CASES:
        row: dict[str, Any] = {"traffic": pattern, "fifo_flits": fifo, "rate": rate}
        seen = open_loop(replace(mesh(), fifo_flits=fifo), rate, pattern, CYCLES, SEED)
        row |= {"latency": round(seen.latency, 3), "accepted": round(seen.accepted, 4)}
        if options.booksim:
            row |= _booksim(options.booksim, pattern, fifo + 1, rate)
        else:
            old = recorded[_key(row)]
            row |= {key: old[key] for key in ("booksim_latency", "booksim_accepted")}
        print(row)
        rows.append(row)
    write_record(NAME, COMMAND, rows, ("traffic", "fifo_flits", "rate"))
    return 0


def _key(row: dict[str, Any]) -> tuple[Any, ...]:
    return row["traffic"], row["fifo_flits"], row["rate"]


def _booksim(program: Path, pattern: str, places: int, rate: float) -> dict[str, Any]:
    """Its latency and rate of acceptance, in the last period that it reports."""
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder) / "config"
        config.write_text(CONFIG, encoding="utf-8")
        printed = subprocess.run(
            [
                str(program),
                str(config),
                f"vc_buf_size={places}",
                f"traffic={pattern}",
                f"injection_rate={rate}",
                "sample_period=4000",
                f"seed={SEED}",
            ],
            capture_output=True,
            text=True,
            check=False,
        ).stdout
    latency = re.findall(r"Packet latency average = ([\d.]+)", printed)[-1]
    accepted = re.findall(r"Accepted flit rate average ?= ([\d.]+)", printed)[-1]
    return {"booksim_latency": float(latency), "booksim_accepted": float(accepted)}


def _section(rows: Sequence[dict[str, Any]]) -> str:
    """The tables of both figures."""
    quiet = [row for row in rows if row["rate"] < 0.1]
    busy = [row for row in rows if row["rate"] >= 0.1]
    (light,) = quiet
    lines = [
        [
            f"{row['traffic']}, {row['fifo_flits']} flits",
            f"{row['accepted']:.3f}",
            f"{row['booksim_accepted']:.3f}",
            f"{100 * (row['accepted'] / row['booksim_accepted'] - 1):+.1f} %",
        ]
        for row in busy
    ]
    return (
        f"Without load a flit takes {light['latency']:.2f} cycles, and "
        f"{light['booksim_latency']:.2f} in booksim2, which adds a channel at either end. "
        "Accepted flits per node and cycle at saturation:\n\n"
        + table(("traffic, buffer per link", "flit simulator", "booksim2", "difference"), lines)
    )


if __name__ == "__main__":
    sys.exit(main())
