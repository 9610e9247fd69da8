"""The report in the terminal and as Markdown."""

from __future__ import annotations

import copy
import os
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from mcm_compiler.report.chip_bars import MAX_CHIPS
from mcm_compiler.report.markdown import LISTED, MOST_LINES, render_markdown
from mcm_compiler.report.report_data import build_report
from mcm_compiler.report.terminal import PLAIN_WIDTH, plain_text, report_text, report_view
from mcm_compiler.report.verdict.words import verification_sentence
from mcm_compiler.text.styled import coloured_lines, plain_lines
from mcm_compiler.text.units import printable, printable_data
from tests.generators.example_result import bare_result, example_result

GOLDEN = Path(__file__).parents[3] / "golden" / "report"
UPDATE = "MCM_UPDATE_GOLDEN"


@pytest.fixture
def report() -> dict[str, Any]:
    data = build_report(example_result())
    data["versions"] = dict.fromkeys(data["versions"], "1.2.3")
    return data


@pytest.mark.parametrize("name", ["terminal.txt", "terminal_ascii.txt", "report.md"])
def test_golden(name: str, report: dict[str, Any]) -> None:
    text = {
        "terminal.txt": lambda: report_text(report),
        "terminal_ascii.txt": lambda: report_text(report, ascii_only=True),
        "report.md": lambda: render_markdown(report),
    }[name]()
    path = GOLDEN / name
    if os.environ.get(UPDATE):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8"), f"set {UPDATE}=1 to accept the new text"


def test_plain_output_has_a_fixed_width_and_no_control_characters(report: dict[str, Any]) -> None:
    for ascii_only in (False, True):
        text = report_text(report, ascii_only=ascii_only)
        assert all(line.isprintable() and len(line) <= PLAIN_WIDTH for line in text.splitlines())
        assert text.isascii() or not ascii_only


def test_a_terminal_gets_colours(report: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    plain = plain_lines(report_view(report), 100)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    lines = coloured_lines(report_view(report), 100)
    assert any("\x1b[1;32m" in line for line in lines)
    assert [re.sub(r"\x1b\[[0-9;]*m", "", line).rstrip() for line in lines] == plain
    monkeypatch.setenv("NO_COLOR", "1")
    assert coloured_lines(report_view(report), 100) == plain


@pytest.mark.parametrize("width", [72, 80, 97, 120])
def test_the_table_fits_the_width(report: dict[str, Any], width: int) -> None:
    for row in report["chips"]:
        row["ops"] = 12_345
    lines = plain_lines(report_view(report, width=width), width)
    assert all(len(line) <= width for line in lines)
    assert any("99.9 %" in line and "24.0 MiB" in line and "390.6 KiB" in line for line in lines)


QUANTITY = re.compile(r"\d[\d,.]*(?: (?:[KMGT]iB|B|s|ms|us|ns|%|inferences/s)(?!\w))?")


@pytest.mark.parametrize("ascii_only", [False, True])
@pytest.mark.parametrize("width", [20, 21, 25, 30, 35, 40, 47, 55, 60, 71, 90, 150, 200])
def test_numbers_are_whole_in_every_width(
    report: dict[str, Any], width: int, ascii_only: bool
) -> None:
    report["chips"][0]["ops"] = 12_345
    report["diagnostics"] = []
    shown = _lines_at(report, width, ascii_only)
    assert all(len(line) <= width for line in shown), shown
    found = Counter(QUANTITY.findall("\n".join(shown)))
    # Waits are left out where there is no room for them.
    of_waits = Counter({"0.0 %": 99, "0.1 %": 99})
    wide = Counter(QUANTITY.findall(report_text(report)))
    assert not wide - found - of_waits - Counter({"40.0 %": 1}), wide - found


def _lines_at(report: dict[str, Any], width: int, ascii_only: bool) -> list[str]:
    return plain_lines(report_view(report, width=width, ascii_only=ascii_only), width)


def test_the_chips_in_narrow_terminals(report: dict[str, Any]) -> None:
    lines = _lines_at(report, 60, False)
    assert any(re.match(r" +1 +99.9 % +24.0 MiB +6 +10.0 % 390.6 KiB$", x) for x in lines), lines
    lines = _lines_at(report, 40, False)
    start = lines.index(" chip 1")
    assert lines[start + 1 : start + 4] == [
        "  busy   99.9 %",
        "  waits  link 0.1 %",
        "  SRAM   24.0 MiB",
    ]


def test_36_chips_take_a_line_each(report: dict[str, Any]) -> None:
    row = report["chips"][0]
    report["chips"] = [dict(row, chip=chip, heaviest_op=None) for chip in range(36)]
    lines = report_text(report).splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith(" chip "))
    assert [line.split()[0] for line in lines[start + 2 : start + 38]] == list(map(str, range(36)))


