"""Sweeps as text."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from mcm_compiler.cli.main import cli
from mcm_compiler.diagnostics import CompileError
from mcm_compiler.exploration.journal import journal_path
from mcm_compiler.exploration.sweeps import MAX_POINTS, Sweep, parse_sweep, settings_of


@pytest.mark.parametrize(
    ("text", "key", "values"),
    [
        ("chip.sram_mib=16,32,64", "chip.sram_mib", (16, 32, 64)),
        ("package.num_chips=4..10:3", "package.num_chips", (4, 7, 10)),
        ("package.num_chips=4..6", "package.num_chips", (4, 5, 6)),
        ("chip.sram_mib=0.1..0.4:0.1", "chip.sram_mib", (0.1, 0.2, 0.3, 0.4)),
        ("chip.sram_mib=8,4..8:2, 16", "chip.sram_mib", (8, 4, 6, 16)),
        ("chip.sram_mib=64,64.0,6.4e1", "chip.sram_mib", (64,)),
        ("link.switching=cut_through,store_and_forward", "link.switching",
         ("cut_through", "store_and_forward")),
        ("x=true,1,false", "x", (True, 1, False)),
        ("x=-3..-1", "x", (-3, -2, -1)),
        ("x=1e400,nan", "x", ("1e400", "nan")),
    ],
)  # fmt: skip
def test_values_are_those_of_the_text(text: str, key: str, values: tuple[object, ...]) -> None:
    found = parse_sweep(text)
    assert (found.key, found.values) == (key, values)
    assert [type(one) for one in found.values] == [type(one) for one in values]


@pytest.mark.parametrize(
    "text",
    [
        "chip.sram_mib", "=3", "a..b=1", "chip. sram=1", "x=", "x=1,,2", "x=3..1", "x=1..2:0",
        "x=1..2:-1", "x=a..b", "x=1..b", "x=1..1e9", "x=0..1:1e-9", "x=1..2:nan", "x=true..2",
        f"x={','.join(map(str, range(MAX_POINTS + 1)))}", "x=1..inf", f"x=1..{'9' * 5000}",
    ],
)  # fmt: skip
def test_what_is_no_sweep_is_told(text: str) -> None:
    with pytest.raises(CompileError) as caught:
        parse_sweep(text)
    assert [d.code for d in caught.value.diagnostics] == ["MCM-U061"]


def test_the_last_sweep_runs_fastest() -> None:
    sweeps = [Sweep("a", (1, 2)), Sweep("b", ("x", "y"))]
    assert settings_of(sweeps) == [
        {"a": 1, "b": "x"},
        {"a": 1, "b": "y"},
        {"a": 2, "b": "x"},
        {"a": 2, "b": "y"},
    ]


@pytest.mark.parametrize(
    "sweeps",
    [
        [],
        [Sweep("a", (1,)), Sweep("a", (2,))],
        [Sweep("a", tuple(range(65))), Sweep("b", tuple(range(64)))],
    ],
)
def test_combinations_that_cannot_be_are_told(sweeps: list[Sweep]) -> None:
    with pytest.raises(CompileError) as caught:
        settings_of(sweeps)
    assert [d.code for d in caught.value.diagnostics] == ["MCM-U061"]


@pytest.mark.parametrize("sweep", ["chip.sram_mib", "chip.sram_mib=1..2:0", "=3"])
def test_a_malformed_sweep_leaves_the_journal_alone(
    sweep: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    journal = journal_path(Path("out.json"))
    journal.write_text("points of an exploration that was interrupted")
    command = ["explore", "zoo:mlp", "--target", "mcm4", "--json", "out.json", "--force"]
    result = CliRunner().invoke(cli, [*command, "--sweep", sweep])
    assert result.exit_code == 1
    assert "MCM-U061" in result.stderr
    assert journal.read_text() == "points of an exploration that was interrupted"
