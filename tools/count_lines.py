"""Compare the size of each package with its budget; budgets only fall.

    python tools/count_lines.py [--check | --update]

Sizes are lines of code (no blank lines, comments or docstrings), modules, and lines of imports.
`[tool.mcm-sizes]` of `pyproject.toml` has a budget for each package. `--check` fails where a size
is above it, or a package has none. `--update` writes the present sizes where they are smaller; a
commit that needs more raises the numbers by hand and says why.
"""

from __future__ import annotations

import argparse
import ast
import re
import sys
import tomllib
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

PLACES = ("mcm_compiler", "passes/mcm_passes", "hardware/mcm_hardware", "models/mcm_models")
"""Each folder in these is a package with a budget, and so are the modules next to them.

Of `families`, each family is one.
"""

KINDS = ("lines of code", "modules", "lines of imports")

Sizes = tuple[int, int, int]
"""In the order of `KINDS`."""

_ROW = re.compile(r'^"(?P<name>[^"]+)" = \[(?P<sizes>[\d, ]+)\]\n', re.MULTILINE)


def sizes_of(text: str) -> Sizes:
    """The sizes of one module."""
    code = {
        number
        for number, line in enumerate(text.splitlines(), start=1)
        if line.strip() and not line.lstrip().startswith("#")
    }
    documented: set[int] = set()
    imported: set[int] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Constant | ast.JoinedStr):
            # Blank lines and hash signs within a text are no blank lines and comments.
            code.update(_lines(node))
        elif isinstance(node, ast.Import | ast.ImportFrom):
            imported.update(_lines(node))
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            documented.update(_lines(node) if isinstance(node.value.value, str) else ())
    return len(code - documented), 1, len(imported)


def _lines(node: ast.expr | ast.stmt) -> range:
    return range(node.lineno, (node.end_lineno or node.lineno) + 1)


def package_sizes(root: Path) -> dict[str, Sizes]:
    """The sizes of all packages, by folder from the root."""
    found: defaultdict[str, Sizes] = defaultdict(lambda: (0, 0, 0))
    for place in PLACES:
        for path in sorted((root / place).rglob("*.py")):
            inside = path.relative_to(root / place).parts
            depth = 2 if inside[0] == "families" else 1
            name = "/".join((place, *inside[:-1][:depth]))
            more = sizes_of(path.read_text(encoding="utf-8"))
            code, modules, imports = found[name]
            found[name] = (code + more[0], modules + more[1], imports + more[2])
    return dict(sorted(found.items()))


def budgets_of(project: str) -> dict[str, Sizes]:
    """The budgets in the text of a `pyproject.toml`."""
    rows = tomllib.loads(project)["tool"]["mcm-sizes"]
    return {name: (code, modules, imports) for name, (code, modules, imports) in rows.items()}


def faults(sizes: Mapping[str, Sizes], budgets: Mapping[str, Sizes]) -> list[str]:
    """Packages that are larger than their budget, have none, or are gone."""
    found: list[str] = []
    for name, present in sizes.items():
        if name not in budgets:
            found.append(f"{name}: no budget; add {_row(name, present)}")
            continue
        found += [
            f"{name}: {size:,} {kind}, {budget:,} at most"
            for kind, size, budget in zip(KINDS, present, budgets[name], strict=True)
            if size > budget
        ]
    return found + [f"{name}: a budget for no package" for name in budgets if name not in sizes]


def lowered(project: str, sizes: Mapping[str, Sizes]) -> str:
    """The text of a `pyproject.toml` with budgets of the present sizes, where these are smaller."""
    budgets = budgets_of(project)

    def row(found: re.Match[str]) -> str:
        name = found["name"]
        if name not in budgets:
            return found[0]
        if name not in sizes:
            return ""
        code, modules, imports = map(min, sizes[name], budgets[name])
        return f"{_row(name, (code, modules, imports))}\n"

    return _ROW.sub(row, project)


def _row(name: str, sizes: Sizes) -> str:
    return f'"{name}" = [{", ".join(map(str, sizes))}]'


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the tool; 1 where a package is too large."""
    parser = argparse.ArgumentParser(
        description="Compare the size of each package with its budget."
    )
    asked = parser.add_mutually_exclusive_group()
    asked.add_argument("--check", action="store_true", help="fail where a size is above its budget")
    asked.add_argument("--update", action="store_true", help="lower budgets to the present sizes")
    chosen = parser.parse_args(arguments)
    project, sizes = ROOT / "pyproject.toml", package_sizes(ROOT)
    text = project.read_text(encoding="utf-8")
    if chosen.update:
        project.write_text(lowered(text, sizes), encoding="utf-8")
    elif not chosen.check:
        for name, present in sizes.items():
            print(f"{name:<44}" + "".join(f"{size:>9,}" for size in present))
    total = [sum(column) for column in zip(*sizes.values(), strict=True)]
    print("all: " + ", ".join(f"{size:,} {kind}" for size, kind in zip(total, KINDS, strict=True)))
    found = faults(sizes, budgets_of(text)) if chosen.check else []
    for fault in found:
        print(fault, file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