def test_large_packages_show_their_busiest_chips(report: dict[str, Any]) -> None:
    row = report["chips"][0]
    total = MAX_CHIPS + 10
    report["chips"] = [dict(row, chip=chip, busy_s=chip * 1e-6) for chip in range(total)]
    text = report_text(report)
    assert "10 less busy chips are left out" in text
    assert f"\n   {total - 1} " in text
    assert "\n    9 " not in text


def test_the_bars_show_the_share(report: dict[str, Any]) -> None:
    lines = report_text(report, ascii_only=True).splitlines()
    counts = {
        line.split()[0]: line.split("|")[1].count("#")
        for line in lines
        if line.count("|") == 5 and line.split()[0].isdigit()
    }
    assert counts == {"0": 6, "1": 12, "2": 9}


def test_what_chips_wait_for_where_there_is_room(report: dict[str, Any]) -> None:
    lines = report_text(report).splitlines()
    rows = {line.split()[0]: line for line in lines if line[:5].strip().isdigit()}
    assert "buffer  52.0 %" in rows["0"]
    assert "link     0.1 %" in rows["1"]
    report["chips"][1]["stall_s"]["link"] = 1e-9
    assert "link     0.0 %" not in report_text(report)
    assert "waits for" not in "\n".join(plain_lines(report_view(report, width=80), 80))


def test_channels_from_off_package_memory_have_a_line(report: dict[str, Any]) -> None:
    assert "off-package" not in report_text(report)
    link = dict(report["links"][0], source=-2, destination=1, utilisation=0.5)
    report["links"].append(link)
    assert " off-package  into chip 1 50.0 % (293.0 KiB)\n" in report_text(report)
    assert "| off-package memory | chip 1 |" in render_markdown(report)


def test_reports_of_the_first_release_render(report: dict[str, Any]) -> None:
    del report["steady_from"]
    del report["bottleneck"]["moves"]
    del report["bottleneck"]["sets_period"]
    for row in report["chips"]:
        del row["engine_s"], row["engine_utilisation"]
    for row in report["links"]:
        del row["queue_s"]
    assert "99.9 %" in report_text(report)
    assert "| chip 1 | chip 2 |" in render_markdown(report)


def test_kernels_without_times_of_engines_say_so(report: dict[str, Any]) -> None:
    for op in report["bottleneck"]["heaviest_ops"]:
        op.pop("engines_s", None)
    lines = report_text(report).splitlines()
    title = " longest kernels of chip 1 (no engines under the cost model 'roofline'):"
    assert title in lines


def test_over_full_memory_fills_the_bar(report: dict[str, Any]) -> None:
    report["chips"][0]["sram_high_water_bytes"] = 10**12
    assert "931.3 GiB" in report_text(report)


def test_bare_reports_render() -> None:
    report = build_report(bare_result())
    assert "not run" in report_text(report)
    assert "# zoo:example" in render_markdown(report)


def test_analytic_numbers_stand_in_where_nothing_was_simulated(report: dict[str, Any]) -> None:
    for key in ("period_s", "period_model", "gap", "throughput_per_s", "bottleneck", "links"):
        report[key] = None
    assert "not simulated; period 121 us under roofline" in report_text(report)


def test_hostile_names_stay_text(report: dict[str, Any]) -> None:
    evil = "x\x1b]0;pwned\x07\n| `a` | <img src=x> [link](http://x) \u202e[bold]"
    report["model"]["name"] = evil
    report["bottleneck"]["text"] = evil
    report["chips"][0]["heaviest_op"]["name"] = evil
    report["relays"][0]["tensor"] = evil
    report["diagnostics"][0]["message"] = evil
    text = report_text(report)
    assert all(line.isprintable() for line in text.splitlines())
    assert "[bold]" in text  # not taken for markup
    markdown = render_markdown(report)
    assert all(line.isprintable() for line in markdown.splitlines())
    assert "<img" not in markdown.replace(r"\<img", "")
    assert "[link]" not in markdown.replace(r"\[link\]", "")
    rows = [line for line in markdown.splitlines() if "pwned" in line and line.startswith("|")]
    relay = next(line for line in rows if "skip/relay" in line)
    assert relay.replace(r"\|", "").count("|") == 4


