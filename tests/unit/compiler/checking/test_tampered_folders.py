"""`mcmc simulate` and `mcmc check` on folders that somebody changed: which file, and what is wrong.

Each way of changing a folder comes in two strengths: by accident, so that the hashes of the
manifest tell, and on purpose, with the hashes brought up to date.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from click.testing import CliRunner

from mcm_compiler.api import compile_model
from mcm_compiler.artifact import manifest as manifest_module
from mcm_compiler.artifact.layout import sha256_file
from mcm_compiler.cli.main import cli
from mcm_compiler.options import CompileOptions

VERBS = ("simulate", "check")
Edit = Callable[[Path], None]


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rng = np.random.default_rng(0)
    proto = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17]> m (float[64,128] x) => (float[64,128] y) {'
        " a = MatMul (x, u) b = LeakyRelu (a) r = Relu (x) e = Add (b, r) c = MatMul (e, v)"
        " d = Tanh (c) y = MatMul (d, w) }"
    )
    for name in "uvw":
        weight = rng.standard_normal((128, 128), dtype=np.float32)
        proto.graph.initializer.append(onnx.numpy_helper.from_array(weight, name))
    folder = tmp_path_factory.mktemp("tampered") / "out"
    options = CompileOptions(chips=3, replicas=1, round=1, inferences=8)
    compile_model(ir.from_proto(proto), "mcm4", options, output=folder)
    return folder


@pytest.fixture
def folder(compiled: Path, tmp_path: Path) -> Path:
    return shutil.copytree(compiled, tmp_path / "out")


def invoke(verb: str, folder: Path) -> Any:
    seeds = ("--seeds", "1") if verb == "check" else ()
    return CliRunner().invoke(cli, [verb, str(folder), *seeds])


def refusal(verb: str, folder: Path) -> tuple[str, str]:
    """The code and the text of the one error that a verb ends with."""
    result = invoke(verb, folder)
    assert result.exit_code == 1, result.output
    assert isinstance(result.exception, SystemExit)
    assert "Traceback" not in result.output
    codes = re.findall(r"error\[(MCM-\w+)\]", result.stderr)
    assert len(codes) == 1, result.stderr
    assert "\n  at: " in result.stderr
    return codes[0], result.stderr


def change_json(path: Path, edit: Callable[[Any], None]) -> None:
    data = json.loads(path.read_text())
    edit(data)
    path.write_text(json.dumps(data))


def rehash(folder: Path) -> None:
    """Brings the manifest's hashes up to date, as somebody would who changes files on purpose."""

    def edit(manifest: Any) -> None:
        for name in list(manifest["files"]):
            if (folder / name).exists():
                manifest["files"][name] = sha256_file(folder / name)
            else:
                del manifest["files"][name]
        manifest["target_sha256"] = sha256_file(folder / "target.toml")

    change_json(folder / "manifest.json", edit)


def flip(path: Path, position: int = -1) -> None:
    content = bytearray(path.read_bytes())
    content[position] ^= 1
    path.write_bytes(content)


def swap(folder: Path, left: str, right: str) -> None:
    (folder / left).rename(folder / "aside")
    (folder / right).rename(folder / left)
    (folder / "aside").rename(folder / right)


def retarget(folder: Path) -> None:
    path = folder / "target.toml"
    text = path.read_text()
    changed = re.sub(r"(?m)^(rows\s*=\s*)64", r"\g<1>32", text)
    assert changed != text
    path.write_text(changed)


def edit_op(folder: Path) -> None:
    path = folder / "chip_00.onnx"
    model = onnx.load(path, load_external_data=False)
    node = next(node for node in model.graph.node if node.op_type == "Relu")
    node.name = "another"
    path.write_bytes(model.SerializeToString())


@pytest.mark.parametrize("verb", VERBS)
def test_an_untouched_folder_passes(folder: Path, verb: str) -> None:
    result = invoke(verb, folder)
    assert result.exit_code == 0, result.output
    assert len(list(folder.glob("chip_*.onnx"))) == 3


