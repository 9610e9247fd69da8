"""Checks gradients against central differences in double precision.

    python tools/check_gradients.py --cases [--word WORD] [--update]
    python tools/check_gradients.py --zoo [--word WORD] [--update]

`--cases` takes onnx's backend test cases: of those whose inputs of floating point reach an output,
how many have a gradient that passes. `--zoo` takes the models of the zoo, with a loss added.
`--update` writes the tables to tools/data/gradients.json. Exit code 1 if a gradient is wrong.
"""

from __future__ import annotations

import argparse
import importlib
import json
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent / "bench"))

from gradient_checks.cases import BROKEN, NOT_RUN, PASSED, WRONG, Verdict, judge_all, share
from gradient_checks.zoo import MODELS, ZooVerdict, judge_model

DATA = Path(__file__).parent / "data" / "gradients.json"
CATEGORIES = ("node", "simple", "pytorch-operator", "pytorch-converted")
"""Light models bring no inputs."""


def check_cases(word: str) -> tuple[dict[str, Any], bool]:
    """The table of operators, and whether no gradient is wrong."""
    collection = importlib.import_module("backend_cases.collection")
    cases = [case for case in collection.collect(False) if case.category in CATEGORIES]
    verdicts = judge_all(cases, word)
    for one in verdicts:
        if one.verdict in (WRONG, BROKEN) or (word and one.verdict != PASSED):
            print(f"{one.verdict}: {one.category}/{one.name} ({one.op_type}): {one.reason} "
                  f"[{one.engine}]")  # fmt: skip
    passed, counted = share(verdicts)
    print(f"{passed} of {counted} cases with a gradient pass ({passed / max(counted, 1):.1%})")
    return {
        "passed": passed,
        "counted": counted,
        "by_verdict": _counts(verdicts),
        "operators": _operators(verdicts),
    }, all(one.verdict not in (WRONG, BROKEN) for one in verdicts)


def check_zoo(word: str) -> tuple[dict[str, Any], bool]:
    """The table of models, and whether all pass."""
    verdicts: list[ZooVerdict] = []
    for spec in MODELS:
        if word in spec:
            verdicts.append(one := judge_model(spec))
            print(f"{'passed' if one.passed else 'wrong'}: {one.model}: {one.ops:,} ops, "
                  f"{one.gradient_ops:,} of gradients of {one.variables} weights, relative error "
                  f"{one.error:.1e} [{one.engine}], {one.seconds:.1f} s", flush=True)  # fmt: skip
    passed = sum(one.passed for one in verdicts)
    print(f"{passed} of {len(verdicts)} models pass")
    table = {"passed": passed, "models": {one.model: one.to_dict() for one in verdicts}}
    return table, passed == len(verdicts)


def _counts(verdicts: list[Verdict]) -> dict[str, int]:
    counts: dict[str, int] = defaultdict(int)
    for one in verdicts:
        counts[one.verdict] += 1
    return dict(sorted(counts.items()))


def _operators(verdicts: list[Verdict]) -> dict[str, dict[str, Any]]:
    """For each operator how many cases came out how, and the first reason against one."""
    found: dict[str, dict[str, Any]] = {}
    for one in sorted(verdicts, key=lambda one: one.op_type):
        entry = found.setdefault(one.op_type, {})
        entry[one.verdict] = entry.get(one.verdict, 0) + 1
        if one.verdict not in (PASSED, NOT_RUN) and "reason" not in entry:
            entry["reason"] = one.reason
    return found


def _versions() -> dict[str, str]:
    import numpy
    import onnx
    import onnxruntime

    return {module.__name__: module.__version__ for module in (numpy, onnx, onnxruntime)}


def _write(part: str, table: dict[str, Any]) -> None:
    data = json.loads(DATA.read_text()) if DATA.exists() else {}
    command = f"python tools/check_gradients.py --{part} --update"
    data[part] = {"command": command, "versions": _versions(), **table}
    DATA.write_text(json.dumps(data, indent=1, sort_keys=True) + "\n")


def main() -> int:
    """Prints what is wrong, and counts."""
    parser = argparse.ArgumentParser(description="Checks gradients against differences.")
    parser.add_argument("--cases", action="store_true", help="onnx's backend cases")
    parser.add_argument("--zoo", action="store_true", help="models of the zoo")
    parser.add_argument("--word", default="", help="a part of the name, or an operator")
    parser.add_argument("--update", action="store_true", help="write the tables")
    arguments = parser.parse_args()
    right = True
    if arguments.cases:
        table, right = check_cases(arguments.word)
        if arguments.update and not arguments.word:
            _write("cases", table)
    if arguments.zoo:
        table, passed = check_zoo(arguments.word)
        right = right and passed
        if arguments.update and not arguments.word:
            _write("zoo", table)
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
