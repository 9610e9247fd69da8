from mcm_compiler.page.compiled_page import diagnostics_section, files_section
from mcm_compiler.page.contents import Compiled
from mcm_compiler.text.units import bytes_text


def test_every_file_is_listed_with_the_chips_that_it_runs_on(pair):
    rows = files_section(pair).tables[0].rows
    assert [row[0] for row in rows] == [entry.file for entry in pair.folder.manifest.chips]
    for row, entry in zip(rows, pair.folder.manifest.chips, strict=True):
        roles = pair.report["replication"]["chips"]
        assert row[1] == ", ".join(str(r["chip"]) for r in roles if r["runs"] == entry.chip)
        (chip,) = (r for r in pair.report["chips"] if r["chip"] == entry.chip)
        assert row[5] == bytes_text(chip["weight_bytes"])
        assert int(row[6]) == len(entry.order)


def test_a_report_by_itself_has_no_files(pair):
    assert files_section(Compiled(pair.report)) is None


def test_diagnostics_are_told_with_what_to_do(pair):
    told = {"severity": "warning", "code": "MCM-X001", "message": "m", "at": None, "hint": "h"}
    section = diagnostics_section(Compiled({**pair.report, "diagnostics": [told]}))
    assert section.tables[0].rows == (("warning", "MCM-X001", "m", "-", "h"),)
    assert diagnostics_section(Compiled({**pair.report, "diagnostics": []})) is None