ACCIDENTS: dict[str, tuple[Edit, str, str]] = {
    "missing chip": (
        lambda f: (f / "chip_01.onnx").unlink(),
        "MCM-A006",
        "the file 'chip_01.onnx' is missing",
    ),
    "missing weights": (
        lambda f: (f / "chip_02.onnx.data").unlink(),
        "MCM-A006",
        "the file 'chip_02.onnx.data' is missing",
    ),
    "swapped chips": (
        lambda f: swap(f, "chip_00.onnx", "chip_02.onnx"),
        "MCM-A009",
        "files were swapped: 'chip_00.onnx' holds 'chip_02.onnx', "
        "'chip_02.onnx' holds 'chip_00.onnx'",
    ),
    "one chip copied over another": (
        lambda f: (f / "chip_00.onnx").write_bytes((f / "chip_02.onnx").read_bytes()),
        "MCM-A008",
        "the file 'chip_00.onnx' was changed",
    ),
    "a byte of a chip": (
        lambda f: flip(f / "chip_01.onnx"),
        "MCM-A008",
        "the file 'chip_01.onnx' was changed",
    ),
    "a byte of the weights": (
        lambda f: flip(f / "chip_01.onnx.data", 1000),
        "MCM-A008",
        "the file 'chip_01.onnx.data' was changed",
    ),
    "the program": (
        lambda f: flip(f / "program.json", 30),
        "MCM-A008",
        "the file 'program.json' was changed",
    ),
    "the target": (retarget, "MCM-A008", "the file 'target.toml' was changed"),
    "a link instead of a chip": (
        lambda f: ((f / "chip_01.onnx").unlink(), (f / "chip_01.onnx").symlink_to("/dev/zero")),
        "MCM-A006",
        "'chip_01.onnx' is not a plain file",
    ),
    "a pipe instead of the program": (
        lambda f: ((f / "program.json").unlink(), os.mkfifo(f / "program.json")),
        "MCM-A006",
        "'program.json' is not a plain file",
    ),
    "a folder instead of the target": (
        lambda f: ((f / "target.toml").unlink(), (f / "target.toml").mkdir()),
        "MCM-A006",
        "'target.toml' is not a plain file",
    ),
}  # type: ignore[assignment]


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("case", ACCIDENTS)
def test_what_the_hashes_tell(folder: Path, verb: str, case: str) -> None:
    edit, code, text = ACCIDENTS[case]
    edit(folder)
    found, message = refusal(verb, folder)
    assert found == code
    assert text in message


ON_PURPOSE: dict[str, tuple[Edit, str, str]] = {
    "missing chip": (
        lambda f: (f / "chip_01.onnx").unlink(),
        "MCM-A006",
        "the manifest does not list the file 'chip_01.onnx'",
    ),
    "another op": (edit_op, "MCM-A010", "the order of 'chip_00.onnx' differ from the manifest"),
    "a chip that is no model": (
        lambda f: (f / "chip_01.onnx").write_bytes(b"\xff" * 50),
        "MCM-A005",
        "chip_01.onnx is damaged",
    ),
    "an op that no chip has": (
        lambda f: change_json(
            f / "program.json", lambda p: p["chips"][1]["kernels"][0]["nodes"].append("ghost")
        ),
        "MCM-A013",
        "it runs the op 'ghost', which the chip's model does not have",
    ),
    "an op that never runs": (
        lambda f: change_json(
            f / "program.json", lambda p: p["chips"][2]["kernels"][0].update(nodes=[])
        ),
        "MCM-A013",
        "it does not run the op",
    ),
    "a chip without a program": (
        lambda f: change_json(f / "program.json", lambda p: p["chips"].pop()),
        "MCM-A013",
        "it has nothing for the chip",
    ),
    "a transfer that no wire asks for": (
        lambda f: change_json(
            f / "program.json", lambda p: p["transfers"][0].update(tensor="ghost")
        ),
        "MCM-A013",
        "it brings, against the manifest's wires, 'ghost' to chip 0",
    ),
    "an input that the model lacks": (
        lambda f: change_json(f / "manifest.json", lambda m: m["inputs"][0].update(name="ghost")),
        "MCM-A010",
        "the inputs in the manifest are not those of 'annotated.onnx'",
    ),
    "wires and sends that contradict each other": (
        lambda f: change_json(f / "manifest.json", lambda m: m["chips"][0].update(sends=[])),
        "MCM-A010",
        "the sends of 'chip_00.onnx' differ from the manifest",
    ),
    "a target of another family": (
        lambda f: (f / "target.toml").write_text('family = "torus"\n'),
        "MCM-U003",
        "torus",
    ),
}


