"""Prints what the tests reach, a row for each package, from a report of coverage.py in JSON.

    make coverage

Functions that numba compiles run unseen and are left out; see `[tool.coverage.report]` in
`pyproject.toml`.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

PACKAGES = ("mcm_compiler", "mcm_hardware", "mcm_passes", "mcm_models")


def table(files: Mapping[str, Mapping[str, Any]]) -> str:
    """Statements and branches by package in Markdown.

    Args:
        files: `summary` of each file by its path from the root of the repository.
    """
    sums = {package: Counter[str]() for package in PACKAGES}
    for path, found in files.items():
        package = next(name for name in PACKAGES if name in Path(path).parts)
        sums[package].update({k: v for k, v in found["summary"].items() if k in _COUNTED})
    return "\n".join(_lines(sums)) + "\n"


_COUNTED = {"num_statements", "covered_lines", "num_branches", "covered_branches"}


def _lines(sums: Mapping[str, Counter[str]]) -> Iterator[str]:
    yield "| package | statements | reached | branches | taken |"
    yield "|---|---:|---:|---:|---:|"
    for name, counts in (*sums.items(), ("all", sum(sums.values(), Counter[str]()))):
        statements, branches = counts["num_statements"], counts["num_branches"]
        reached = counts["covered_lines"] / max(statements, 1)
        taken = counts["covered_branches"] / max(branches, 1)
        yield f"| {name} | {statements:,} | {reached:.1%} | {branches:,} | {taken:.1%} |"


def main(arguments: Sequence[str] | None = None) -> None:
    """Prints the table of a report."""
    parser = argparse.ArgumentParser(description="Coverage by package, from a report in JSON.")
    parser.add_argument("report", type=Path, help="what `--cov-report=json:FILE` wrote")
    report = json.loads(parser.parse_args(arguments).report.read_text(encoding="utf-8"))
    print(table(report["files"]), end="")


if __name__ == "__main__":
    main()