def test_long_lists_are_cut_in_markdown(report: dict[str, Any]) -> None:
    report["clones"] = [{"node": f"n{i}", "clone": f"c{i}", "chip": 1} for i in range(20)]
    markdown = render_markdown(report)
    shown = markdown.count("\n| n")
    assert shown in LISTED
    assert f"{20 - shown} more in `report.json`" in markdown


@pytest.mark.parametrize("notes", [0, 100])
def test_markdown_is_short_and_names_what_does_not_fit(report: dict[str, Any], notes: int) -> None:
    chip, link = report["chips"][1], report["links"][0]
    report["chips"] = [{**chip, "chip": k, "busy_s": 1e-6 * k} for k in range(256)]
    report["links"] = [{**link, "utilisation": 1e-3 * k} for k in range(256)]
    report["diagnostics"] *= notes
    move = {"name": "a", "ops": 1, "along": 0, "from_chip": 1, "to_chip": 0, "gain": 0.25}
    move |= {"period_s": 9e-5, "need_bytes": 1, "free_bytes": 1}
    report["bottleneck"]["moves"] = [move] * (30 if notes else 1)
    lines = render_markdown(report).splitlines()
    assert len(lines) <= MOST_LINES
    assert any(line.startswith("| 255 |") for line in lines)
    assert not any(line.startswith("| 0 |") for line in lines)
    left_out = [line for line in lines if line.startswith("Only in `report.json`: ")]
    assert bool(left_out) == bool(notes)


def test_rendering_leaves_the_report_alone(report: dict[str, Any]) -> None:
    before = copy.deepcopy(report)
    report_text(report)
    render_markdown(report)
    assert report == before


def _verdict(**changes: Any) -> dict[str, Any]:
    output = {
        "output": "y",
        "holds": True,
        "bit_equal": True,
        "max_abs_error": 0.0,
        "tolerance": 0.0,
    }
    verdict: dict[str, Any] = {
        "holds": True,
        "skipped": None,
        "seeds": [0, 1],
        "outputs": [output | changes],
        "constant_outputs": [],
    }
    verdict["holds"] = verdict["outputs"][0]["holds"]
    return verdict


def test_the_verdict_in_words() -> None:
    assert verification_sentence(None) == "not run"
    assert verification_sentence(_verdict() | {"skipped": "no weights"}) == "skipped: no weights"
    exact = "bit-identical to the source (1 output, 2 random inputs, onnxruntime); "
    exact += "at the precision of the file"
    assert verification_sentence(_verdict()) == exact
    constant = verification_sentence(_verdict() | {"constant_outputs": ["y"]})
    assert constant == f"{exact}; 1 output did not change with the input"
    near = verification_sentence(_verdict(bit_equal=False, max_abs_error=0.002, tolerance=0.01))
    assert near.startswith("within tolerance of the source, error 0.002 (1 output, ")
    wrong = verification_sentence(_verdict(bit_equal=False, holds=False, max_abs_error=None))
    assert wrong == (
        "FAILED: 1 of 1 outputs wrong on 2 random inputs, first 'y' by more than any number"
    )


def test_printable_escapes_what_does_not_print() -> None:
    assert printable("a b") == "a b"
    assert printable("a\n\x1b\u202e\ud800é") == r"a\n\x1b\u202e\ud800é"
    assert printable_data({"k\n": ["\t", 1, None]}) == {r"k\n": [r"\t", 1, None]}


def test_plain_text_ignores_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "40")
    text = plain_text(report_view(build_report(example_result())))
    assert "\x1b" not in text
    assert max(map(len, text.splitlines())) > 40


def test_moves_and_those_that_pins_are_in_the_way_of(report: dict[str, Any]) -> None:
    move = {"name": "a|<b>", "ops": 1, "along": 2, "from_chip": 1, "to_chip": 0, "gain": 0.25}
    move |= {"period_s": 9e-5, "need_bytes": 1 << 20, "free_bytes": 1 << 21}
    report["bottleneck"]["moves"] = [move, {"name": "of an earlier release", "along": 0}]
    report["bottleneck"]["pinned_moves"] = [{**move, "along": 0, "pinned": "a", "pin": "a*=1"}]
    text = render_markdown(report)
    assert r"| a\|\<b\> and 2 others | 1 | 0 | 90.0 us | 25.0 % | 1.0 MiB | 2.0 MiB |" in text
    assert r"| a\|\<b\> | 1 | 0 | 90.0 us | 25.0 % | a\*=1 |" in text
    assert "earlier release" not in text
