"""How many statements compute loads or rules of the ring outside the one place that defines them.

    python tools/count_definitions.py

What a tensor, a weight or a clone loads is defined in `mcm_passes/mapping/loads` and, for clones,
in `mcm_compiler/arrays/clone_closure.py`. The definitions listed below are all others that find out
such a thing for themselves; one that is listed and gone is an error, so that nothing leaves the
count by a new name. Statements are counted, so that comments, docstrings and the breaking of lines
change nothing. Independent checkers are not listed: they stay apart on purpose.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

PASSES, BATCH = "passes/mcm_passes", "hardware/mcm_hardware/families/ring/batch"

LOADS: dict[str, tuple[str, ...]] = {
    f"{PASSES}/mapping/loads/problem_arrays.py": ("",),
    f"{PASSES}/families/ring/contiguous/contiguous_windows.py": ("",),
    f"{PASSES}/families/ring/contiguous/strict_windows.py": (
        "_Window",
        "StrictWindows.__init__",
        "StrictWindows._costs",
        "StrictWindows._grown",
        "beginnings",
        "costs_from",
    ),
    f"{PASSES}/mapping/solving/legalization.py": (
        "_Legalizer.__init__",
        "_Legalizer._plan_relays",
        "_Legalizer._relay",
    ),
    f"{PASSES}/families/ring/order_encoding/order_literals.py": ("PeriodModel", "TriggerLiterals"),
    f"{PASSES}/families/ring/order_encoding/memory_constraints.py": (
        "MemoryConstraints",
        "constrain_time",
    ),
    f"{PASSES}/families/ring/solver/batch.py": ("fill_clonable",),
    f"{PASSES}/families/ring/moves/placed_problem.py": ("PlacedProblem", "placed_problem"),
    f"{PASSES}/families/ring/moves/placement_state.py": ("",),
    f"{PASSES}/families/ring/objectives/latency_walk.py": ("_blocks",),
    f"{PASSES}/parallelism/copies/stage_windows.py": ("",),
    f"{BATCH}/legalised_partition.py": ("place", "_route"),
}
"""Definitions by file; the empty name stands for all of a file."""

RULES: dict[str, tuple[str, ...]] = {
    "mcm_compiler/placements/ring_rules.py": ("",),
    f"{PASSES}/mapping/machine/periods.py": ("RuleArrays", "_period_s", "periods_between"),
    "mcm_compiler/placements/compiled_rules.py": ("",),
    f"{PASSES}/families/ring/exact/ideal_chain.py": ("Triangles", "keeps_rule", "_is_parallel"),
    f"{PASSES}/families/ring/order_encoding/memory_constraints.py": (
        "constrain_triangles",
        "_forbid_detours_along_paths",
        "_forbid_longer_paths",
    ),
    f"{PASSES}/families/ring/moves/placement_state.py": ("_count_edges", "breaks_triangle_rule"),
    f"{PASSES}/families/ring/solver/adjacent_domains.py": ("",),
}

PLACE: tuple[str, ...] = (
    f"{PASSES}/mapping/loads/demand_table.py",
    "mcm_compiler/placements/ring_rules.py",
    f"{PASSES}/mapping/loads/chip_demands.py",
    f"{PASSES}/families/ring/loads/window_costs.py",
    f"{PASSES}/mapping/loads/device_memory.py",
    f"{PASSES}/mapping/machine/load_kernels.py",
    f"{PASSES}/mapping/problem/rule_graph.py",
    "mcm_compiler/placements/compiled_rules.py",
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


def count(listed: Mapping[str, tuple[str, ...]]) -> dict[str, int]:
    """Statements of the listed definitions, by file.

    Raises:
        KeyError: names a definition that is not in its file.
    """
    counts: dict[str, int] = {}
    for path, names in listed.items():
        found = dict(_definitions(ast.parse((ROOT / path).read_text(encoding="utf-8"))))
        counts[path] = sum(_statements(found[name]) for name in names)
    return counts


def main() -> None:
    """Prints the counts."""
    for title, listed in (
        ("loads elsewhere", LOADS),
        ("rules of the ring", RULES),
        ("the place of loads", dict.fromkeys(PLACE, ("",))),
    ):
        counts = count(listed)
        print(f"{sum(counts.values()):5d} statements: {title}")
        for path, number in counts.items():
            print(f"      {number:5d} {path}")


if __name__ == "__main__":
    main()
