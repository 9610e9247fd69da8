"""2,000 output folders that somebody changed, with all hashes made right: does `check` refuse them?

Each folder of a few models is changed in one place (an op, an attribute, a weight, an edge, a
wire), in the chips' models, the annotated model, the data files or the manifest. A mutant that
structure accepts is run: one that gives the original's bits on four inputs is no mutant and left
out. `--update` writes tools/data/folder_mutations.json.

    python tools/mutate_folders.py [--mutants 2000] [--seed 0] [--update]
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx

sys.path.insert(0, str(Path(__file__).parent))

from folder_mutations.mutants import mutated, seeded
from folder_mutations.verdicts import is_equivalent, refusal, whole_check

from mcm_compiler.api import build_zoo_model, compile_model
from mcm_compiler.artifact.manifest import read_manifest
from mcm_compiler.checking.structure_step import read_user_model
from mcm_compiler.components.target_loading import load_target
from mcm_compiler.ir.rewriting.writer import write_model
from mcm_compiler.options import CompileOptions
from mcm_compiler.report.versions import versions

ROOT = Path(__file__).parent.parent
RECORD = ROOT / "tools" / "data" / "folder_mutations.json"
EXPORTS = ROOT / "tests" / "data" / "exports"

SMALL_CHIPS = ("sram_mib = 64", "sram_mib = 1")


def wide_products() -> onnx.ModelProto:
    """Two products with weights that fit no small chip."""
    rng = np.random.default_rng(0)
    model = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17]> wide (float[4,384] x) => (float[4,1536] y) {'
        " a = Gemm <transB = 1> (x, u, b) r = Relu (a) y = MatMul (r, v) }"
    )
    for name, shape in (("u", (1024, 384)), ("b", (1024,)), ("v", (1024, 1536))):
        array = rng.standard_normal(shape, dtype=np.float32)
        model.graph.initializer.append(onnx.numpy_helper.from_array(array, name))
    return model


def folders(into: Path) -> dict[str, tuple[Path, Path, int]]:
    """Compiled folders with the file of their model, and the weight of each among the mutants."""
    made: dict[str, tuple[Path, Path, int]] = {}

    def compile_to(name: str, model: Path, target: Any, share: int, **options: Any) -> None:
        out = into / name / "out"
        out.parent.mkdir()
        chosen: dict[str, Any] = {"level": 0, "replicas": 1, "inferences": 8, **options}
        compile_model(model, target, CompileOptions(**chosen), output=out)
        made[name] = (out, model, share)

    def zoo_file(spec: str) -> Path:
        path = into / f"{len(made)}.onnx"
        write_model(build_zoo_model(spec), path)
        return path

    narrow_bert = "bert-tiny{layers=1,hidden=16,intermediate=32,vocab=64,positions=16,seq=8}"
    narrow_cnn = "residual-cnn{image_size=16,classes=10,stages=2,blocks=1,width=8}"
    compile_to("bert-tiny", zoo_file("bert-tiny"), "mcm4", 1)
    compile_to("bert-tiny, narrow", zoo_file(narrow_bert), "mcm4", 5)
    compile_to("bert-tiny, narrow, 2 pipelines", zoo_file(narrow_bert), "mcm16", 4, replicas=2)
    compile_to("cnn", zoo_file(narrow_cnn), "mcm4", 6)
    text = load_target("mcm36").source_text.replace(*SMALL_CHIPS)
    small = into / "small.toml"
    small.write_text(text)
    path = into / "wide.onnx"
    onnx.save(wide_products(), path)
    compile_to("sharded", path, str(small), 6)
    for name in ("torch_if_opset13", "torch_loop_opset13", "text_scan", "onnxscript_loop_break"):
        compile_to(name, EXPORTS / f"{name}.onnx", "mcm4", 4)
    compile_to("onnxscript_functions", EXPORTS / "onnxscript_functions.onnx", "mcm4", 4)
    return made


def judge(
    name: str, folder: Path, model: Path, count: int, seed: int, tell: Callable[[str], None]
) -> dict[str, Any]:
    """Makes `count` mutants of a folder and judges each with and without the model's own file."""
    user = read_user_model(str(model), read_manifest(folder))
    assert refusal(folder, user) is None
    assert refusal(folder, None) is None
    rng = seeded(seed)
    codes: Counter[str] = Counter()
    alone: Counter[str] = Counter()
    kinds: Counter[str] = Counter()
    wrong: list[str] = []
    equivalent, tried = 0, 0
    while sum(kinds.values()) < count and tried < 20 * count:
        tried += 1
        with mutated(folder, rng) as mutant:
            if mutant is None:
                continue
            code = refusal(folder, user)
            if code is None and is_equivalent(folder, model, mutant):
                equivalent += 1
                continue
            kinds[mutant.kind] += 1
            if code is None:
                wrong.append(f"with the model: {mutant.file}, {mutant.kind}: {mutant.what}")
                tell(f"{name}: {wrong[-1]}; check: {whole_check(folder, str(model))}")
            else:
                codes[code] += 1
            without = refusal(folder, None)
            alone["accepted: shared weight" if without is None else without] += 1
            if without is None and not mutant.shared_weight:
                wrong.append(f"without the model: {mutant.file}, {mutant.kind}: {mutant.what}")
                tell(f"{name}: {wrong[-1]}")
    return {
        "mutants": sum(kinds.values()),
        "equivalent_left_out": equivalent,
        "accepted_wrongly": wrong,
        "kinds": dict(sorted(kinds.items())),
        "refused_with_the_model": dict(sorted(codes.items())),
        "without_the_model": dict(sorted(alone.items())),
    }


def main() -> int:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mutants", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--update", action="store_true")
    settings = parser.parse_args()
    start = time.perf_counter()
    into = Path(tempfile.mkdtemp(prefix="mcm-mutants-"))
    try:
        made = folders(into)
        total = sum(share for _, _, share in made.values())
        rows: dict[str, Any] = {}
        for number, (name, (folder, model, share)) in enumerate(made.items()):
            count = -(-settings.mutants * share // total)
            began = time.perf_counter()
            rows[name] = judge(name, folder, model, count, settings.seed + number, print)
            seconds = time.perf_counter() - began
            wrong = len(rows[name]["accepted_wrongly"])
            print(f"{name}: {rows[name]['mutants']} mutants, {wrong} accepted, {seconds:.0f} s",
                  flush=True)  # fmt: skip
    finally:
        shutil.rmtree(into, ignore_errors=True)
    mutants = sum(row["mutants"] for row in rows.values())
    wrong = sum(len(row["accepted_wrongly"]) for row in rows.values())
    print(f"{mutants} mutants, {wrong} accepted wrongly, {time.perf_counter() - start:.0f} s")
    if settings.update:
        record = {
            "command": f"python tools/mutate_folders.py --mutants {settings.mutants} "
            f"--seed {settings.seed} --update",
            "versions": versions(),
            "mutants": mutants,
            "accepted_wrongly": wrong,
            "folders": rows,
        }
        RECORD.parent.mkdir(exist_ok=True)
        RECORD.write_text(json.dumps(record, indent=1) + "\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
