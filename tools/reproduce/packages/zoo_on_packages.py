"""Every model of the zoo on every package: how much of a package it uses.

    python tools/reproduce/packages/zoo_on_packages.py                      this tree
    python tools/reproduce/packages/zoo_on_packages.py --base OTHER_TREE    the tree to compare with
    python tools/reproduce/packages/zoo_on_packages.py --models vgg19 --packages mcm36 --replicas 1
    python tools/reproduce/packages/zoo_on_packages.py --show               compiles nothing

The ratio is the simulated period times the chips of the package over the work of the undivided
model: 1 is a package that is always busy, and pieces may do less work than the whole. Each compile
runs in a process of its own with a time limit; `--base` runs them with the interpreter of that
tree. What `tools/reproduce/data/zoo_on_packages.json` has is not compiled again without `--again`.
Writes it, `docs/results/utilisation.md`, the page's table and its charts. The exit status is 1
where a model is slower than in the other tree.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[3]
DATA = ROOT / "tools" / "reproduce" / "data" / "zoo_on_packages.json"
COSTS = "simplify,fuse,annotate_cost"
PASSES = f"{COSTS},parallelize,partition,legalize,split,lower,simulate"
MARGIN = 5e-4
"""A longer period than this counts as slower."""

DIVIDED = ("MCM-P011", "MCM-P057")
"""Notes that say which ops were divided."""

SHOWN = (
    "vgg19", "gpt2", "bert-large", "bert-base", "resnet50", "inception-v3", "unet-cnn",
    "mobilenet-v2", "t5-small", "gnmt", "nmt", "lstm-lm", "dense-cnn", "ensemble-cnn",
    "branched-cnn",
)  # fmt: skip
"""Models of the page; they are compiled first."""

RINGS = ("mcm36", "mcm16", "mcm36-small")
"""Packages of the page; they are compiled first."""


def main(arguments: Sequence[str]) -> int:
    """Compiles what is missing, writes data and page, prints the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--base", type=Path, metavar="TREE", help="compile with this tree instead")
    parser.add_argument("--models", nargs="+", metavar="NAME", help="only these")
    parser.add_argument("--packages", nargs="+", metavar="NAME", help="only these")
    parser.add_argument("--level", default="2", help="of -O [default: 2]")
    parser.add_argument("--replicas", type=int, help="as in mcmc compile")
    parser.add_argument("--objective", default="period", help="as in mcmc compile")
    parser.add_argument("--limit-s", type=float, default=300.0, help="of a compile [default: 300]")
    parser.add_argument("--again", action="store_true", help="also what is on record")
    parser.add_argument("--show", action="store_true", help="only the table of the record")
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    asked = parser.parse_args(arguments)
    if asked.one:
        one = _compiled(
            asked.models[0], asked.packages[0], asked.level, asked.replicas, asked.objective
        )
        print(json.dumps(one))
        return 0
    data = json.loads(DATA.read_text("utf-8")) if DATA.exists() else {}
    if not asked.show:
        _fill(data, asked)
    sys.path.insert(0, str(ROOT))
    from tools.reproduce.packages.utilisation_page import files

    for path, text in files(data, SHOWN, RINGS).items():
        path.write_text(text, encoding="utf-8")
    print("\n".join(table(data)))
    return int(any(slower(row) for row in data.values()))


def _fill(data: dict[str, dict[str, Any]], asked: argparse.Namespace) -> None:
    side = "base" if asked.base is not None else "new"
    tree = asked.base.resolve() if asked.base is not None else ROOT
    for model, package in _pairs(asked.models, asked.packages):
        options = ["--level", asked.level, "--objective", asked.objective]
        key = f"{model} {package} -O{asked.level}"
        if asked.replicas is not None:
            options += ["--replicas", str(asked.replicas)]
            key += f" --replicas {asked.replicas}"
        if asked.objective != "period":
            key += f" --objective {asked.objective}"
        if side in data.get(key, {}) and not asked.again:
            continue
        command = ["--one", "--models", model, "--packages", package, *options]
        row = _child(tree / ".venv" / "bin" / "python", command, asked.limit_s)
        data.setdefault(key, {})[side] = row
        print(key, side, json.dumps(row), file=sys.stderr, flush=True)
        lines = ",\n".join(f"{json.dumps(k)}: {json.dumps(data[k])}" for k in sorted(data))
        DATA.write_text(f"{{\n{lines}\n}}\n", encoding="utf-8")


