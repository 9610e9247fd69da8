"""Compiles for objectives, from the command line to a check, and what is refused."""

from __future__ import annotations

import json

import pytest

from mcm_compiler.api import compile_model
from mcm_compiler.checking.check import check_folder
from mcm_compiler.diagnostics import CompileError
from mcm_compiler.options import CompileOptions

MODEL = "zoo:bert-tiny"


def compiled(tmp_path, **options):
    folder = tmp_path / "out"
    compile_model(MODEL, "mcm4", CompileOptions(level=1, **options), output=folder)
    return folder, json.loads((folder / "report.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    "options",
    [
        {"objective": "latency"},
        {"max_latency_s": 1.0},
        {"objective": "chips", "throughput": 100.0},
        {"objective": "energy"},
    ],
)
def test_an_objective_is_reported_and_proven_again(tmp_path, options):
    folder, report = compiled(tmp_path, **options)
    facts = report["objective"]
    assert facts["bound"] <= facts["value"]
    assert facts["analytic_latency_s"] > 0
    assert facts["simulated_latency_s"] > 0
    assert "one inference" in (folder / "report.md").read_text(encoding="utf-8")
    assert check_folder(folder).holds
    certificate = folder / "certificate.json"
    data = json.loads(certificate.read_text(encoding="utf-8"))
    data["objective"]["value"] *= 1.5
    from mcm_compiler.certificate.files import read_certificate
    from mcm_compiler.certificate.objective_check import check_objective
    from mcm_compiler.components.target_loading import load_target

    certificate.write_text(json.dumps(data), encoding="utf-8")
    changed = read_certificate(folder)
    with pytest.raises(CompileError, match="MCM-V075"):
        check_objective(changed, changed.figures, load_target("mcm4").limits)


def test_the_plain_period_says_nothing_of_objectives(tmp_path):
    folder, report = compiled(tmp_path)
    assert "objective" not in report
    assert "objective" not in report["options"]
    assert "objective" not in json.loads((folder / "certificate.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    ("options", "code", "told"),
    [
        ({"objective": "latency", "partitioner": "dp"}, "MCM-P060", "frontier"),
        ({"max_latency_s": 1e-9}, "MCM-P062", "no placement answers"),
        ({"objective": "chips", "throughput": 1e12}, "MCM-P063", "no number of chips"),
    ],
)
def test_what_cannot_be_is_refused(tmp_path, options, code, told):
    with pytest.raises(CompileError, match=code) as error:
        compiled(tmp_path, **options)
    assert told in str(error.value) or told in str(error.value.diagnostics[0].hint)
    assert not (tmp_path / "out").exists()


def test_the_energy_is_that_which_the_report_counts(tmp_path):
    _, report = compiled(tmp_path, objective="energy", replicas=1)
    facts = report["objective"]
    assert facts["unit"] == "J"
    # The one counts units and ways before anything is lowered, the other kernels and transfers.
    assert facts["value"] == pytest.approx(report["energy"]["total_j"], rel=1e-9)
    assert facts["gap"] == pytest.approx(0.0, abs=1e-6)


def test_changed_energies_are_found(tmp_path):
    import dataclasses

    from mcm_compiler.certificate.files import read_certificate, write_certificate

    folder, _ = compiled(tmp_path, objective="energy")
    certificate = read_certificate(folder)
    energy = certificate.problem.energy
    for changed in (None, dataclasses.replace(energy, unit_j=energy.unit_j * 0.5)):
        problem = dataclasses.replace(certificate.problem, energy=changed)
        write_certificate(folder, dataclasses.replace(certificate, problem=problem))
        assert not check_folder(folder).holds


def test_other_families_are_refused_by_name(tmp_path):
    for options in ({"objective": "latency"}, {"objective": "energy"}, {"max_latency_s": 1.0}):
        with pytest.raises(CompileError, match="MCM-P061") as error:
            compile_model(MODEL, "acme-mesh16", CompileOptions(**options), output=tmp_path / "out")
        assert "acme" in str(error.value)
        assert not (tmp_path / "out").exists()


def test_a_target_without_prices_is_refused(tmp_path):
    with pytest.raises(CompileError, match="MCM-P064"):
        compile_model(MODEL, "acme8", CompileOptions(objective="energy"), output=tmp_path / "out")
