"""JUnit XML, which CI services show as a list of tests: one test case per model."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Sequence

from mcm_compiler.ci.batch import CompileOutcome
from mcm_compiler.ci.comparison import change_text
from mcm_compiler.diagnostics import Severity
from mcm_compiler.text.printable import printable
from mcm_compiler.text.units import count_text, percent_text, rate_text, seconds_text

SUITE = "mcmc compile"


def junit_xml(outcomes: Sequence[CompileOutcome], suite_class: str) -> bytes:
    """One test suite in UTF-8.

    Names and messages come from foreign files: what does not print is escaped, because XML 1.0
    has no way to write control characters.

    Args:
        outcomes: in the order of the report.
        suite_class: `classname` of all cases, such as the name of the target.
    """
    suite = ET.Element(
        "testsuite",
        name=SUITE,
        tests=str(len(outcomes)),
        failures=str(sum(outcome.failed for outcome in outcomes)),
        errors="0",
        skipped="0",
        time=f"{sum(outcome.seconds for outcome in outcomes):.3f}",
    )
    for outcome in outcomes:
        _add_case(suite, outcome, printable(suite_class))
    root = ET.Element("testsuites")
    root.append(suite)
    ET.indent(root)
    return ET.tostring(root, encoding="utf-8", xml_declaration=True) + b"\n"


def _add_case(suite: ET.Element, outcome: CompileOutcome, suite_class: str) -> None:
    case = ET.SubElement(
        suite,
        "testcase",
        classname=suite_class,
        name=printable(outcome.model),
        time=f"{outcome.seconds:.3f}",
    )
    errors = [d for d in outcome.diagnostics if d.severity is Severity.ERROR]
    text = [printable(line) for d in outcome.diagnostics for line in d.lines()]
    if errors:
        failure = ET.SubElement(
            case, "failure", type=errors[0].code, message=printable(errors[0].message)
        )
        failure.text = "\n".join(text)
    summary = [_summary(outcome)] if outcome.report is not None else []
    lines = summary if errors else [*summary, *text]
    if lines:
        ET.SubElement(case, "system-out").text = "\n".join(lines)


def _summary(outcome: CompileOutcome) -> str:
    report = outcome.report or {}
    parts = [
        f"throughput {rate_text(report['throughput_per_s'])}",
        f"period {seconds_text(report['period_s'])}",
        f"gap {percent_text(report['gap'])}",
        f"{count_text(report['chips_used'], 'chip')}",
    ]
    if outcome.comparison is not None:
        parts.append(f"{change_text(outcome.comparison)} against the baseline")
    return ", ".join(parts)
