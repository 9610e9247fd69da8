"""Size of the core: what compiles, checks, builds, reports and runs on packages of chips.

    python tools/core_closure.py [--check]

The core is what these roots reach by imports that run, those within functions included: the verbs
`compile`, `check`, `build`, `report` and `run`, and each entry point of `pyproject.toml` that leads
into no product of `tools/without.py`; the ring counts as part of the core. `--check` fails where
the core is larger than `[tool.mcm-core]` allows, or reaches a product.
"""

from __future__ import annotations

import argparse
import ast
import sys
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from count_lines import PLACES, ROOT, sizes_of
from without import PRODUCTS

VERBS = ("compile", "check", "build", "folders")
ROOMS = tuple(
    room for name, product in PRODUCTS.items() if name != "ring" for room in product.rooms
)


def modules_of(root: Path) -> dict[str, Path]:
    """The files of all modules, by dotted name."""
    found: dict[str, Path] = {}
    for place in (root / place for place in PLACES):
        for path in sorted(place.rglob("*.py")):
            parts = path.relative_to(place.parent).with_suffix("").parts
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imported_by(text: str) -> set[str]:
    """Dotted names that a module may import when it runs, whether a module or a name in one."""
    found: set[str] = set()
    waiting: list[ast.AST] = [ast.parse(text)]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            waiting += node.orelse
            continue
        waiting += ast.iter_child_nodes(node)
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.update(f"{node.module}.{alias.name}" for alias in node.names)
    return found


def in_product(module: str) -> bool:
    """Whether a module is part of a product."""
    return any(module == room or module.startswith(f"{room}.") for room in ROOMS)


def roots_of(project: str) -> list[str]:
    """The modules that `pyproject.toml` and these modules of verbs make part of the core."""
    plugins: Mapping[str, str] = tomllib.loads(project)["project"]["entry-points"][
        "mcm_compiler.plugins"
    ]
    entries = sorted({place.partition(":")[0] for place in plugins.values()})
    verbs = [f"mcm_compiler.cli.verbs.{verb}" for verb in VERBS]
    return verbs + [module for module in entries if not in_product(module)]


def reached(roots: Iterable[str], modules: Mapping[str, Path]) -> list[str]:
    """The modules that roots reach, with the packages that hold them."""
    found, waiting = set[str](), list(roots)
    while waiting:
        name = waiting.pop()
        while name:
            if name in modules and name not in found:
                found.add(name)
                waiting += imported_by(modules[name].read_text(encoding="utf-8"))
            name = name.rpartition(".")[0]
    return sorted(found)


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the tool; 1 where the core is too large or reaches a product."""
    parser = argparse.ArgumentParser(description="Count what the core needs.")
    parser.add_argument("--check", action="store_true", help="fail where it is above its budget")
    chosen = parser.parse_args(arguments)
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    modules = modules_of(ROOT)
    core = reached(roots_of(project), modules)
    lines = sum(sizes_of(modules[name].read_text(encoding="utf-8"))[0] for name in core)
    print(f"core: {lines:,} lines of code, {len(core)} modules")
    if not chosen.check:
        return 0
    budget: Mapping[str, int] = tomllib.loads(project)["tool"]["mcm-core"]
    faults = [f"the core reaches a product: {name}" for name in core if in_product(name)]
    faults += [
        f"the core has {size:,} {kind}, {budget[kind]:,} at most"
        for kind, size in (("lines", lines), ("modules", len(core)))
        if size > budget[kind]
    ]
    print("\n".join(faults), file=sys.stderr, end="\n" if faults else "")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
