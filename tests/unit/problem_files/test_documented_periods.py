"""The table of published inputs in the documentation is what the compiler finds."""

from __future__ import annotations

from pathlib import Path

from mcm_compiler.placement import PlacementRequest
from mcm_compiler.placement_file import read_placement, with_devices
from mcm_passes.problem_files.device_placement import DevicePlacement
from tests.unit.problem_files.placement_examples import PUBLISHED

PAGE = Path(__file__).parents[3] / "docs" / "partitioning-problems.md"


def _row(name: str) -> str:
    problem = with_devices(read_placement(PUBLISHED / f"{name}.json"), None, 0)
    cells = [f"`{name}`", str(problem.num_operators), str(problem.max_accelerators)]
    for rule in ("none", "relay", "strict"):
        found = DevicePlacement().place(problem, PlacementRequest(rule))
        assert found.gap == 0.0
        price = (
            f" (+{found.price:.1%})".replace("%", " %")
            if found.price and found.price > 5e-4
            else ""
        )
        cells.append(f"{found.period:.6g}{price}")
    return f"| {' | '.join(cells)} |"


def test_the_table_is_what_is_found() -> None:
    table = PAGE.read_text(encoding="utf-8").partition("<!-- published:begin -->\n")[2]
    rows = table.partition("<!-- published:end -->")[0].splitlines()[2:]
    assert rows == [_row(path.stem) for path in sorted(PUBLISHED.glob("*.json"))]
