"""500 changed folders of `mcmc place`, with all hashes right: does `check` refuse them?

Each folder of a few models and boxes is changed in one value: a leaf of a JSON file, an op, a
weight, a mark or a declared shape of a model, a byte of weights or of the report, a number of the
box. A folder that is accepted with the model's own file is a fault. `--update` writes
tools/data/placement_mutations.json.

    python tools/mutate_placements.py [--mutants 500] [--seed 0] [--update]
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from folder_mutations.mutants import seeded
from folder_mutations.placed_mutants import mutated_placement

from mcm_compiler.contracts.zoo import build_zoo_model
from mcm_compiler.diagnostics import CompileError
from mcm_compiler.ir.rewriting.writer import write_model
from mcm_compiler.placed.folder_check import check_placement_folder
from mcm_compiler.placed.place_options import PlaceOptions
from mcm_compiler.placed.placing import place_model, step_of_model
from mcm_compiler.report.versions import versions

RECORD = Path(__file__).parent / "data" / "placement_mutations.json"

BERT = "bert-tiny{layers=1,hidden=16,intermediate=32,vocab=64,positions=16,seq=8}"
CNN = "residual-cnn{image_size=16,classes=10,stages=2,blocks=1,width=8}"
TIMES = "node,seconds\n/fc/Gemm,3e-5\n"
FOLDERS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "bert in box-2gpu": (BERT, "box-2gpu", {"pins": (("/encoder/*", "gpu:1"),)}),
    "bert in box-4core, pinned": (
        BERT, "box-4core", {"pins": (("/encoder/*", "cpu:1"),), "seed": 3},
    ),
    "cnn in box-cpu-gpu": (CNN, "box-cpu-gpu", {}),
    "cnn with measured times": (CNN, "box-2gpu", {"cost_models": {"k40": "?"}}),
    "a training step": (
        "rnnlm{steps=2}", "box-2gpu",
        {"training": "differentiate{optimizer=sgd}", "segments": "fewest"},
    ),
}  # fmt: skip


def made(into: Path, name: str) -> tuple[Path, str]:
    """A placed folder, and the model that it was made from."""
    spec, box, asked = FOLDERS[name]
    options: dict[str, Any] = {"placer": "local_search", "evaluations": 200, **asked}
    into.mkdir(parents=True)
    model = f"zoo:{spec}"
    if not options.get("training"):
        model = str(into / "model.onnx")
        write_model(build_zoo_model(spec), Path(model))
    if "cost_models" in options:
        (into / "times.csv").write_text(TIMES)
        options["cost_models"] = {"k40": f"table{{file={into / 'times.csv'}}}"}
    place_model(model, box, PlaceOptions(**options), output=into / "out")
    return into / "out", model


def refusal(folder: Path, model: str) -> str | None:
    """The code with which a check with the model's own file refuses a folder; or None."""
    try:
        found = check_placement_folder(folder, seeds=(0,), step_of=partial(step_of_model, model))
    except CompileError as error:
        return error.diagnostics[0].code
    return None if found.holds else found.diagnostics[0].code


def main() -> int:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mutants", type=int, default=500)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--update", action="store_true")
    settings = parser.parse_args()
    start, rows = time.perf_counter(), dict[str, Any]()
    with tempfile.TemporaryDirectory(prefix="mcm-mutants-") as scratch:
        for number, name in enumerate(FOLDERS):
            folder, model = made(Path(scratch) / str(number), name)
            assert refusal(folder, model) is None, name
            rng, count = seeded(settings.seed + number), -(-settings.mutants // len(FOLDERS))
            codes, kinds, wrong = Counter[str](), Counter[str](), list[str]()
            while sum(kinds.values()) < count:
                with mutated_placement(folder, rng) as mutant:
                    if mutant is None:
                        continue
                    code = refusal(folder, model)
                kinds[f"{mutant.file.partition('_')[0]} {mutant.kind}"] += 1
                if code is None:
                    wrong.append(f"{mutant.file}, {mutant.kind}: {mutant.what}")
                    print(f"{name}: accepted {wrong[-1]}", flush=True)
                else:
                    codes[code] += 1
            rows[name] = {
                "mutants": sum(kinds.values()),
                "accepted": wrong,
                "kinds": dict(sorted(kinds.items())),
                "refused": dict(sorted(codes.items())),
            }
            print(f"{name}: {count} mutants, {len(wrong)} accepted", flush=True)
    mutants, wrong = (
        sum(row["mutants"] for row in rows.values()),
        sum(len(row["accepted"]) for row in rows.values()),
    )
    print(f"{mutants} mutants, {wrong} accepted, {time.perf_counter() - start:.0f} s")
    if settings.update:
        command = f"python tools/mutate_placements.py --mutants {settings.mutants}"
        record = {
            "command": f"{command} --seed {settings.seed} --update",
            "versions": versions(),
            "mutants": mutants,
            "accepted": wrong,
            "folders": rows,
        }
        RECORD.write_text(json.dumps(record, indent=1) + "\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
