"""SARIF 2.1.0, which code scanning services show beside the lines of a change."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any
from urllib.parse import quote as percent_encoded

from mcm_compiler.diagnostics import Diagnostic, Severity
from mcm_compiler.diagnostics.catalog import catalog
from mcm_compiler.report.verdict.words import verdict_lines
from mcm_compiler.text.printable import printable

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
        diagnostic: what is told.
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
    told = finding.diagnostic
    _, *rest = told.lines()
    text = "\n".join(printable(line) for line in (f"{finding.name}: {told.message}", *rest))
    place: dict[str, Any] = {
        "artifactLocation": {"uri": uri_of(finding.file), "uriBaseId": ROOT},
    }
    if finding.line is not None:
        place["region"] = {"startLine": finding.line}
    return {
        "ruleId": told.code,
        "ruleIndex": codes.index(told.code),
        "level": told.severity.value,
        "message": {"text": text},
        "locations": [{"physicalLocation": place}],
        # The same finding of the next build is known again, wherever its line has moved.
        "partialFingerprints": {"mcmcCell/v1": f"{told.code}:{printable(finding.name)}"},
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
