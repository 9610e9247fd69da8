"""How many statements compute loads or rules of the ring outside the one place that defines them.

    python tools/count_definitions.py
    python tools/count_definitions.py --revision REVISION

What a tensor, a weight or a clone loads is defined in `mcm_passes/mapping/loads` and, for clones,
in `mcm_compiler/arrays/clone_closure.py`. The definitions listed below are all others that find out
such a thing for themselves, then or now, in the files that knew it before there was such a place;
what is listed and gone counts as nothing. Statements are counted, so that comments, docstrings and
the breaking of lines change nothing. Independent checkers are not listed: they stay apart on
purpose.

With `--revision` the same definitions are counted as they stood there.
"""

from __future__ import annotations

import argparse
import ast
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

PASSES, BATCH = "passes/mcm_passes", "hardware/mcm_hardware/families/ring/batch"

LOADS: dict[str, tuple[str, ...]] = {
    f"{PASSES}/families/ring/analytic/fast_kernels.py": ("",),
    f"{PASSES}/mapping/loads/problem_arrays.py": ("",),
    f"{PASSES}/families/ring/contiguous/contiguous_windows.py": ("",),
    f"{PASSES}/families/ring/contiguous/strict_windows.py": (
        "_Window",
        "StrictWindows.__init__",
        "StrictWindows._grown",
        "StrictWindows._live",
    ),
    f"{PASSES}/mapping/solving/legalization.py": (
        "_Legalizer.__init__",
        "_Legalizer._plan_relays",
        "_Legalizer._last_chip",
        "_Legalizer._relay",
    ),
    f"{PASSES}/families/ring/order_encoding/chip_demands.py": ("",),
    f"{PASSES}/families/ring/exact/ideal_windows.py": ("",),
    f"{PASSES}/families/ring/exact/ideal_cuts.py": ("",),
    f"{PASSES}/families/ring/order_encoding/trigger_literals.py": ("",),
    f"{PASSES}/families/ring/order_encoding/chip_constraints.py": (
        "ChipItems",
        "constrain_time",
        "_relayed",
    ),
    f"{PASSES}/families/ring/order_encoding/memory_constraints.py": ("",),
    f"{PASSES}/families/ring/solver/problem_sampling.py": ("fill_clonable",),
    f"{PASSES}/families/ring/moves/placed_problem.py": ("",),
    f"{PASSES}/families/ring/moves/placement_state.py": ("",),
    f"{PASSES}/families/ring/moves/placement_loads.py": (
        "_streamed",
        "_peak",
        "loads_of_state",
        "load_of_chip",
        "held_on_chip",
        "find_peaks",
        "weigh_memory",
    ),
    f"{PASSES}/strategies/delta_kernels.py": ("Travels", "place", "_find_last", "_count", "shift"),
    f"{PASSES}/strategies/unit_items.py": ("",),
    f"{PASSES}/strategies/refinement.py": ("_travels",),
    f"{PASSES}/families/ring/moves/chip_window.py": ("chip_window", "_read_by_clones"),
    f"{BATCH}/legalised_partition.py": ("place", "_find_copies", "_route"),
}
"""Definitions by file; the empty name stands for all of a file."""

RULES: dict[str, tuple[str, ...]] = {
    "mcm_compiler/placements/ring_rules.py": ("",),
    f"{PASSES}/families/ring/analytic/period_kernels.py": ("",),
    f"{BATCH}/rule_check.py": ("",),
    "mcm_compiler/placements/compiled_rules.py": ("",),
    f"{PASSES}/families/ring/exact/ideal_windows.py": ("arrivals_end", "beside_no_dependency"),
    f"{PASSES}/families/ring/exact/triangle_readings.py": ("",),
    f"{PASSES}/families/ring/order_encoding/triangle_constraints.py": ("",),
    f"{PASSES}/families/ring/moves/placement_loads.py": ("_detours",),
    f"{PASSES}/families/ring/moves/placement_rules.py": ("",),
    f"{PASSES}/families/ring/solver/constraint_solver.py": ("",),
    f"{PASSES}/families/ring/solver/adjacent_cuts.py": ("",),
    f"{PASSES}/families/ring/solver/adjacent_domains.py": ("",),
}

PLACE: tuple[str, ...] = (
    f"{PASSES}/mapping/loads/demand_table.py",
    "mcm_compiler/placements/ring_routes.py",
    f"{PASSES}/families/ring/loads/ring_kernels.py",
    f"{PASSES}/families/ring/loads/shared_items.py",
    f"{PASSES}/families/ring/loads/chip_memory.py",
    "mcm_compiler/arrays/clone_closure.py",
)


def _statements(tree: ast.AST) -> int:
    """Statements of a definition that compute: no docstrings, imports, heads and bare fields."""
    skipped = (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.ClassDef)
    return sum(
        isinstance(node, ast.stmt)
        and not isinstance(node, skipped)
        and not _is_text(node)
        and not (isinstance(node, ast.AnnAssign) and node.value is None)
        for node in ast.walk(tree)
    )


def _is_text(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )


def _definitions(tree: ast.Module) -> Iterator[tuple[str, ast.AST]]:
    yield "", tree
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield node.name, node
            if isinstance(node, ast.ClassDef):
                for inner in node.body:
                    if isinstance(inner, ast.FunctionDef):
                        yield f"{node.name}.{inner.name}", inner


def _source(path: str, revision: str) -> str:
    """The text of a file; empty where it is not there."""
    if not revision:
        file = ROOT / path
        return file.read_text(encoding="utf-8") if file.exists() else ""
    command = ["git", "-C", str(ROOT), "show", f"{revision}:{path}"]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout


def count(listed: Mapping[str, tuple[str, ...]], revision: str = "") -> dict[str, int]:
    """Statements of the listed definitions, by file.

    Args:
        listed: definitions by file.
        revision: of the repository; empty for the files as they are.
    """
    counts: dict[str, int] = {}
    for path, names in listed.items():
        found = dict(_definitions(ast.parse(_source(path, revision))))
        counts[path] = sum(_statements(found[name]) for name in names if name in found)
    return counts


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints the counts."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--revision", default="", help="count what stood there")
    asked = parser.parse_args(arguments)
    for title, listed in (
        ("loads elsewhere", LOADS),
        ("rules of the ring", RULES),
        ("the place of loads", dict.fromkeys(PLACE, ("",))),
    ):
        counts = count(listed, asked.revision)
        print(f"{sum(counts.values()):5d} statements: {title}")
        for path, number in counts.items():
            print(f"      {number:5d} {path}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
