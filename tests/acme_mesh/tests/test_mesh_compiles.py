"""The mesh of the plug-in through the command line: compile, check, simulate, report."""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from click.testing import CliRunner, Result

from mcm_compiler.api import compile_model
from mcm_compiler.cli.main import cli
from mcm_compiler.contracts.partition import Outcome, PartitionProblem
from mcm_compiler.options import CompileOptions
from mcm_compiler.registry import MAPPINGS, STRATEGIES, TARGETS
from tests.acme_mesh.tests.plain_mesh import Mesh

MODEL = "zoo:inception-v3"
UNDIVIDED = CompileOptions().passes.replace("parallelize", "parallelize{search=false}")
ONE_PIPELINE = ("--replicas", "1", "--round", "1", "--passes", UNDIVIDED)
TINY = ("zoo:bert-tiny", "--target", "acme-mesh16", *ONE_PIPELINE)
GRID = Mesh(6, 6, 0.0, 0.0)
TO_SIMULATION = CompileOptions().passes.partition(",emit")[0]
UNDIVIDED_TO_SIMULATION = UNDIVIDED.partition(",emit")[0]


def invoke(*words: str) -> Result:
    result = CliRunner().invoke(cli, words)
    assert result.exit_code == 0, result.output
    return result


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model with branches on the mesh of 36 chips, as one pipeline of one inference."""
    out = tmp_path_factory.mktemp("inception") / "out"
    invoke("compile", MODEL, "--target", "acme-mesh36", *ONE_PIPELINE, "-o", str(out))
    return out


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A small model on 16 chips as one pipeline, and the assignment of its ops."""
    out, file = (tmp_path_factory.mktemp("tiny") / name for name in ("out", "cut.csv"))
    invoke("compile", *TINY, "-o", str(out), "--assignment-out", str(file))
    return out, file


def _json(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text(encoding="utf-8"))


def throughput(model: str, target: str, replicas: int | None) -> float:
    options = CompileOptions(passes=TO_SIMULATION, replicas=replicas)
    found = compile_model(model, target, options)
    assert found.simulation is not None
    assert found.replication is not None
    return found.replication.replicas / found.simulation.period_s


def _between_chips(folder: Path) -> list[tuple[int, int]]:
    """Where each transfer between chips comes from and goes to."""
    ends = [(t["source"], t["destination"]) for t in _json(folder / "program.json")["transfers"]]
    return [(source, target) for source, target in ends if min(source, target) >= 0]


def test_the_folder_holds_and_is_simulated_and_reported(folder: Path) -> None:
    checked = invoke("check", str(folder)).output
    assert "with a route for every tensor of" in checked
    assert "re-proved" in checked
    simulated = json.loads(invoke("simulate", str(folder), "--format", "json").output)
    report = _json(folder / "report.json")
    assert simulated["period_s"] == report["period_s"]
    assert report["period_s"] >= report["lower_bound_s"] > 0
    assert report["target"]["family"] == "acme_mesh"
    shown = invoke("report", str(folder), "--full").output
    assert "routes of the family acme_mesh" in shown
    assert "busiest link, to" in shown


def test_chips_send_to_each_other_in_no_circle(folder: Path) -> None:
    before: defaultdict[int, set[int]] = defaultdict(set)
    for source, target in _between_chips(folder):
        before[target].add(source)
    left = {*before, *(chip for chips in before.values() for chip in chips)}
    while left:
        free = {chip for chip in left if not before[chip] & left}
        assert free
        left -= free


def test_links_carry_what_routes_say(folder: Path) -> None:
    carried: defaultdict[tuple[int, int], int] = defaultdict(int)
    for transfer in _json(folder / "program.json")["transfers"]:
        source, target = transfer["source"], transfer["destination"]
        if min(source, target) >= 0:
            for link in GRID.way(source, target):
                carried[link] += transfer["size_bytes"]
    links = _json(folder / "report.json")["links"]
    reported = {
        (link["source"], link["destination"]): link["bytes_per_inference"]
        for link in links
        if min(link["source"], link["destination"]) >= 0
    }
    assert reported == dict(carried)


@pytest.mark.parametrize("replicas", [1, None])
def test_the_mesh_is_no_slower_than_a_ring_of_its_chips(replicas: int | None, folder: Path) -> None:
    if "mcm36" not in {registration.name for registration in TARGETS.registrations()}:
        pytest.skip("there is no ring")

    of_mesh = 1 / _json(folder / "report.json")["period_s"] if replicas else None
    of_mesh = of_mesh or throughput(MODEL, "acme-mesh36", None)
    assert of_mesh >= throughput(MODEL, "mcm36", replicas)


def test_pipelines_side_by_side_have_rows_of_their_own(tmp_path: Path) -> None:
    out = tmp_path / "out"
    words = ("--target", "acme-mesh36", "--replicas", "6", "-O1", "-o", str(out))
    invoke("compile", "zoo:bert-tiny", *words)
    assert _json(out / "manifest.json")["replicas"] == 6
    assert "6 replicas" in invoke("check", str(out)).output


