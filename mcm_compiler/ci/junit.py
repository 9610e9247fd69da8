"""Results for CI services: JUnit XML, a list of tests, and SARIF 2.1.0 for code scanning."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any
from urllib.parse import quote as percent_encoded

from mcm_compiler.ci.batch import CompileOutcome
from mcm_compiler.ci.comparison import change_text
from mcm_compiler.diagnostics import Diagnostic, Severity
from mcm_compiler.diagnostics.catalog import catalog
from mcm_compiler.report.verdict.words import VERDICT, verdict_lines
from mcm_compiler.text.units import printable

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


def junit_xml(suites: Iterable[tuple[str, str, Sequence[Case]]]) -> bytes:
    """Test suites in UTF-8.

    Names and messages come from foreign files: what does not print is escaped, because XML 1.0
    has no way to write control characters.

    Args:
        suites: of each the name, the class of its cases, and these.
    """
    root = ET.Element("testsuites")
    for name, suite_class, cases in suites:
        suite = ET.SubElement(
            root,
            "testsuite",
            name=printable(name),
            tests=str(len(cases)),
            failures=str(sum(case.failed for case in cases)),
            errors="0",
            skipped="0",
            time=f"{sum(case.seconds for case in cases):.3f}",
        )
        for case in cases:
            _add_case(suite, case, printable(suite_class))
    ET.indent(root)
    return ET.tostring(root, encoding="utf-8", xml_declaration=True) + b"\n"


def compile_cases(outcomes: Iterable[CompileOutcome]) -> list[Case]:
    """A case for each model."""
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


def _add_case(suite: ET.Element, of: Case, suite_class: str) -> None:
    case = ET.SubElement(
        suite, "testcase", classname=suite_class, name=printable(of.name), time=f"{of.seconds:.3f}"
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


SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
VERSION = "2.1.0"
ROOT = "%SRCROOT%"

MAX_RESULTS = 25_000
"""As many as services take of a run; errors come first."""

_RANKS = {Severity.ERROR: 0, Severity.WARNING: 1, Severity.NOTE: 2}


@dataclass(frozen=True)
class Finding:
    """A diagnostic and where it is shown.

    Attributes:
        diagnostic: the finding.
        file: its path from the root of the sources, with `/`.
        line: in that file, from 1; None for a file without lines.
        name: of the cell or model that it is about.
    """

    diagnostic: Diagnostic
    file: str
    line: int | None
    name: str


def sarif_log(
    findings: Iterable[Finding],
    version: str,
    verdicts: Mapping[str, Mapping[str, Any]] = MappingProxyType({}),
) -> dict[str, Any]:
    """A log with one run of the compiler.

    Args:
        findings: in the order of the report.
        version: of the compiler.
        verdicts: of what was compiled, by name; they are properties of the run.
    """
    ranked = sorted(findings, key=lambda finding: _RANKS[finding.diagnostic.severity])
    shown = ranked[:MAX_RESULTS]
    codes = list(dict.fromkeys(finding.diagnostic.code for finding in shown))
    return {
        "$schema": SCHEMA,
        "version": VERSION,
        "runs": [
            {
                "tool": {
                    "driver": {
                        "name": "mcmc",
                        "version": version,
                        "rules": [_rule(code) for code in codes],
                    }
                },
                "columnKind": "unicodeCodePoints",
                "results": [_result(finding, codes) for finding in shown],
                "properties": {
                    "verdicts": {
                        printable(name): [printable(verdict["basis"])]
                        + [printable(line) for line in verdict_lines(verdict)]
                        for name, verdict in verdicts.items()
                    }
                },
            }
        ],
    }


def _rule(code: str) -> dict[str, Any]:
    entry = catalog().get(code)
    if entry is None:  # of a plug-in
        return {"id": code}
    return {
        "id": code,
        "shortDescription": {"text": entry.title},
        "fullDescription": {"text": entry.explanation},
        "help": {"text": entry.remedy},
    }


def _result(finding: Finding, codes: list[str]) -> dict[str, Any]:
    found = finding.diagnostic
    _, *rest = found.lines()
    text = "\n".join(printable(line) for line in (f"{finding.name}: {found.message}", *rest))
    place: dict[str, Any] = {"artifactLocation": {"uri": uri_of(finding.file), "uriBaseId": ROOT}}
    if finding.line is not None:
        place["region"] = {"startLine": finding.line}
    return {
        "ruleId": found.code,
        "ruleIndex": codes.index(found.code),
        "level": found.severity.value,
        "message": {"text": text},
        "locations": [{"physicalLocation": place}],
        # The same finding of the next build is known again, wherever its line has moved.
        "partialFingerprints": {"mcmcCell/v1": f"{found.code}:{printable(finding.name)}"},
    }


def uri_of(path: str) -> str:
    """A relative path as a URI reference."""
    return percent_encoded(path.encode("utf-8", "surrogateescape"), safe="/._-~")


_PLACE = re.compile(r"(?P<file>[^,:\n]+\.toml):(?P<line>[0-9]{1,9})(?::|$|,)")


def place_in_file(at: str | None, files: Mapping[str, str]) -> tuple[str, int] | None:
    """The file and line that the place of a diagnostic names, if the file is one of `files`.

    Args:
        at: such as `a/mcm4, mcmc.toml:7: 'models'`.
        files: their paths from the root of the sources, by the name in places.
    """
    for found in _PLACE.finditer(at or ""):
        name = found["file"].strip()
        if name in files and int(found["line"]) > 0:
            return files[name], int(found["line"])
    return None
