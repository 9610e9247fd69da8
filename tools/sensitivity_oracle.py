"""Sensitivities of real models against compiles for a target that was changed in a text editor.

    python tools/sensitivity_oracle.py               ResNet-50 and MobileNetV2
    python tools/sensitivity_oracle.py plain-cnn     another model of the zoo

Each row of `mcmc compile --sensitivities` is held against `mcmc compile --target FILE`, in a
process of its own, with the line of that resource changed in the description of mcm36. Writes
tools/data/sensitivities.json. Exits with 1 where a figure is another.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from mcm_compiler.components.target_loading import load_target  # noqa: E402
from tests.generators.changed_targets import LINES, changed_target  # noqa: E402

MODELS = ("resnet50", "mobilenet-v2")
TARGET = "mcm36"
FACTORS = (2.0, 0.5)
FIGURES = ("period_s", "throughput_per_s", "latency_s", "lower_bound_s", "bound_proof", "gap")
PROVEN = ("lower_bound_s", "bound_proof")
"""Those that no start of the search changes; where a row is faster only they are compared."""

RECORD = ROOT / "tools" / "data" / "sensitivities.json"
MCMC = Path(sys.executable).with_name("mcmc")


def report(folder: Path, model: str, target: str, *options: str) -> dict[str, Any]:
    """The report of a compile."""
    command = [str(MCMC), "compile", f"zoo:{model}", "--target", target, "-o", str(folder)]
    subprocess.run([*command, "--force", *options], check=True, capture_output=True)
    return json.loads((folder / "report.json").read_text("utf-8"))


def differences(model: str, folder: Path) -> tuple[int, list[str]]:
    """How many figures were compared, and those that differ."""
    whole = report(folder / "plain", model, TARGET, "--sensitivities")
    rows = {(row["resource"], row["factor"]): row for row in whole["sensitivities"]}
    text, compared, found = load_target(TARGET).source_text, 0, list[str]()
    for resource in LINES:
        for factor in FACTORS:
            (file := folder / f"{TARGET}.toml").write_text(changed_target(text, resource, factor))
            alone, row = report(folder / "changed", model, str(file)), rows[resource, factor]
            for figure in FIGURES:
                compared += 1
                faster = row["period_s"] < alone["period_s"] and figure not in PROVEN
                if row[figure] != alone[figure] and not faster:
                    found.append(f"{factor} {resource}: {figure} {row[figure]} {alone[figure]}")
    return compared, found


def main() -> int:
    """Compares; the exit status."""
    models = tuple(sys.argv[1:]) or MODELS
    record: dict[str, Any] = {"target": TARGET, "figures": FIGURES, "models": {}}
    wrong = False
    for model in models:
        with tempfile.TemporaryDirectory(prefix="mcm-sensitivities-") as name:
            compared, found = differences(model, Path(name))
        record["models"][model] = {"compared": compared, "different": found}
        print(model, f"{compared - len(found)} of {compared} figures equal", *found, sep="\n  ")
        wrong |= bool(found)
    if models == MODELS:
        RECORD.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    return int(wrong)


if __name__ == "__main__":
    sys.exit(main())
