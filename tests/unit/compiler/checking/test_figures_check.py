"""What a stored comparison has to have in common with one that is done now."""

from __future__ import annotations

import json
from pathlib import Path

import onnx
import pytest

from mcm_compiler.api import compile_model
from mcm_compiler.checking.check import check_folder
from mcm_compiler.options import CompileOptions
from mcm_compiler.text import json_text
from tools.figure_mutations import rehash


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs on random inputs of seeds 1 and 3; among those of 0 and 2 there is a step of 0."""
    proto = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17]> m (float[20, 10] x, int64[2] starts, '
        "int64[2] ends, int64[2] axes, int64[2] steps) => (float[a, b] y)"
        " { y = Slice (x, starts, ends, axes, steps) }"
    )
    onnx.save(proto, path := tmp_path_factory.mktemp("steps") / "m.onnx")
    return path


@pytest.mark.parametrize(("seed", "others"), [(0, (1, 3)), (1, (0, 2))])
def test_what_other_seeds_allow_or_refuse_contradicts_nothing(
    model: Path, seed: int, others: tuple[int, ...]
) -> None:
    out = model.parent / str(seed)
    result = compile_model(model, "mcm4", CompileOptions(seed=seed), output=out)
    assert result.verification is not None
    assert (result.verification.skipped is None) is (seed == 1)
    assert check_folder(out, seeds=(seed,)).holds
    assert check_folder(out, seeds=others).holds
    assert check_folder(out).holds


@pytest.mark.parametrize("seed", [0, 1])
def test_what_the_same_seed_refuses_or_allows_is_a_contradiction(model: Path, seed: int) -> None:
    out = model.parent / f"changed-{seed}"
    compile_model(model, "mcm4", CompileOptions(seed=seed), output=out)
    other = model.parent / f"other-{seed}"
    compile_model(model, "mcm4", CompileOptions(seed=1 - seed), output=other)
    report = json.loads((out / "report.json").read_text(encoding="utf-8"))
    said = json.loads((other / "report.json").read_text(encoding="utf-8"))["verification"]
    report["verification"] = {**said, "seeds": [seed] if said["seeds"] else []}
    json_text.write(out / "report.json", report)
    rehash(out)
    faults = check_folder(out, seeds=(seed,)).diagnostics
    assert [d.code for d in faults if "verification.skipped" in d.message] == ["MCM-V073"]