def _first_error(verb: str, folder: Path) -> tuple[str, str]:
    result = invoke(verb, folder)
    assert result.exit_code == 1, result.output
    assert "Traceback" not in result.output
    code = re.search(r"error\[(MCM-\w+)\]", result.stderr)
    assert code is not None
    return code[1], result.stderr


@pytest.mark.parametrize("case", ON_PURPOSE)
def test_what_is_found_though_the_hashes_are_right(folder: Path, case: str) -> None:
    edit, code, text = ON_PURPOSE[case]
    edit(folder)
    rehash(folder)
    found, message = refusal("simulate", folder)
    assert found == code
    assert text in message
    # The check lowers the models itself, and says of a program where it differs.
    found, message = _first_error("check", folder)
    assert found in (code, "MCM-V042")
    assert "program.json" in message or text in message


def _op_type(node: onnx.NodeProto) -> None:
    node.op_type = "Sigmoid"


def _attribute(node: onnx.NodeProto) -> None:
    node.attribute.append(onnx.helper.make_attribute("alpha", 0.5))


@pytest.mark.parametrize(
    ("op_type", "edit", "what"),
    [
        ("Tanh", _op_type, "is a 'Sigmoid', it was a 'Tanh'"),
        ("LeakyRelu", _attribute, "has the attribute 'alpha' '0.5', it had none"),
    ],
)
def test_an_op_that_was_exchanged_on_purpose(
    folder: Path, op_type: str, edit: Callable[[onnx.NodeProto], None], what: str
) -> None:
    """Everything fits together, but the results are others; the first op is named."""
    for path in sorted(folder.glob("chip_*.onnx"), reverse=True):
        model = onnx.load(path, load_external_data=False)
        for node in model.graph.node:
            if node.op_type == op_type:
                edit(node)
                name, chip = node.name, int(path.stem[-2:])
        path.write_bytes(model.SerializeToString())
    rehash(folder)
    assert invoke("simulate", folder).exit_code == 0
    found, message = _first_error("check", folder)
    assert found == "MCM-V060"
    assert "error[MCM-V020]" in message
    assert f"hint: op '{name}' of chip {chip} {what}" in message


def test_swapped_chips_with_right_hashes_are_named(folder: Path) -> None:
    swap(folder, "chip_00.onnx", "chip_02.onnx")
    rehash(folder)
    for verb in VERBS:
        result = invoke(verb, folder)
        assert result.exit_code == 1
        assert "of 'chip_00.onnx' differ from the manifest; it holds the model of chip 2" in (
            result.stderr
        )
        assert "of 'chip_02.onnx' differ from the manifest; it holds the model of chip 0" in (
            result.stderr
        )


@pytest.mark.parametrize(
    ("edit", "text"),
    [
        (
            lambda p: p["chips"][1]["kernels"][0].update(duration_s=1e-9, launch_s=0.0),
            "chips[1].kernels[0].duration_s is 1e-09, lowering gives",
        ),
        (
            lambda p: p["transfers"][1].update(size_bytes=1),
            "transfers[1].size_bytes is 1, lowering gives",
        ),
    ],
)
def test_a_faster_program_is_for_the_check_to_find(
    folder: Path, edit: Callable[[Any], None], text: str
) -> None:
    change_json(folder / "program.json", edit)
    rehash(folder)
    assert invoke("simulate", folder).exit_code == 0
    found, message = refusal("check", folder)
    assert found == "MCM-V042"
    assert text in message
    assert "at: program.json" in message


