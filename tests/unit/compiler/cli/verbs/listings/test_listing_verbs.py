"""`mcmc targets`, `passes`, `placers`, `strategies`, `zoo` and `explain`."""

from __future__ import annotations

import json
from collections.abc import Generator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Literal

import onnx
import onnx_ir as ir
import pytest
from click.testing import CliRunner

from mcm_compiler.cli.listing import option_rows, options_text, show_components
from mcm_compiler.cli.main import cli
from mcm_compiler.cli.show import aligned, beside, show_table
from mcm_compiler.diagnostics.catalog import catalog
from mcm_compiler.registry import PASSES, PLACERS, STRATEGIES, TARGETS, ZOO, Registration
from tests.generators.example_result import ExampleTarget, example_model


def _invoke(*args: str) -> Any:
    return CliRunner().invoke(cli, list(args))


@dataclass(frozen=True)
class TinyBuilder:
    """A zoo model of two ops."""

    name: ClassVar[str] = "test-tiny"
    summary: ClassVar[str] = "two ops"
    seed: int = 0
    shape_only: bool = False
    width: int = 2

    def build(self) -> ir.Model:
        model = example_model()
        model.graph.name = f"seed{self.seed}{'-shapes' if self.shape_only else ''}"
        return model


@dataclass(frozen=True)
class LateSummary:
    """A strategy whose summary is a property, as the protocol has it."""

    tries: int = 3

    @property
    def summary(self) -> str:
        return f"tries {self.tries} times"


@pytest.fixture(autouse=True)
def components() -> Generator[None]:
    ZOO.add("test-tiny", TinyBuilder, "tests")
    STRATEGIES.add("test-late", LateSummary, "tests")
    PLACERS.add("test-late", LateSummary, "tests")
    TARGETS.add("test-target", ExampleTarget, "tests")
    yield
    ZOO.remove("test-tiny")
    STRATEGIES.remove("test-late")
    PLACERS.remove("test-late")
    TARGETS.remove("test-target")


@pytest.mark.parametrize(
    ("verb", "kind", "name", "summary"),
    [
        ("targets", "targets", "test-target", "three small chips"),
        ("strategies", "strategies", "test-late", "tries 3 times"),
        ("placers", "placers", "test-late", "tries 3 times"),
        ("zoo", "models", "test-tiny", "two ops"),
    ],
)
def test_lists_have_names_summaries_and_origins(
    verb: str, kind: str, name: str, summary: str
) -> None:
    result = _invoke(verb)
    assert result.exit_code == 0
    line = next(line for line in result.stdout.splitlines() if line.startswith(f"{name} "))
    assert summary in line
    assert line.endswith("[tests]")
    rows = json.loads(_invoke(verb, "--format", "json").stdout)[kind]
    row = next(row for row in rows if row["name"] == name)
    assert (row["summary"], row["origin"], row["fault"]) == (summary, "tests", None)
    assert [row["name"] for row in rows] == sorted(row["name"] for row in rows)


def test_targets_as_json_have_their_numbers() -> None:
    rows = json.loads(_invoke("targets", "--format", "json").stdout)["targets"]
    row = next(row for row in rows if row["name"] == "test-target")
    assert row["chips"] == 3
    assert row["sram_bytes"] == [64 << 20] * 3
    assert row["host_io"] == "any"


@pytest.mark.parametrize("verb", ["strategies", "placers"])
def test_searchers_show_their_options(verb: str) -> None:
    lines = _invoke(verb).stdout.splitlines()
    at = next(i for i, line in enumerate(lines) if line.startswith("test-late"))
    assert lines[at + 1].strip() == "options: tries=3"


@dataclass(frozen=True)
class _Numbered:
    name = "c-numbered"
    summary = 5
    requires = uses = provides = preserves = invalidates = needs_target = ()


