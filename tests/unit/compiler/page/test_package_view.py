import copy

import pytest

from mcm_compiler.page.contents import Compiled
from mcm_compiler.page.package_view import package_section
from mcm_compiler.report.verdict.bottleneck_line import ENGINES
from mcm_hardware.families.package.package_target import TopologyPackage, mixed16


def data_of(compiled):
    return package_section(compiled).view.data


def test_chips_are_as_busy_as_the_report_says(chain):
    data = data_of(chain)
    busy = {row["chip"]: row["utilisation"] for row in chain.report["chips"]}
    assert [chip["busy"] for chip in data["chips"]] == [busy.get(i) for i in range(4)]
    worst = [i for i, chip in enumerate(data["chips"]) if chip["worst"]]
    assert worst == [chain.report["bottleneck"]["chip"]]
    assert data["shape"] == "grid"


def test_a_chip_is_a_strip_of_what_its_engines_and_its_memory_take(chain):
    data = data_of(chain)
    assert set(data["engines"]) <= {*ENGINES.values()}
    for row in chain.report["chips"]:
        chip = data["chips"][row["chip"]]
        assert sum(chip["parts"]) == pytest.approx(chip["busy"], abs=1e-5)
        assert len(chip["parts"]) == len(data["engines"])
        used = row["sram_high_water_bytes"] / row["sram_bytes"]
        assert chip["memory"] == pytest.approx(used, abs=1e-6)


def test_all_pipelines_are_drawn_with_what_their_chips_and_links_do(pair):
    data = data_of(pair)
    report = pair.report
    assert report["replication"]["replicas"] == data["pipelines"] == 2
    each = report["replication"]["chips_each"]
    rows = {row["chip"]: row for row in report["chips"]}
    for role in report["replication"]["chips"]:
        chip = data["chips"][role["chip"]]
        assert (chip["pipeline"], chip["runs"]) == (role["pipeline"], role["runs"])
        assert chip["busy"] == rows[role["runs"]]["utilisation"]
    drawn = {(k["from"], k["to"]): k["busy"] for k in data["links"] if k["busy"] is not None}
    expected = {}
    for row in report["links"]:
        for first in (0, each):
            ends = (e + first if e >= 0 else e for e in (row["source"], row["destination"]))
            expected[tuple(ends)] = row["utilisation"]
    assert drawn == expected


def test_a_channel_that_all_chips_share_is_drawn_once(pair):
    report = copy.deepcopy(dict(pair.report))
    shared = {**report["links"][0], "source": -3, "destination": -1}
    report["links"] = [*report["links"], shared]
    links = data_of(Compiled(report, pair.folder))["links"]
    assert sum(1 for link in links if (link["from"], link["to"]) == (-3, -1)) == 1


def test_a_report_by_itself_has_the_row_that_it_is_about(chain):
    alone = data_of(Compiled(chain.report))
    assert alone["places"] == data_of(chain)["places"]
    assert alone["chips"] == data_of(chain)["chips"]


def test_chips_of_several_kinds_have_their_kind(chain):
    text = mixed16().source_text.replace("[4, 4]", "[2, 2]").replace('["8-15"]', "[1, 2]")
    mixed = Compiled(chain.report)
    vars(mixed)["target"] = TopologyPackage.from_text("mixed4", text)
    assert data_of(mixed)["kinds"] == ["big", "small", "small", "big"]
    details, (chips, _) = data_of(mixed)["details"], package_section(mixed).tables
    assert [details[str(chip)][0] for chip in range(4)] == [
        ["kind", kind] for kind in ("big", "small", "small", "big")
    ]
    assert [row[:2] for row in chips.rows] == [
        ("0", "big"), ("1", "small"), ("2", "small"), ("3", "big")
    ]  # fmt: skip
    assert len(chips.heads) == len(chips.rows[0])


def test_the_busiest_link_is_named(chain):
    rows = [
        {**chain.report["links"][0], "source": a, "destination": b, "utilisation": share}
        for a, b, share in ((0, 1, 0.25), (1, -3, 0.5), (-2, 1, None))
    ]
    section = package_section(Compiled({**chain.report, "links": rows}))
    assert "The busiest link leads from chip 1 to the host and is busy 50.0 %." in section.lead[0]


def test_there_is_no_map_of_nothing(chain):
    assert package_section(Compiled({**chain.report, "chips": None})) is None
