"""Cost models by name on packages of other families: their base takes them."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path

import pytest

from mcm_compiler import CompileOptions, compile_model, load_target
from mcm_compiler.checking.check import check_folder
from mcm_compiler.registry import TARGET_FAMILIES
from mcm_hardware.families.ring.ring_target import RingTarget
from tests.generators.small_mesh import SmallMesh

TABLE = "kernel,op_type,inputs,type,seconds\n/fc/Gemm,,,,2e-4\n,Identity,1x512,float,7e-7\n"


@pytest.fixture
def mesh(tmp_path: Path) -> Generator[Path]:
    """A description of a mesh beside a table of times."""
    TARGET_FAMILIES.add("small_mesh", SmallMesh.from_text, __name__)
    text = load_target("mcm4").source_text
    changes = {
        '"ring"': '"small_mesh"',
        "num_chips = 4": "",
        'host_io = "any"': "",
        "hop_latency_us": "latency_us",
    }
    for old, new in changes.items():
        assert old in text
        text = text.replace(old, new)
    path = tmp_path / "mesh.toml"
    mesh = "[mesh]\nrows = 2\ncolumns = 2\n"
    path.write_text(f'{text}\n{mesh}\n[cost]\nmodel = "table{{file=times.csv}}"\n')
    (tmp_path / "times.csv").write_text(TABLE)
    yield path
    TARGET_FAMILIES.remove("small_mesh")


def test_a_mesh_is_compiled_and_checked_with_measured_times(mesh: Path) -> None:
    options = CompileOptions(replicas=1, inferences=8, level=1)
    result = compile_model("zoo:plain-cnn", str(mesh), options, output=mesh.parent / "out")
    assert result.partition is not None
    assert result.simulation is not None
    assert result.program is not None
    assert result.target.cost_model().name == "table"
    durations = {k.name: k.duration_s for chip in result.program.chips for k in chip.kernels}
    assert durations["/fc/Gemm"] == 2e-4
    assert result.simulation.period_s >= result.partition.bound.seconds
    (mesh.parent / "times.csv").unlink()
    found = check_folder(mesh.parent / "out", seeds=(0,))
    assert [str(d) for d in found.diagnostics if d.severity == "error"] == []
    assert found.holds


def test_a_family_may_have_fields_of_its_own() -> None:
    @dataclass(frozen=True)
    class Labelled(RingTarget):
        label: str

    own = load_target("mcm4")
    assert isinstance(own, RingTarget)
    target = Labelled(own.name, own.spec, own.source_text, "mine")
    assert (target.label, target.cost_choice) == ("mine", None)