def test_a_component_that_does_not_load_is_listed_with_its_fault(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def missing() -> Any:
        raise ImportError("no acme")

    def broken() -> Any:
        raise RuntimeError("boom")

    found = [
        Registration("a-missing", "acme 1", missing),
        Registration("b-broken", "acme 2", broken),
        Registration("c-numbered", "acme 3", lambda: _Numbered),
    ]
    PASSES.registrations()  # or the first look would fill the stand-in with the real ones
    monkeypatch.setattr(PASSES, "_registered", {r.name: r for r in found})
    result = _invoke("passes")
    assert result.exit_code == 0
    assert "pass 'a-missing' cannot be imported: no acme" in result.stdout
    assert "pass 'b-broken' cannot be imported: RuntimeError: boom" in result.stdout
    assert "it cannot be loaded: TypeError: its summary is a int, no text" in result.stdout


def test_passes_tell_what_they_require_and_provide() -> None:
    rows = json.loads(_invoke("passes", "--format", "json").stdout)["passes"]
    row = next(row for row in rows if row["name"] == "simulate")
    assert row["fault"] is None
    assert "lowered_program" in row["requires"]
    assert "simulation" in row["provides"]


def test_options_are_shown_as_they_are_written() -> None:
    @dataclass(frozen=True)
    class Options:
        size: int
        on: bool = True
        limit: int | None = None
        rules: tuple[str, ...] = ("a", "b")
        mode: Literal["x", "y"] = "x"
        made: str = field(default_factory=lambda: "fresh")
        hidden: int = field(default=0, init=False)

    rows = option_rows(Options)
    expected = "size=(required), on=true, limit=none, rules=a;b, mode=x, made=fresh"
    assert options_text(rows) == expected
    assert rows[0] == {"name": "size", "type": "int", "default": None}
    assert option_rows(int) == []


@pytest.mark.parametrize("columns", [20, 40, 60, 200])
def test_lists_fold_on_narrow_terminals(columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mcm_compiler.cli.show.terminal_width", lambda indent=0: columns - indent)
    monkeypatch.setattr("mcm_compiler.cli.listing.terminal_width", lambda i=0: columns - i)
    shown: list[str] = []
    monkeypatch.setattr("click.echo", lambda line: shown.extend(line.split("\n")))
    option = {"name": "walks", "default": "8", "type": "int"}
    row = {"name": "annealing", "summary": "moves of single ops, 1,000,000 at most", "fault": None,
           "origin": "mcm-compiler 0.1.0", "options": [option] * 4}  # fmt: skip
    show_components("strategies", [row], "text")
    show_table([("memory", "1,023.9 MiB", "what a chip has, after the program")])
    assert all(len(line) <= columns for line in shown), shown
    assert sum("1,000,000" in line for line in shown) == 1
    assert sum("1,023.9 MiB" in line for line in shown) == 1
    assert sum(line.count("walks=8") for line in shown) == 4


@pytest.mark.parametrize(
    ("columns", "lines"),
    [
        (None, ["ok    memory  4 chips hold 1.5 MiB each"]),
        (30, ["ok    memory  4 chips hold", "              1.5 MiB each"]),
        (20, ["ok    memory", "  4 chips hold", "  1.5 MiB each"]),
    ],
)
def test_a_text_beside_a_head(
    columns: int | None, lines: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mcm_compiler.cli.show.terminal_width", lambda: columns)
    assert beside("ok    memory  ", 14, "4 chips hold 1.5 MiB each") == lines


def test_columns_are_aligned_and_hostile_cells_escaped() -> None:
    assert aligned([("a", "b"), ("long\x1b", "c")]) == ["a         b", r"long\x1b  c"]
    assert aligned([]) == []


def test_zoo_shows_the_options_of_a_model() -> None:
    result = _invoke("zoo", "test-tiny")
    assert result.stdout.splitlines()[0] == "test-tiny: two ops"
    assert "  shape_only  false  bool" in result.stdout
    data = json.loads(_invoke("zoo", "test-tiny", "--format", "json").stdout)
    assert [o["name"] for o in data["options"]] == ["seed", "shape_only", "width"]


def test_zoo_writes_a_model(tmp_path: Path) -> None:
    path = tmp_path / "tiny.onnx"
    result = _invoke("zoo", "test-tiny{width=3}", "-o", str(path), "--seed", "9", "--shape-only")
    assert result.exit_code == 0, result.output
    assert result.stdout == ""
    assert result.stderr.startswith("wrote test-tiny{seed=9,shape_only=true,width=3} to ")
    assert onnx.load(path).graph.name == "seed9-shapes"


def test_zoo_as_json(tmp_path: Path) -> None:
    path = tmp_path / "tiny.onnx"
    result = _invoke("zoo", "test-tiny", "-o", str(path), "--format", "json")
    assert json.loads(result.stdout) == {"name": "test-tiny", "file": str(path)}


@pytest.mark.parametrize("taken", ["tiny.onnx", "tiny.onnx.data"])
def test_zoo_replaces_no_file_unless_forced(tmp_path: Path, taken: str) -> None:
    (tmp_path / taken).write_text("mine")
    path = tmp_path / "tiny.onnx"
    result = _invoke("zoo", "test-tiny", "-o", str(path))
    assert result.exit_code == 1
    assert "error[MCM-U021]" in result.stderr
    assert (tmp_path / taken).read_text() == "mine"
    assert _invoke("zoo", "test-tiny", "-o", str(path), "--force").exit_code == 0
    assert onnx.load(path).graph.name == "seed0"


def test_zoo_never_replaces_a_folder(tmp_path: Path) -> None:
    result = _invoke("zoo", "test-tiny", "-o", str(tmp_path), "--force")
    assert result.exit_code == 1
    assert "error[MCM-U021]" in result.stderr


def test_zoo_faults(tmp_path: Path) -> None:
    assert "error[MCM-U003]" in _invoke("zoo", "resnet5").stderr
    out = ("-o", str(tmp_path / "x.onnx"))
    assert "error[MCM-U002]" in _invoke("zoo", "test-tiny{depth=1}", *out).stderr
    assert "error[MCM-U001]" in _invoke("zoo", "test-tiny{", *out).stderr
    assert _invoke("zoo", *out).exit_code == 2
    gone = _invoke("zoo", "test-tiny", "-o", str(tmp_path / "gone" / "x.onnx"))
    assert (gone.exit_code, "error[MCM-A002]" in gone.stderr) == (1, True)
    assert list(tmp_path.iterdir()) == []


def test_explain_a_code() -> None:
    entry = catalog()["MCM-A001"]
    text = _invoke("explain", "mcm-a001").stdout
    assert text == (
        f"MCM-A001: {entry.title}\n\n{entry.explanation}\n"
        f"\nExample: {entry.example}\n\nWhat to do: {entry.remedy}\n"
    )
    data = json.loads(_invoke("explain", "MCM-A001", "--format", "json").stdout)
    assert data["title"] == entry.title


def test_explain_lists_all_codes() -> None:
    lines = _invoke("explain").stdout.splitlines()
    assert [line.split()[0] for line in lines] == list(catalog())
    data = json.loads(_invoke("explain", "--format", "json").stdout)
    assert [entry["code"] for entry in data["codes"]] == list(catalog())


def test_explain_an_unknown_code_tells_near_ones() -> None:
    result = _invoke("explain", "MCM-A090")
    assert result.exit_code == 1
    assert "error[MCM-U023]" in result.stderr
    assert "MCM-A00" in result.stderr.split("did you mean")[1]
    assert "`mcmc explain` lists all codes" in _invoke("explain", "zzz").stderr