def test_another_target_with_the_right_hash_is_for_the_check_to_find(folder: Path) -> None:
    retarget(folder)
    rehash(folder)
    result = invoke("check", folder)
    assert result.exit_code == 1
    codes = set(re.findall(r"error\[(MCM-[A-Z]\d+)\]", result.stderr))
    assert {"MCM-V042", "MCM-V053"} <= codes
    assert "duration_s" in result.stderr


@pytest.mark.parametrize("verb", VERBS)
def test_a_manifest_with_two_hashes_of_the_target(folder: Path, verb: str) -> None:
    change_json(folder / "manifest.json", lambda m: m.update(target_sha256="0" * 64))
    found, message = refusal(verb, folder)
    assert found == "MCM-A008"
    assert "target_sha256" in message


def test_further_files_are_for_the_check_to_refuse(folder: Path) -> None:
    (folder / "run.pftrace").write_bytes(b"")
    assert invoke("simulate", folder).exit_code == 0
    found, message = refusal("check", folder)
    assert found == "MCM-A007"
    assert "'run.pftrace'" in message


HOSTILE_JSON = {
    "empty": "",
    "no object": "[1, 2]",
    "deep": "[" * 100_000,
    "deep object": '{"a":' * 100_000,
    "not a number": '{"schema_version": NaN}',
    "infinity": '{"schema_version": 1, "target": Infinity}',
    "a number of many digits": '{"schema_version": ' + "9" * 5000 + "}",
    "cut short": '{"schema_version": 1, "mod',
    "not UTF-8": "\udcff\udcfe",
    "null": "null",
    "another version": '{"schema_version": [[1]]}',
    "an object of nothing": '{"schema_version": 1}',
}


@pytest.mark.parametrize("name", ["manifest.json", "program.json"])
@pytest.mark.parametrize("case", HOSTILE_JSON)
def test_json_that_is_something_else(folder: Path, name: str, case: str) -> None:
    (folder / name).write_bytes(HOSTILE_JSON[case].encode("utf-8", "surrogateescape"))
    if name == "program.json":
        rehash(folder)
    for verb in VERBS:
        code, message = refusal(verb, folder)
        assert code == "MCM-A005"
        assert f"{name} is damaged: " in message
        assert len(message) < 2000


