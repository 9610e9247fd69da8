"""CPU time and periods of compiles at `-O2`, compared with those of another version's `mcmc`.

    python tools/bench/level_speed.py --base OTHER/.venv/bin/mcmc
    python tools/bench/level_speed.py --base OTHER/.venv/bin/mcmc --quick    two models, once

Twelve models of the zoo, with the default number of replicas and with one, on mcm36. The two
versions run in turn, after one run each that is not counted; a row has medians of CPU seconds.
Exits with 1 where all rows together take more than 0.75 of the other's CPU time, or a period is
more than 0.05 % longer. Without `--quick` it writes tools/bench/data/level_speed.json.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from harness.children import MCMC, run_child

RECORD = Path(__file__).resolve().parent / "data" / "level_speed.json"
MODELS = (
    "bert-base{shape_only=true}",
    "bert-large{shape_only=true}",
    "dense-cnn",
    "gnmt{shape_only=true}",
    "gpt2{shape_only=true}",
    "lstm-lm",
    "mobilenet-v2{shape_only=true}",
    "nmt{shape_only=true}",
    "stacked-rnn",
    "t5-small{shape_only=true}",
    "unet-cnn",
    "vgg19{shape_only=true}",
)
QUICK = ("dense-cnn", "lstm-lm")
OPTIONS: tuple[tuple[str, ...], ...] = ((), ("--replicas", "1"))
CPU_BAR, PERIOD_BAR = 0.75, 5e-4


def main(arguments: Sequence[str] | None = None) -> int:
    """Compares; the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--quick", action="store_true", help="only a part, once")
    parser.add_argument("--base", type=Path, help="mcmc of the version to compare with")
    parser.add_argument("--repetitions", type=int, default=3, help="counted runs [default: 3]")
    asked = parser.parse_args(arguments)
    if asked.base is None:
        parser.error("--base is missing")
    programs = (asked.base.resolve(), MCMC)
    repetitions = 1 if asked.quick else asked.repetitions
    rows: list[dict[str, Any]] = []
    for model in QUICK if asked.quick else MODELS:
        for options in OPTIONS:
            rows.append(_row(programs, model, options, repetitions))
            if not asked.json:
                print(json.dumps(rows[-1]), flush=True)
    share = sum(row["cpu_s"] for row in rows) / sum(row["base_cpu_s"] for row in rows)
    longest = max(row["longer"] for row in rows)
    head = f'"cpu_share": {share:.4f}, "longest": {longest:.3g}'
    text = f'{{{head}, "rows": [\n' + ",\n".join(map(json.dumps, rows)) + "\n]}\n"
    print(text if asked.json else f"{{{head}}}")
    if not asked.quick:
        RECORD.write_text(text, encoding="utf-8")
    return int(share > CPU_BAR or longest > PERIOD_BAR)


def _row(
    programs: tuple[Path, Path], model: str, options: tuple[str, ...], repetitions: int
) -> dict[str, Any]:
    """Medians of CPU seconds of both programs, and how much longer the second one's period is."""
    taken: dict[Path, list[float]] = {program: [] for program in programs}
    period_s: dict[Path, float] = {}
    with tempfile.TemporaryDirectory(prefix="mcm-bench-") as name:
        output = Path(name) / "compiled"
        for run in range(1 + repetitions):
            for program in programs:
                command = [program, "compile", f"zoo:{model}", "--target", "mcm36", *options]
                child = run_child([*command, "-o", output, "--force"])
                if run:
                    taken[program].append(child.cpu_s)
                report = (output / "report.json").read_text(encoding="utf-8")
                period_s[program] = json.loads(report)["period_s"]
    base, ours = programs
    return {
        "model": model,
        "options": " ".join(options),
        "base_cpu_s": round(statistics.median(taken[base]), 3),
        "cpu_s": round(statistics.median(taken[ours]), 3),
        "longer": period_s[ours] / period_s[base] - 1.0,
    }


if __name__ == "__main__":
    sys.exit(main())
