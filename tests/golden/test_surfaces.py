"""Every surface shows the claims of one verdict, and a higher level contradicts none of them.

`tools/verdict_claims.py` parses numbers and claims from the texts, and does the same for
ten models on four families.
"""

from __future__ import annotations

import json
import re
from collections import Counter

import pytest

from mcm_compiler.checking.check import check_folder
from mcm_compiler.checking.entry.run_folder import read_compiled
from mcm_compiler.machines.machine import HOST
from mcm_compiler.placed.place_options import PlaceOptions
from mcm_compiler.placed.placing import place_model
from mcm_compiler.report.terminal import report_view
from mcm_compiler.text import json_text
from mcm_compiler.text.styled import plain_lines
from tools import verdict_claims
from tools.figure_mutations import rehash

MODEL = "zoo:plain-cnn{image_size=16,stages=1,blocks=1,width=16}"
QUANTITY = re.compile(r"\d(?:[\d,.]*\d)?(?: (?:[KMGT]iB|B|s|ms|us|ns|%|inferences/s)(?!\w))?")


@pytest.fixture(scope="module")
def ring(tmp_path_factory):
    return verdict_claims.pair(MODEL, "ring", tmp_path_factory.mktemp("ring"))


def test_surfaces_of_a_ring_agree_and_its_claim_is_true(ring):
    low, high = ring
    assert [*verdict_claims.faults_of(low), *verdict_claims.faults_of(high)] == []
    assert verdict_claims.bound_and_reached(low)[0] <= verdict_claims.bound_and_reached(high)[1]


def test_the_time_of_a_kernel_follows_from_its_row(ring):
    worst = json.loads((ring[0] / "report.json").read_text())["bottleneck"]
    assert 1 <= len(worst["heaviest_ops"]) <= 8
    for row in filter(lambda row: row["seconds"] > 0, worst["heaviest_ops"]):  # views take none
        assert row["seconds"] == pytest.approx(row["launch_s"] + max(row["engines_s"].values()))
        assert row["lane_ops"] > 0 or row["engines_s"]["vector"] == 0


@pytest.mark.parametrize("family", ["mesh", "fabric"])
def test_surfaces_of_other_families_agree_and_their_claims_are_true(family, tmp_path):
    low, high = verdict_claims.pair(MODEL, family, tmp_path)
    assert list(verdict_claims.faults_of(low)) == []
    assert verdict_claims.bound_and_reached(low)[0] <= verdict_claims.bound_and_reached(high)[1]
    if family == "fabric":
        report = json.loads((low / "report.json").read_text())
        # The cost model knows no places: by it alone the partition would be called optimal.
        assert report["analytic_gap"] == 0.0
        assert report["verdict"]["optimality"]["gap"] > 0.0
        assert "faster mapping" in report["bottleneck"]["text"]


def test_a_host_with_accelerators(tmp_path):
    low, high = verdict_claims.pair(MODEL, "host", tmp_path)
    bound, _ = verdict_claims.bound_and_reached(low)
    assert bound is None or bound <= verdict_claims.bound_and_reached(high)[1]
    assert [*verdict_claims.placed_faults_of(low), *verdict_claims.placed_faults_of(high)] == []


@pytest.mark.parametrize("placer", ["local_search", "single"])
def test_every_surface_of_a_placed_step_is_of_the_step_delivered(tmp_path, monkeypatch, placer):
    """The step in segments takes longer than the one whose ops are started one by one."""
    options = PlaceOptions(placer=placer, evaluations=50)
    place_model("zoo:bert-tiny", "box-2gpu", options, output=tmp_path / "out")
    assert list(verdict_claims.placed_faults_of(tmp_path / "out")) == []
    texts = verdict_claims.placed_surfaces(tmp_path / "out")
    record = json.loads((tmp_path / "out" / "placement.json").read_text())
    alone = f"{1 / record['step']['seconds']:,.4g}"
    changes = {
        "terminal": lambda text: re.sub(r"[\d,.]+ steps/s", f"{alone} steps/s", text),
        "markdown": lambda text: text.replace("(proven under the step simulator)", ""),
        "page": lambda text: text.replace("no hardware measured", ""),
        "diff": lambda text: re.sub(r"period \S+", "period 999", text),
    }
    for name, change in changes.items():
        made = {**texts, name: change(texts[name])}
        assert made != texts
        monkeypatch.setattr(verdict_claims, "placed_surfaces", lambda _, made=made: made)
        assert list(verdict_claims.placed_faults_of(tmp_path / "out")) != [], name