def _child(python: Path, command: Sequence[str], limit_s: float) -> dict[str, Any]:
    """A row, compiled in a process of its own."""
    environment = {**os.environ, "PYTHONHASHSEED": "0"}
    try:
        done = subprocess.run(
            [python, Path(__file__).resolve(), *command],
            capture_output=True, text=True, timeout=limit_s, env=environment, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return {"failed": f"more than {limit_s:.0f} s"}
    if done.returncode != 0:
        lines = done.stderr.strip().splitlines() or [f"exit status {done.returncode}"]
        return {"failed": lines[-1][:200]}
    return json.loads(done.stdout.splitlines()[-1])


def _pairs(
    models: Sequence[str] | None, packages: Sequence[str] | None
) -> Iterator[tuple[str, str]]:
    """Pairs to compile, those of the page first."""
    from mcm_compiler.registry import ZOO

    every = [*SHOWN, *(name for name in sorted(ZOO.names_at_hand("")) if name not in SHOWN)]
    shipped = sorted(
        path.stem
        for family in ("ring", "package")
        for path in (ROOT / "hardware/mcm_hardware/families" / family / "targets").glob("*.toml")
    )
    where = [*RINGS, *(name for name in shipped if name not in RINGS)]
    chosen = {(model, package) for model in models or every for package in packages or where}
    yield from sorted(
        chosen,
        key=lambda pair: (
            pair[0] not in SHOWN or pair[1] not in RINGS,
            pair[0] not in SHOWN,
            where.index(pair[1]) if pair[1] in where else len(where),
            every.index(pair[0]) if pair[0] in every else len(every),
        ),
    )


def _compiled(
    model: str, package: str, level: str, replicas: int | None, objective: str
) -> dict[str, Any]:
    """Simulated figures of one compile, by the tree whose interpreter this is."""
    from mcm_compiler import CompileOptions
    from mcm_compiler.api import run_passes
    from mcm_compiler.components.target_loading import load_target
    from mcm_compiler.contracts.fusion import FUSION_PLAN
    from mcm_compiler.contracts.partition import PARTITION
    from mcm_compiler.contracts.program import SIMULATION
    from mcm_compiler.contracts.replication import REPLICATION
    from mcm_compiler.diagnostics import CompileError
    from mcm_passes.mapping.problem.partition_problem import build_problem

    name = f"zoo:{model}{{shape_only=true}}" if "{" not in model else f"zoo:{model}"
    chosen: dict[str, Any] = {"level": int(level) if level.isdigit() else level}
    chosen |= {"replicas": replicas, "objective": objective}
    try:
        whole, _, _ = run_passes(name, package, CompileOptions(passes=COSTS, **chosen))
        target = load_target(package)
        problem = build_problem(whole, target, "relay", FUSION_PLAN.get(whole))
        work_s = float(problem.compute_s.sum())
        start = _cpu_s()
        found, diagnostics, _ = run_passes(name, package, CompileOptions(passes=PASSES, **chosen))
    except CompileError as error:
        return {"refused": error.diagnostics[0].code}
    replication, simulation = REPLICATION.get(found), SIMULATION.get(found)
    round_of = getattr(replication, "round", 1)
    copies = replication.replicas * round_of
    return {
        "period_s": simulation.period_s / copies,
        "latency_s": simulation.latency_s,
        "bound_s": PARTITION.get(found).bound.seconds / copies,
        "ratio": simulation.period_s / copies * target.limits.num_chips / work_s,
        "work_s": work_s,
        "cpu_s": round(_cpu_s() - start, 2),
        "replicas": replication.replicas,
        "round": round_of,
        "chips": replication.replicas * PARTITION.get(found).num_chips_used,
        "ops": [len(list(whole.graph)), len(list(found.graph))],
        "divided": [d.message for d in diagnostics if d.code in DIVIDED],
    }


def _cpu_s() -> float:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def slower(row: Mapping[str, Any]) -> bool:
    """Return whether a model is slower than in the other tree, or no longer compiles."""
    base, new = row.get("base", {}), row.get("new", {})
    if "period_s" not in base or not new:
        return False
    return "period_s" not in new or new["period_s"] > base["period_s"] * (1.0 + MARGIN)


def table(data: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """A line for each compile on record, those that are slower marked."""
    heads = ("compile", "base", "ratio", "CPU s", "new", "ratio", "CPU s", "replicas x round", "")
    lines = ["{:58}{:>12}{:>8}{:>8}{:>12}{:>8}{:>8}{:>18} {}".format(*heads)]
    for key, row in data.items():
        base, new = row.get("base", {}), row.get("new", {})
        copies = f"{new['replicas']} x {new['round']}" if "period_s" in new else ""
        cells = (key, *_cells(base), *_cells(new), copies, "SLOWER" if slower(row) else "")
        lines.append("{:58}{:>12}{:>8}{:>8}{:>12}{:>8}{:>8}{:>18} {}".format(*cells).rstrip())
    late = [key for key, row in data.items() if slower(row)]
    return [*lines, f"slower than base: {', '.join(late) or 'none'}"]


def _cells(row: Mapping[str, Any]) -> tuple[str, str, str]:
    if "period_s" not in row:
        return row.get("refused") or ("failed" if "failed" in row else "-"), "", ""
    return f"{row['period_s'] * 1e6:,.1f} us", f"{row['ratio']:.3f}", f"{row['cpu_s']:.1f}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
