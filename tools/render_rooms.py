"""Draws the house: the rooms of every package in layers, and the imports between them.

    python tools/render_rooms.py [--check]

Layers come from the contracts of import-linter in `pyproject.toml`, what a room is for from the
first line of its package, and imports from the source, those within functions and those for types
among them. The page is docs/explanation/rooms.md; with `--check` nothing is written, and a page
that is out of date fails.
"""

from __future__ import annotations

import argparse
import ast
import sys
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import grimp

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "explanation" / "rooms.md"
FOLDERS = {
    "mcm_compiler": ROOT,
    "mcm_passes": ROOT / "passes",
    "mcm_hardware": ROOT / "hardware",
    "mcm_models": ROOT / "models",
}


@dataclass(frozen=True)
class Floor:
    """One container and its rooms.

    Attributes:
        name: what the contract says.
        container: the package that the rooms are in.
        layers: from the top down; rooms of one layer know nothing of each other.
    """

    name: str
    container: str
    layers: tuple[tuple[str, ...], ...]


def floors() -> Iterator[Floor]:
    """Those contracts about layers that name every room of a container."""
    with (ROOT / "pyproject.toml").open("rb") as file:
        contracts = tomllib.load(file)["tool"]["importlinter"]["contracts"]
    for contract in contracts:
        if contract["type"] == "layers" and contract.get("exhaustive"):
            (container,) = contract["containers"]
            layers = [
                tuple(f"{container}.{room.strip()}" for room in layer.split("|"))
                for layer in contract["layers"]
            ]
            yield Floor(contract["name"], container, tuple(layers))


def purpose(room: str) -> str:
    """The first line of a package or module."""
    root, *rest = room.split(".")
    path = FOLDERS[root].joinpath(root, *rest)
    file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    text = ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or ""
    return text.partition("\n")[0].replace("|", "\\|")


def room_imports(floor: Floor, graph: grimp.ImportGraph) -> Mapping[tuple[str, str], int]:
    """How many modules of one room import how many of another: pairs of modules, by rooms."""
    rooms = [room for layer in floor.layers for room in layer]
    modules = {room: {room, *graph.find_descendants(room)} for room in rooms}
    counts: dict[tuple[str, str], int] = {}
    for room in rooms:
        seen = [
            other
            for module in modules[room]
            for other in graph.find_modules_directly_imported_by(module)
        ]
        for other in rooms:
            count = sum(module in modules[other] for module in seen)
            if other != room and count:
                counts[room, other] = count
    return counts


def upwards(floor: Floor, counts: Mapping[tuple[str, str], int]) -> list[tuple[str, str]]:
    """Pairs of rooms of which one imports another that does not lie below it."""
    level = {room: height for height, layer in enumerate(floor.layers) for room in layer}
    return [(one, other) for one, other in counts if level[other] <= level[one]]


def _section(floor: Floor, graph: grimp.ImportGraph) -> Iterator[str]:
    counts = room_imports(floor, graph)
    short = len(floor.container) + 1
    yield f"## {floor.name[0].upper()}{floor.name[1:]}"
    yield ""
    yield f"`{floor.container}`: {sum(counts.values())} imports between packages, "
    yield f"{len(upwards(floor, counts))} upwards."
    yield ""
    yield "| layer | package | purpose | modules | imports from |"
    yield "|---:|---|---|---:|---|"
    for height, layer in enumerate(reversed(floor.layers), 1):
        for room in layer:
            size = sum(not graph.find_children(m) for m in {room, *graph.find_descendants(room)})
            below = ", ".join(
                f"{other[short:]} {count}" for (one, other), count in counts.items() if one == room
            )
            yield f"| {height} | `{room[short:]}` | {purpose(room)} | {size} | {below} |"
    yield ""


def page() -> str:
    """The whole page."""
    graph = grimp.build_graph(*FOLDERS, cache_dir=None)
    lines = [
        "# Packages and layers",
        "",
        "Written by `python tools/render_rooms.py`; `lint-imports` checks the layers. A package",
        "imports only packages below it; packages of one layer do not import each other. The",
        "last column counts pairs of modules.",
        "",
    ]
    for floor in floors():
        lines += _section(floor, graph)
    return "\n".join(lines).rstrip() + "\n"


def main(arguments: Sequence[str] | None = None) -> int:
    """Writes the page, or says that it is out of date."""
    parser = argparse.ArgumentParser(description="Draws the rooms of the packages in layers.")
    parser.add_argument("--check", action="store_true", help="write nothing")
    asked = parser.parse_args(arguments)
    text = page()
    if not asked.check:
        PAGE.write_text(text, encoding="utf-8")
        return 0
    if PAGE.is_file() and PAGE.read_text(encoding="utf-8") == text:
        return 0
    print(f"{PAGE.relative_to(ROOT)} is out of date: run python tools/render_rooms.py")
    return 1


if __name__ == "__main__":
    sys.exit(main())