def test_a_table_without_a_row_is_not_whole(tmp_path, monkeypatch):
    pairs = [(m, f) for m in verdict_claims.MODELS for f in verdict_claims.TARGETS]
    rows = [{"model": m, "family": f, "true": True, "faults": []} for m, f in pairs]
    monkeypatch.setattr(verdict_claims, "DATA", tmp_path / "rows.json")
    refused = {"model": rows[0]["model"], "family": rows[0]["family"], "refused": ["MCM-P001"]}
    for stored, code in [
        (rows, 0),
        (rows[1:], 1),
        ([*rows[1:], rows[1]], 1),
        ([refused, *rows[1:]], 1),
        ([{**rows[0], "faults": ["x"]}, *rows[1:]], 1),
    ]:
        verdict_claims.DATA.write_text(json.dumps(stored))
        assert verdict_claims.main(["--check"]) == code


def test_an_unscoped_claim_and_a_wrong_number_are_found(ring, monkeypatch):
    low, _ = ring
    text = verdict_claims.surfaces(low)["terminal"]
    report = json.loads((low / "report.json").read_text())
    for changed in (
        text + " under the cost model no placement is faster",
        text + " 1 output equal to the bit",
        text.replace("(proven under the analytic cost model 'cycles')", ""),
        text.replace("inferences/s", "inferences/s", 1).replace(
            f"{report['throughput_per_s']:,.0f}", "17"
        ),
        text.replace("(one inference, empty package)", ""),
        text.replace("chips store", "keep"),
    ):
        assert changed != text
        monkeypatch.setattr(verdict_claims, "surfaces", lambda _, made=changed: {"terminal": made})
        assert list(verdict_claims.faults_of(low)) != []


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (("lines", 2, "headline"), "optimal"),
        (("optimality", "scope"), ["everything"]),
        (("rate", "latency_load"), "full package"),
        (("fit", "stored_widths"), []),
        (("verified", "ops_matched"), 99),
    ],
)
def test_no_claim_of_a_folder_can_be_altered_unnoticed(ring, place, value, tmp_path):
    low, _ = ring
    folder = tmp_path / "out"
    folder.mkdir()
    for path in low.iterdir():
        (folder / path.name).write_bytes(path.read_bytes())
    report = json.loads((folder / "report.json").read_text())
    *way, last = place
    at = report["verdict"]
    for key in way:
        at = at[key]
    at[last] = value
    json_text.write(folder / "report.json", report)
    rehash(folder)
    faults = check_folder(folder, seeds=(0,)).diagnostics
    assert {d.code for d in faults} == {"MCM-V073"}
    assert "verdict." in faults[0].message


def test_the_latency_is_that_of_one_inference_in_an_empty_package(ring):
    _, folder = ring
    compiled = read_compiled(folder)
    simulator = compiled.target.simulator()
    lone, loaded = (simulator.timeline(compiled.program, count) for count in (1, 32))
    # What follows does not slow the first one down, which therefore has the package for itself.
    assert (lone.kernel_start_s[0] == loaded.kernel_start_s[0]).all()
    assert (lone.hop_start_s[0] == loaded.hop_start_s[0]).all()
    ends = [
        start + hop.busy_s + hop.latency_s
        for start, hop in zip(lone.hop_start_s[0].tolist(), lone.hops, strict=True)
        if hop.destination == HOST
    ]
    report = json.loads((folder / "report.json").read_text())
    assert report["latency_s"] == max(ends)


def test_no_number_is_cut_at_any_width(ring):
    low, _ = ring
    report = json.loads((low / "report.json").read_text())
    row = {"resource": "vector lanes", "factor": 2.0, "keys": {}, "speedup": 1.25, "faults": [],
           "throughput_per_s": 1234567.0, "period_s": 8.1e-7, "lower_bound_s": 7.9e-7,
           "gap": 0.0253, "latency_s": 4.56e-6, "energy_j": 1.23e-3}  # fmt: skip
    report["sensitivities"] = [row, {**row, "factor": 0.5, "speedup": 0.5}]
    wide = Counter(QUANTITY.findall("\n".join(plain_lines(report_view(report, width=200), 200))))
    for width in range(40, 201):
        lines = plain_lines(report_view(report, width=width), width)
        assert all(len(line) <= width for line in lines)
        missing = wide - Counter(QUANTITY.findall("\n".join(lines)))
        # What chips wait for is left out where there is no room for it.
        assert all(amount.endswith("%") for amount in missing), (width, missing)
        assert sum(missing.values()) <= len(report["chips"]), (width, missing)