def test_shares_that_are_not_alike_are_refused(tmp_path: Path) -> None:
    words = ("--target", "acme-mesh36", "--replicas", "5", "-o", str(tmp_path / "out"))
    result = CliRunner().invoke(cli, ("compile", "zoo:bert-tiny", *words))
    assert result.exit_code == 1
    assert "MCM-P018" in result.output
    assert "5 shares of 7 chips are not alike" in result.output
    assert not (tmp_path / "out").exists()


@dataclass(frozen=True)
class RingsOnly:
    """Puts half of the units on each of two chips; it does not say that it knows machines."""

    name: ClassVar[str] = "rings_only"
    summary: ClassVar[str] = "for rings"

    def solve(self, problem: PartitionProblem, *_: Any) -> Outcome:
        assert problem.on_ring
        chip_of = np.arange(problem.num_units) * 2 // problem.num_units
        return Outcome(chip_of.astype(np.int32), 1)


def test_a_strategy_of_rings_places_along_the_devices(tmp_path: Path) -> None:
    out = tmp_path / "out"
    words = ("--target", "acme-mesh36", "--partitioner", "rings_only", "-o", str(out))
    if "ring" not in {registration.name for registration in MAPPINGS.registrations()}:
        pytest.skip("there is no ring")
    STRATEGIES.add("rings_only", RingsOnly, "this test")
    try:
        invoke("compile", "zoo:bert-tiny", *words, "--replicas", "1", "-O1")
        assert _json(out / "report.json")["strategy"] == "rings_only"
    finally:
        STRATEGIES.remove("rings_only")
    assert invoke("check", str(out))


def test_routes_that_wait_for_each_other_are_refused(tmp_path: Path) -> None:
    described = invoke("targets", "show", "acme-mesh16", "--toml").output
    file = tmp_path / "turns.toml"
    file.write_text(described.replace("cols = 4", 'cols = 4\nturns = "alternating"', 1))
    result = CliRunner().invoke(cli, ("targets", "validate", str(file)))
    assert result.exit_code == 1
    assert "MCM-T014" in result.output


def test_pins_need_not_rise_along_a_mesh(tiny: tuple[Path, Path], tmp_path: Path) -> None:
    """Unlike a ring's, whose data flows to higher chips alone."""
    pinned = tmp_path / "pinned"
    kernels = [
        kernel for chip in _json(tiny[0] / "program.json")["chips"] for kernel in chip["kernels"]
    ]
    first, last = kernels[0]["nodes"][0], kernels[-1]["nodes"][-1]
    invoke("compile", *TINY, "--pin", f"{first}=14", "--pin", f"{last}=3", "-o", str(pinned))
    chips = {chip["chip"]: chip for chip in _json(pinned / "program.json")["chips"]}
    assert any(first in kernel["nodes"] for kernel in chips[14]["kernels"])
    assert any(last in kernel["nodes"] for kernel in chips[3]["kernels"])
    assert invoke("check", str(pinned)).output.rstrip().endswith("holds")


def test_an_assignment_of_ones_own_is_kept_or_refused_by_the_rules_of_a_mesh(
    tiny: tuple[Path, Path], tmp_path: Path
) -> None:
    again, (out, kept) = tmp_path / "again", tiny
    invoke("compile", *TINY, "--assignment", str(kept), "-o", str(again))
    chips = "chips", "period_s"
    assert [_json(out / "report.json")[key] for key in chips] == [
        _json(again / "report.json")[key] for key in chips
    ]
    file = tmp_path / "cut.csv"
    rows = kept.read_text(encoding="utf-8").splitlines()
    cells = [row.rsplit(",", 1) for row in rows[1:]]
    swapped = [f"{name},{int(chip) % 2}" for name, chip in cells]
    file.write_text("\n".join([rows[0], *swapped]) + "\n", encoding="utf-8")
    bad = ("--assignment", str(file), "-o", str(tmp_path / "bad"))
    result = CliRunner().invoke(cli, ("compile", *TINY, *bad))
    assert result.exit_code == 1
    assert "MCM-F014" in result.output
    assert "wait for each other in a circle" in result.output


@pytest.mark.parametrize("model", ["dense-cnn{image_size=16}"])
def test_more_of_a_resource_is_never_slower(model: str) -> None:
    found = compile_model(
        f"zoo:{model}",
        "acme-mesh16",
        CompileOptions(passes=UNDIVIDED_TO_SIMULATION, replicas=1, level=1),
        sensitivities=True,
    )
    rows = found.sensitivities or ()
    assert len(rows) == 10
    for row in rows:
        speedup = row["speedup"]
        assert speedup is not None
        assert speedup >= 1.0 - 1e-9 if row["factor"] > 1.0 else speedup <= 1.0 + 1e-9, row


def test_the_simulator_decides_how_many_pipelines_there_are() -> None:
    """Single pipelines simulate far above the analytic model on a mesh."""

    model, target = "zoo:gpt2-tiny", "acme-mesh16"
    asked = [throughput(model, target, count) for count in (1, 4, 16)]
    assert throughput(model, target, None) >= max(asked) * 0.995
