"""JUnit XML, which CI services show as a list of tests: one test case per model."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mcm_compiler.ci.batch import CompileOutcome
from mcm_compiler.ci.comparison import change_text
from mcm_compiler.diagnostics import Diagnostic, Severity
from mcm_compiler.report.verdict.words import VERDICT, verdict_lines
from mcm_compiler.text.printable import printable

SUITE = "mcmc compile"


@dataclass(frozen=True)
class Case:
    """One test case.

    Attributes:
        name: of a model or a folder.
        seconds: that it took.
        diagnostics: all of them.
        summary: its figures, or None where there are none.
        failed: whether it failed.
    """

    name: str
    seconds: float
    diagnostics: tuple[Diagnostic, ...]
    summary: str | None
    failed: bool


def junit_xml(outcomes: Sequence[CompileOutcome], suite_class: str) -> bytes:
    """The suite of compiles, in UTF-8.

    Args:
        outcomes: in the order of the report.
        suite_class: `classname` of all cases, such as the name of the target.
    """
    return cases_xml(SUITE, suite_class, _cases(outcomes))


def junit_suites(groups: Mapping[str, Sequence[CompileOutcome]]) -> bytes:
    """A test suite for each group in UTF-8; its name is that of its suite and class."""
    root = ET.Element("testsuites")
    for name, outcomes in groups.items():
        _add_suite(root, printable(name), name, _cases(outcomes))
    return _encoded(root)


def _cases(outcomes: Sequence[CompileOutcome]) -> list[Case]:
    return [
        Case(
            outcome.model,
            outcome.seconds,
            outcome.diagnostics,
            _summary(outcome) if outcome.report is not None else None,
            outcome.failed,
        )
        for outcome in outcomes
    ]


def cases_xml(suite_name: str, suite_class: str, cases: Sequence[Case]) -> bytes:
    """One test suite in UTF-8.

    Names and messages come from foreign files: what does not print is escaped, because XML 1.0
    has no way to write control characters.

    Args:
        suite_name: the command.
        suite_class: `classname` of all cases.
        cases: in the order of the report.
    """
    root = ET.Element("testsuites")
    _add_suite(root, suite_name, suite_class, cases)
    return _encoded(root)


def _add_suite(root: ET.Element, suite_name: str, suite_class: str, cases: Sequence[Case]) -> None:
    suite = ET.SubElement(
        root,
        "testsuite",
        name=suite_name,
        tests=str(len(cases)),
        failures=str(sum(case.failed for case in cases)),
        errors="0",
        skipped="0",
        time=f"{sum(case.seconds for case in cases):.3f}",
    )
    for case in cases:
        _add_case(suite, case, printable(suite_class))


def _encoded(root: ET.Element) -> bytes:
    ET.indent(root)
    return ET.tostring(root, encoding="utf-8", xml_declaration=True) + b"\n"


def _add_case(suite: ET.Element, of: Case, suite_class: str) -> None:
    case = ET.SubElement(
        suite,
        "testcase",
        classname=suite_class,
        name=printable(of.name),
        time=f"{of.seconds:.3f}",
    )
    errors = [d for d in of.diagnostics if d.severity is Severity.ERROR]
    text = [printable(line) for d in of.diagnostics for line in d.lines()]
    if errors:
        failure = ET.SubElement(
            case, "failure", type=errors[0].code, message=printable(errors[0].message)
        )
        failure.text = "\n".join(text)
    summary = [of.summary] if of.summary is not None else []
    lines = summary if errors else [*summary, *text]
    if lines:
        ET.SubElement(case, "system-out").text = "\n".join(lines)


def _summary(outcome: CompileOutcome) -> str:
    verdict = (outcome.report or {})[VERDICT]
    lines = [verdict["basis"], *verdict_lines(verdict)]
    if outcome.comparison is not None:
        lines.append(f"{change_text(outcome.comparison)} against the baseline")
    return "\n".join(map(printable, lines))
