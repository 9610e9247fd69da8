"""A mesh with the routing of a plug-in: strategies, checks, pages, and refusals."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from mcm_compiler.api import compile_model, load_target
from mcm_compiler.cli.main import cli
from mcm_compiler.contracts.target import machine_of
from mcm_compiler.diagnostics import CompileError
from mcm_compiler.options import CompileOptions
from mcm_compiler.registry import MAPPINGS, ROUTINGS, TARGETS
from mcm_hardware.families.package.routings import Hop, hop_by_hop

FILE = Path(__file__).parents[1] / "acme_mesh" / "west_first.py"
MODEL = "zoo:gpt2-tiny"
NAMES = "dp", "local_search", "multilevel", "reorder", "ideals", "frontier", "portfolio"
TO_PARTITION = CompileOptions().passes.partition(",legalize")[0]


def described(folder: Path, topology: str) -> Path:
    """A description with the chips of `mesh36`."""
    text = TARGETS.get("mesh36")().source_text
    head, _, rest = text.partition("[topology]")
    path = folder / "mine.toml"
    path.write_text(f"{head}[topology]\n{topology}\n\n{rest[rest.index('[chip]') :]}")
    return path


def mesh(folder: Path, routing: str = "acme_west_first", size: str = "[3, 4]") -> Path:
    return described(folder, f'kind = "mesh"\nsize = {size}\nrouting = "{routing}"')


def invoke(*words: str | Path, code: int = 0) -> str:
    result = CliRunner().invoke(cli, [str(word) for word in words])
    assert result.exit_code == code, result.output
    return result.output


def test_the_plug_in_has_at_most_60_lines() -> None:
    assert len(FILE.read_text(encoding="utf-8").splitlines()) <= 60


def test_tensors_go_west_first_and_never_turn_to_the_west(tmp_path: Path) -> None:
    machine = machine_of(load_target(mesh(tmp_path)))
    assert machine.places(6, 8) == (6, 5, 4, 8)  # west, then down
    assert machine.places(1, 11) == (1, 5, 9, 10, 11)  # down, then east
    for a, b in itertools.permutations(range(12), 2):
        way = machine.places(a, b)
        assert len(way) - 1 == abs(a // 4 - b // 4) + abs(a % 4 - b % 4)
        west = [one - two == 1 for one, two in itertools.pairwise(way)]
        assert west == sorted(west, reverse=True)


@pytest.mark.parametrize("strategy", NAMES)
def test_every_strategy_serves_it(strategy: str, tmp_path: Path) -> None:
    if strategy in {"cpsat", "frontier", "ideals"} and "ring" not in MAPPINGS:
        pytest.skip("it knows rings alone")
    options = CompileOptions(passes=TO_PARTITION, partitioner=strategy, replicas=1, level="1")
    found = compile_model(MODEL, load_target(mesh(tmp_path)), options)
    assert found.partition is not None
    assert found.partition.strategy.partition("{")[0] == strategy


def test_its_folder_has_a_page_and_sensitivities(tmp_path: Path) -> None:
    out = tmp_path / "out"
    one = ("--replicas", "1", "-O0", "-o", out, "--html")
    invoke("compile", MODEL, "--target", mesh(tmp_path), *one)
    assert "out holds" in invoke("check", out)
    report = json.loads((out / "report.json").read_text(encoding="utf-8"))
    assert {"link bandwidth", "SRAM"} <= {row["resource"] for row in report["sensitivities"]}
    assert "<html" in out.with_suffix(".html").read_text(encoding="utf-8")


def test_a_check_without_the_routing_names_it_and_the_line_that_asks_for_it(tmp_path: Path) -> None:
    out = tmp_path / "out"
    ROUTINGS.add("test_rows", ROUTINGS.get("xy"), "rows.py")
    try:
        invoke("compile", MODEL, "--target", mesh(tmp_path, "test_rows"), "-O0", "-o", out)
        assert "out holds" in invoke("check", out)
    finally:
        ROUTINGS.remove("test_rows")
    refused = invoke("check", out, code=1)
    assert "error[MCM-U003]: unknown routing 'test_rows'" in refused
    assert "target.toml:12: 'topology.routing'" in refused
    assert "--plugin" in refused


def straight(mesh: object, source: int, destination: int) -> Iterator[Hop]:
    """All the way at once, where there is no link."""
    yield Hop(destination)


def round_and_round(mesh: object, source: int, destination: int) -> Iterator[Hop]:
    """Between two chips without end."""
    while True:
        yield Hop(source ^ 1)
        yield Hop(source)


def away(mesh: object, source: int, destination: int) -> Iterator[Hop]:
    """Chips that the package has not, without end."""
    for chip in itertools.count(1000):
        yield Hop(chip)


def back(mesh: object, source: int, destination: int) -> Iterator[Hop]:
    """Chips below 0, without end."""
    for chip in itertools.count(1):
        yield Hop(-chip)


def short(mesh: object, source: int, destination: int) -> Iterator[Hop]:
    """One hop along the row, whatever the destination is."""
    yield Hop(source ^ 1)


def lane(mesh: object, source: int, destination: int) -> Iterator[Hop]:
    """A virtual channel that no link has."""
    yield Hop(source ^ 1, lane=-1)


def text(mesh: object, source: int, destination: int) -> Iterator[object]:
    """No hop at all."""
    yield "east"


def broken(mesh: object, source: int, destination: int) -> Iterator[Hop]:
    """A fault of the plug-in."""
    raise RuntimeError("it is broken")


@pytest.mark.parametrize(
    ("route", "code", "words"),
    [
        (straight, "MCM-T018", "from chip 0 to chip 2 needs a link from chip 0 to chip 2"),
        (round_and_round, "MCM-T018", "from chip 0 to chip 1 visits chip 0 twice"),
        (away, "MCM-T018", "from chip 0 to chip 1 needs a link from chip 0 to chip 1000"),
        (back, "MCM-T018", "from chip 0 to chip 1 needs a link from chip 0 to chip -1"),
        (short, "MCM-T018", "from chip 0 to chip 2 ends at chip 1"),
        (lane, "MCM-T018", "takes virtual channel -1 of 0 to 63"),
        (text, "MCM-X007", "has a str, not a Hop"),
        (broken, "MCM-X007", "it is broken"),
    ],
)
def test_routes_that_cannot_be_are_refused_with_the_routing(
    route: Callable[..., Iterator[Hop]], code: str, words: str, tmp_path: Path
) -> None:
    ROUTINGS.add("test_odd", hop_by_hop(route), "odd.py")
    try:
        with pytest.raises(CompileError) as caught:
            load_target(mesh(tmp_path, "test_odd", "[2, 4]"))
    finally:
        ROUTINGS.remove("test_odd")
    (fault,) = caught.value.diagnostics
    assert fault.code == code
    assert words in fault.message
    assert "'test_odd'" in fault.message


def test_routings_say_which_topologies_they_are_for(tmp_path: Path) -> None:
    links = described(
        tmp_path, 'kind = "links"\nlinks = [[0, 1], [1, 0]]\nrouting = "acme_west_first"'
    )
    refused = invoke("targets", "validate", links, code=1)
    assert "error[MCM-T018]: routing 'acme_west_first'" in refused
    assert "it is for meshes" in refused
    assert "mine.toml:12: 'topology.routing'" in refused


def test_routes_that_block_each_other_are_refused(tmp_path: Path) -> None:
    """Rows first from even rows, columns first from odd ones: the four turns of a circle."""

    def alternating(mesh: object, source: int, destination: int) -> Iterator[Hop]:
        grid = ROUTINGS.get("xy" if source // 4 % 2 else "yx")
        ways = list(grid(mesh))[source]
        ends = mesh.ends  # pyright: ignore
        for link in ways.links[ways.ptr[destination] : ways.ptr[destination + 1]]:
            yield Hop(int(ends[link, 1]))

    path = mesh(tmp_path, "test_alternating", "[4, 4]")
    ROUTINGS.add("test_alternating", hop_by_hop(alternating), "alternating.py")
    try:
        refused = invoke("targets", "validate", path, code=1)
    finally:
        ROUTINGS.remove("test_alternating")
    assert "MCM-T014" in refused
    assert "virtual_channels" in refused