@pytest.mark.parametrize("name", ["manifest.json", "program.json"])
def test_json_that_is_huge(folder: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if name == "program.json":
        content = (folder / name).read_bytes()
        (folder / name).write_bytes(content + b" " * 100_000)
        rehash(folder)
        limit = 50_000 + len(content)
    else:
        limit = (folder / name).stat().st_size - 1
    monkeypatch.setattr(manifest_module, "MAX_JSON_BYTES", limit)
    for verb in VERBS:
        code, message = refusal(verb, folder)
        assert code == "MCM-A005"
        assert f"{name} is damaged: it has " in message


PROGRAM_FIELDS: list[tuple[Callable[[Any], None], str]] = [
    (lambda p: p["chips"][0]["kernels"][0].update(duration_s="1"), "duration_s is '1', not a numb"),
    (lambda p: p["chips"][0]["kernels"][0].update(duration_s=1e300), "_s is 1e+300, not from"),
    (lambda p: p["chips"][0]["kernels"][0].update(reads=[0.5]), "reads[0] is 0.5, not a whole"),
    (lambda p: p["chips"][0]["kernels"][0].update(reads=[True]), "reads[0] is true, not a whole"),
    (lambda p: p["chips"][0]["kernels"][0].update(nodes=None), "nodes is null, not a list"),
    (lambda p: p["chips"][0]["kernels"][0].pop("name"), "kernels[0].name is missing"),
    (lambda p: p["chips"][0].update(chip=10**30), "chip is a number of very many digits, not from"),
    (lambda p: p["chips"][0]["buffers"][0].update(size_bytes=-1), "size_bytes is -1, not from 0"),
    (lambda p: p["chips"][0]["buffers"][0].update(kind="heap"), "kind is 'heap', not one of"),
    (lambda p: p["chips"][0]["buffers"][0].update(last=99), "is taken from kernel 0 to kernel 99"),
    (lambda p: p["transfers"][0].update(size_bytes=10**400), "size_bytes is a number of very many"),
    (lambda p: p.update(transfers={}), "transfers is an object, not a list"),
    (lambda p: p.update(chips=[[]]), "chips[0] is a list, not an object"),
    (lambda p: p.update(overflows=[{"chip": 0}]), "overflows[0].demand_bytes is missing"),
]


@pytest.mark.parametrize(("edit", "text"), PROGRAM_FIELDS)
def test_fields_of_another_kind(folder: Path, edit: Callable[[Any], None], text: str) -> None:
    change_json(folder / "program.json", edit)
    rehash(folder)
    for verb in VERBS:
        code, message = refusal(verb, folder)
        assert code == "MCM-A005"
        assert text in message


MANIFEST_FIELDS: list[tuple[Callable[[Any], None], str]] = [
    (lambda m: m["chips"][0].update(chip=10**30), "chips[0].chip is a number of very many digits"),
    (lambda m: m["chips"][0].update(inputs="x"), "chips[0].inputs is 'x', not a list"),
    (lambda m: m["chips"][0].update(receives=[["x"]]), "receives[0] is a list, not a list of 2"),
    (lambda m: m["wires"][0].update(destinations=[-7]), "destinations[0] is -7, not from -1"),
    (lambda m: m.update(shape_only="no"), "shape_only is 'no', not true or false"),
    (lambda m: m.update(routing="any"), "routing is 'any', not one of strict, relay"),
    (lambda m: m.update(files=[]), "files is a list, not an object"),
    (lambda m: m["files"].update({"../../etc/passwd": "0"}), "is not the name of a file"),
    (lambda m: m["inputs"][0].update(shape=[1.5]), "inputs[0].shape[0] is 1.5, not a whole"),
]


@pytest.mark.parametrize(("edit", "text"), MANIFEST_FIELDS)
def test_manifests_of_another_kind(folder: Path, edit: Callable[[Any], None], text: str) -> None:
    change_json(folder / "manifest.json", edit)
    for verb in VERBS:
        code, message = refusal(verb, folder)
        assert code == "MCM-A005"
        assert text in message


@pytest.mark.parametrize(
    ("edit", "text"),
    [
        (lambda r: r.update(inferences=10**12), "inferences is 1000000000000, not from 1 to"),
        (lambda r: r.update(inferences=0.5), "inferences is 0.5, not a whole number"),
        (lambda r: r.update(period_s="fast"), "period_s is 'fast', not a number"),
    ],
)
def test_a_report_of_another_kind(folder: Path, edit: Callable[[Any], None], text: str) -> None:
    change_json(folder / "report.json", edit)
    rehash(folder)
    code, message = refusal("check", folder)
    assert code == "MCM-A005"
    assert f"report.json is damaged: {text}" in message


@pytest.mark.parametrize("verb", VERBS)
def test_no_folder_at_all(tmp_path: Path, verb: str) -> None:
    code, _ = refusal(verb, tmp_path / "gone")
    assert code == "MCM-A004"


def test_a_program_that_is_taken_out_is_missed(folder: Path) -> None:
    """A folder that nothing was lowered for has none; this one's report has its figures."""
    (folder / "program.json").unlink()
    rehash(folder)
    code, text = refusal("check", folder)
    assert code == "MCM-A005"
    assert "program.json" in text

    def not_simulated(report: Any) -> None:
        report["period_s"] = None

    change_json(folder / "report.json", not_simulated)
    rehash(folder)
    result = invoke("check", folder)
    assert result.exit_code == 1
    assert "FAIL  figures" in result.stdout
