"""The table of published inputs in the documentation is what the compiler finds."""

from __future__ import annotations

import json
from pathlib import Path

from mcm_compiler.contracts.placement import PlacementRequest
from mcm_compiler.placements.placement_file import read_placement, with_devices
from mcm_passes.mapping.device_placement.device_placement import DevicePlacement
from tests.generators.placement_examples import PUBLISHED

PAGE = Path(__file__).parents[5] / "docs" / "reference" / "placement-problems.md"


def _row(name: str) -> str:
    problem = with_devices(read_placement(PUBLISHED / f"{name}.json"), None, 0)
    cells = [f"`{name}`", str(problem.num_operators), str(problem.max_accelerators)]
    for rule in ("none", "relay", "strict"):
        found = DevicePlacement().place(PlacementRequest(problem=problem, rule=rule))
        assert found.gap == 0.0
        price = (
            f" (+{found.price:.1%})".replace("%", " %")
            if found.price and found.price > 5e-4
            else ""
        )
        cells.append(f"{found.period:.6g}{price}")
    return f"| {' | '.join(cells)} |"


def _training_row(name: str, published: float) -> str:
    problem = with_devices(read_placement(PUBLISHED / "training" / name), None, 0)
    found = DevicePlacement().place(PlacementRequest(problem=problem, rule="none"))
    assert found.gap == 0.0
    cells = [f"`{name.removesuffix('.json')}`", str(problem.num_operators)]
    cells += [str(problem.max_accelerators), f"{found.period:.6g}", f"{published:.6g}"]
    return f"| {' | '.join(cells)} |"


def _rows(name: str) -> list[str]:
    table = PAGE.read_text(encoding="utf-8").partition(f"<!-- {name}:begin -->\n")[2]
    return table.partition(f"<!-- {name}:end -->")[0].splitlines()[2:]


def test_the_training_table_is_what_is_found() -> None:
    answers = PUBLISHED / "training" / "published_answers.json"
    files = json.loads(answers.read_text(encoding="utf-8"))["files"]
    assert _rows("training") == [_training_row(name, files[name]) for name in sorted(files)]


def test_the_table_is_what_is_found() -> None:
    rows = _rows("published")
    assert rows == [_row(path.stem) for path in sorted(PUBLISHED.glob("*.json"))]
