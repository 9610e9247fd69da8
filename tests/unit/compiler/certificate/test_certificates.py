"""The certificate of a folder: there and back, damaged, re-proved, and not re-proved."""

from __future__ import annotations

import dataclasses
import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import onnx
import onnx_ir as ir
import pytest
from safetensors.numpy import load_file, save_file

from mcm_compiler.api import CompileResult, compile_model
from mcm_compiler.certificate.bound_check import check_bound
from mcm_compiler.certificate.claims import Certificate, Claim, ClaimScope
from mcm_compiler.certificate.files import MAX_ARRAY_BYTES, read_certificate, write_certificate
from mcm_compiler.certificate.stored_problem import Array
from mcm_compiler.checking.certificate_check import MARGIN, check_certificate
from mcm_compiler.checking.check import check_folder
from mcm_compiler.checking.entry.gate import OpenedFolder, open_folder
from mcm_compiler.checking.groups_check import check_divisions
from mcm_compiler.checking.lowered_figures import check_lowered
from mcm_compiler.contracts.partition import PartitionProblem
from mcm_compiler.contracts.target import machine_of
from mcm_compiler.diagnostics import CompileError
from mcm_compiler.options import CompileOptions
from mcm_compiler.registry import PROOF_CHECKERS
from tools.figure_mutations import rehash

ROOT = Path(__file__).parents[4]
HEAD, ARRAYS = "certificate.json", "certificate.safetensors"


def model() -> ir.Model:
    rng = np.random.default_rng(0)
    proto = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17]> m (float[64,128] x, float[64,1] m)'
        " => (float[64,128] y) { n = Neg (m) a = MatMul (x, u) b = Add (a, n) c = MatMul (b, v)"
        " d = Add (c, n) e = MatMul (d, w) f = Add (e, n) y = Mul (f, x) }"
    )
    for name in "uvw":
        weight = rng.standard_normal((128, 128), dtype=np.float32)
        proto.graph.initializer.append(onnx.numpy_helper.from_array(weight, name))
    return ir.from_proto(proto)


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> CompileResult:
    options = CompileOptions(chips=3, replicas=1, inferences=8, partitioner="dp")
    output = tmp_path_factory.mktemp("certificates") / "out"
    return compile_model(model(), "mcm4", options, output=output)


@pytest.fixture
def folder(result: CompileResult, tmp_path: Path) -> Path:
    assert result.folder is not None
    return shutil.copytree(result.folder, tmp_path / "out")


def assert_equal(left: Any, right: Any) -> None:
    for field in dataclasses.fields(left):
        a, b = getattr(left, field.name), getattr(right, field.name)
        if isinstance(a, np.ndarray):
            assert a.dtype == b.dtype
            assert np.array_equal(a, b)
        elif isinstance(a, PartitionProblem):
            assert_equal(a, b)
        else:
            assert a == b, field.name


def test_what_is_written_is_read(result: CompileResult, tmp_path: Path) -> None:
    certificate = result.certificate
    assert certificate is not None
    assert certificate.copies or certificate.forwards
    write_certificate(tmp_path, certificate)
    assert_equal(read_certificate(tmp_path), certificate)
    first = (tmp_path / ARRAYS).read_bytes(), (tmp_path / HEAD).read_bytes()
    write_certificate(tmp_path, certificate)
    assert first == ((tmp_path / ARRAYS).read_bytes(), (tmp_path / HEAD).read_bytes())


def test_names_of_the_format_speak_of_no_family(folder: Path) -> None:
    words = f"{(folder / HEAD).read_text()} {' '.join(load_file(folder / ARRAYS))}".lower()
    assert "ring" not in words.replace("string", "")
    assert "chip" not in json.dumps(list(json.loads((folder / HEAD).read_text())))
    assert {"device.memory_bytes", "channel.source", "unit.work_s"} <= load_file(
        folder / ARRAYS
    ).keys()


def edit_arrays(edit: Callable[[dict[str, Array]], object]) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        arrays = {name: array.copy() for name, array in load_file(folder / ARRAYS).items()}
        edit(arrays)
        save_file(arrays, folder / ARRAYS)

    return change


def edit_head(edit: Callable[[dict[str, Any]], object]) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        data = json.loads((folder / HEAD).read_text())
        edit(data)
        (folder / HEAD).write_text(json.dumps(data))

    return change


def cut(name: str) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        (folder / name).write_bytes((folder / name).read_bytes()[:-7])

    return change


def enlarge(folder: Path) -> None:
    with (folder / ARRAYS).open("r+b") as file:
        file.truncate(MAX_ARRAY_BYTES + 1)  # sparse: nothing is written


def set_at(name: str, index: int, value: float) -> Callable[[Path], None]:
    return edit_arrays(lambda arrays: arrays[name].__setitem__(index, value))


DAMAGES: dict[str, tuple[Callable[[Path], object], str]] = {
    "no head": (lambda folder: (folder / HEAD).unlink(), "No such file"),
    "no arrays": (lambda folder: (folder / ARRAYS).unlink(), "missing"),
    "head cut off": (cut(HEAD), "not JSON"),
    "arrays cut off": (cut(ARRAYS), "safetensors"),
    "arrays of zeros": (lambda f: (f / ARRAYS).write_bytes(bytes(64)), "safetensors"),
    "too large": (enlarge, "more than"),
    "another version": (edit_head(lambda d: d.update(schema_version=9)), "schema version 9"),
    "no claims": (edit_head(lambda d: d.pop("claims")), "claims is missing"),
    "claims twice": (edit_head(lambda d: d["claims"].append(d["claims"][0])), "two claims"),
    "a claim below 0": (
        edit_head(lambda d: d["claims"][0].update(seconds=-1.0)), "seconds is -1.0, not from 0"),
    "a machine that is no number": (
        edit_head(lambda d: d["machine"].update(channel_bytes_per_s="fast")), "not a number"),
    "a machine below 0": (
        edit_head(lambda d: d["machine"].update(channel_bytes_per_s=-1.0)), "is -1"),
    "not a number": (set_at("unit.work_s", 0, np.nan), "not finite"),
    "infinite": (set_at("tensor.forward_s", 0, np.inf), "not finite"),
    "negative": (set_at("unit.work_s", 0, -1.0), "less than 0"),
    "negative bytes": (set_at("tensor.bytes", 0, -1), "less than 0"),
    "no such unit": (set_at("tensor.readers", 0, 99), "names no unit"),
    "no such device": (set_at("placement.device", 0, 9), "placement.device"),
    "rows that overlap": (set_at("tensor.reader_ptr", 1, 99), "does not divide"),
    "a text beyond its end": (set_at("unit.name.ends", -1, 10**9), "does not divide"),
    "no text": (set_at("unit.name.text", 0, 0xFF), "not UTF-8"),
    "another type": (
        edit_arrays(lambda a: a.update({"unit.work_s": a["unit.work_s"].astype(np.float32)})),
        "float32"),
    "another rank": (
        edit_arrays(lambda a: a.update({"weight.bytes": a["weight.bytes"][None]})),
        "2 dimensions"),
    "an array less": (edit_arrays(lambda a: a.pop("weight.users")), "missing"),
    "shorter": (
        edit_arrays(lambda a: a.update({"unit.work_s": a["unit.work_s"][:-1]})), "unit.work_s"),
    "other channels": (set_at("channel.bytes_per_s", 0, 1.0), "channel.bytes_per_s"),
    "a cycle": (
        edit_arrays(lambda a: a["tensor.producer"].fill(a["unit.work_s"].size - 1)), "after it"),
}  # fmt: skip


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_certificate_is_one_diagnostic(folder: Path, damage: str) -> None:
    change, said = DAMAGES[damage]
    change(folder)
    with pytest.raises(CompileError) as caught:
        read_certificate(folder)
    (diagnostic,) = caught.value.diagnostics
    assert diagnostic.code == "MCM-A020"
    assert said in diagnostic.message
    assert diagnostic.hint


def test_check_names_the_field_that_was_invented(folder: Path) -> None:
    set_at("unit.work_s", 1, 1.0)(folder)
    rehash(folder)
    found = check_folder(folder, without={"equality", "figures"})
    (step,) = [step for step in found.steps if not step.holds]
    assert step.name == "certificate"
    assert [d.code for d in found.diagnostics] == ["MCM-V070"]
    assert "compute_s of" in step.detail
    assert "is 1.0, the models give" in step.detail


def opened(folder: Path) -> tuple[OpenedFolder, Certificate]:
    found = open_folder(folder)
    assert found.certificate is not None
    return found, found.certificate


def claiming(certificate: Certificate, seconds: float, proof: str) -> Certificate:
    claims = tuple(Claim(about, seconds, proof, "so") for about in ("pipeline", "package"))
    return dataclasses.replace(certificate, claims=claims)  # type: ignore[arg-type]


@pytest.mark.parametrize("proof", ["total_work", "heaviest_unit", "windows", "ideals"])
def test_bounds_are_re_proved_or_refused(folder: Path, proof: str) -> None:
    found, certificate = opened(folder)
    assert "bytes of each channel and the latency as lowered" in check_certificate(
        found, certificate
    )
    work_s = float(certificate.problem.compute_s.sum()) / 3
    low = 0.5 * min(work_s, float(certificate.problem.compute_s.max()))
    detail, warning = check_bound(claiming(certificate, low, proof), found.target.limits)
    assert f"re-proved ({proof})" in detail
    assert warning is None
    # Were the placement slow, no argument would show a bound that is far above the optimum.
    slow = dataclasses.replace(certificate, period_s=20.0 * certificate.period_s)
    with pytest.raises(CompileError) as caught:
        check_bound(claiming(slow, 10.0 * certificate.period_s, proof), found.target.limits)
    assert caught.value.diagnostics[0].code == "MCM-V071"
    with pytest.raises(CompileError) as caught:
        check_bound(claiming(certificate, 1.01 * certificate.period_s, proof), found.target.limits)
    assert "its placement takes" in caught.value.diagnostics[0].message


@pytest.mark.parametrize("share", [2.0**-52, -(2.0**-52), 1e-10, 1e-8, -1e-8])
def test_a_period_may_be_a_sum_in_another_order(folder: Path, share: float) -> None:
    found, certificate = opened(folder)
    other = dataclasses.replace(certificate, period_s=certificate.period_s * (1.0 + share))
    assert other.period_s != certificate.period_s
    if abs(share) < MARGIN:
        assert "as lowered" in check_certificate(found, other)
        return
    with pytest.raises(CompileError, match="its placement takes"):
        check_certificate(found, other)


def test_a_program_that_carries_more_than_its_placement_is_refused(folder: Path) -> None:
    found, certificate = opened(folder)
    machine = machine_of(found.target)
    first, *others = found.program.transfers
    longer = dataclasses.replace(first, size_bytes=first.size_bytes + 64)
    program = dataclasses.replace(found.program, transfers=(longer, *others))
    with pytest.raises(CompileError) as caught:
        check_lowered(program, machine, certificate)
    assert caught.value.diagnostics[0].code == "MCM-V070"
    slower = dataclasses.replace(machine, channel_latency_s=machine.channel_latency_s + 1e-6)
    with pytest.raises(CompileError, match="answers one inference after"):
        check_lowered(found.program, slower, certificate)


def test_a_relay_is_no_op_of_the_name_that_its_tensor_has(tmp_path: Path) -> None:
    proto = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17]> m (float[64,64] x) => (float[64,64] y)'
        " { a = MatMul (x, x) b = MatMul (a, a) c = MatMul (b, b) y = MatMul (a, c) }"
    )
    for node in proto.graph.node:
        node.name = node.output[0]
    pins = (("a", 0), ("b", 1), ("c", 2), ("y", 3))
    options = CompileOptions(replicas=1, pins=pins)
    compile_model(ir.from_proto(proto), "mcm4", options, output=tmp_path / "out")
    assert "a/relay_1" in (tmp_path / "out" / "program.json").read_text(encoding="utf-8")
    report = check_folder(tmp_path / "out")
    assert report.holds, report.diagnostics


def test_a_solvers_word_is_no_proof(folder: Path) -> None:
    found, certificate = opened(folder)
    checker = PROOF_CHECKERS.get("cpsat")
    assert checker.rules_out(certificate.problem, 0.5 * float(certificate.problem.compute_s.max()))
    large = dataclasses.replace(certificate, problem=certificate.problem)
    detail, warning = check_bound(
        claiming(large, certificate.period_s, "unheard_of"), found.target.limits
    )
    assert warning is not None
    assert (warning.code, warning.severity.value) == ("MCM-V072", "warning")
    assert "no checker" in detail


@dataclasses.dataclass(frozen=True)
class _Word:
    summary: str = "a test's word"
    undecided: str = "it is only a word"
    effort: int = 2
    says: bool | None = True

    def rules_out(self, problem: PartitionProblem, period_s: float) -> bool | None:
        return self.says


@pytest.fixture
def registered() -> Iterator[Callable[[bool | None], None]]:
    def register(says: bool | None) -> None:
        PROOF_CHECKERS.add("word", _Word(says=says), "a test")

    yield register
    PROOF_CHECKERS.remove("word")


@pytest.mark.parametrize("says", [True, False, None])
def test_a_plug_ins_checker_is_asked(
    folder: Path, registered: Callable[[bool | None], None], says: bool | None
) -> None:
    registered(says)
    found, certificate = opened(folder)
    claimed = claiming(certificate, certificate.period_s, "word")
    if says is False:
        with pytest.raises(CompileError) as caught:
            check_bound(claimed, found.target.limits)
        assert caught.value.diagnostics[0].code == "MCM-V071"
        return
    detail, warning = check_bound(claimed, found.target.limits)
    assert ("not re-proved" in detail) is (says is None)
    assert (warning is None) is bool(says)


@pytest.mark.parametrize("says", ["I do not know", 0.0, np.array([True, False])])
def test_a_checker_that_answers_otherwise_than_by_yes_or_no_proves_nothing(
    folder: Path, registered: Callable[[Any], None], says: Any
) -> None:
    registered(says)
    found, certificate = opened(folder)
    claimed = claiming(certificate, certificate.period_s, "word")
    with pytest.raises(CompileError) as caught:
        check_bound(claimed, found.target.limits)
    (told,) = caught.value.diagnostics
    assert (told.code, told.at) == ("MCM-X007", "a test")
    assert "proof checker 'word' failed: TypeError: it answers with a" in told.message


def test_what_is_not_re_proved_is_told_and_leaves_the_check_incomplete(folder: Path) -> None:
    def rename(data: dict[str, Any]) -> None:
        for claim in data["claims"]:
            claim["proof"] = "unheard_of"

    edit_head(rename)(folder)
    rehash(folder)
    found = check_folder(folder, without={"equality", "figures"})
    assert found.holds
    assert not found.complete
    assert [d.code for d in found.diagnostics] == ["MCM-V072"]


def test_a_bound_over_all_numbers_of_pipelines(tmp_path: Path) -> None:
    options = CompileOptions(inferences=8, partitioner="dp")
    result = compile_model(model(), "mcm16", options, output=tmp_path / "out")
    assert result.replication is not None
    found, certificate = opened(tmp_path / "out")
    assert certificate.scope.any_number
    detail, warning = check_bound(certificate, found.target.limits)
    assert "re-proved" in detail
    assert warning is None
    # One pipeline is as slow as its heaviest unit; as many as there are devices are faster.
    heaviest_s = float(certificate.problem.compute_s.max())
    limits = found.target.limits
    alone = dataclasses.replace(
        claiming(certificate, heaviest_s, "heaviest_unit"),
        problem=dataclasses.replace(certificate.problem, limits=limits),
        scope=ClaimScope(limits.num_chips, 1, limits.num_chips, any_number=True),
        period_s=heaviest_s,
    )
    with pytest.raises(CompileError) as caught:
        check_bound(alone, found.target.limits)
    (diagnostic,) = caught.value.diagnostics
    assert diagnostic.code == "MCM-V071"
    assert "pipelines of" in diagnostic.message


def test_the_head_is_of_the_published_schema(folder: Path) -> None:
    schema = json.loads((ROOT / "docs/reference/schema/certificate.schema.json").read_text())
    jsonschema.validate(json.loads((folder / HEAD).read_text()), schema)


def test_every_array_is_documented(folder: Path) -> None:
    text = (ROOT / "docs/reference/output-folder.md").read_text()
    for name in load_file(folder / ARRAYS):
        assert f"`{name.removesuffix('.text').removesuffix('.ends').removesuffix('.ptr')}`" in text


@pytest.mark.parametrize(
    ("name", "factor", "code"),
    [
        ("seconds", 1.5, "MCM-V070"),
        ("before_bytes", 2.0, "MCM-V070"),
        ("after_bytes", 2.0, "MCM-V070"),
        ("weight_bytes", 2.0, "MCM-V070"),
        ("price", -1.0, "MCM-V071"),
        ("forced", -1.0, "MCM-V071"),
        (None, 1.01, "MCM-V071"),
    ],
)
def test_an_altered_bound_over_all_divisions_is_refused(
    folder: Path, name: str | None, factor: float, code: str
) -> None:
    found, certificate = opened(folder)
    bound = certificate.divisions
    assert bound is not None
    assert "over all divisions re-proved" in check_divisions(found, certificate)[0]
    if name is None:
        bound = dataclasses.replace(bound, seconds=bound.seconds * factor)
    elif name == "price":
        bound = dataclasses.replace(bound, prices=tuple(factor for _ in bound.prices))
    elif name == "forced":
        bound = dataclasses.replace(bound, forced_bytes=tuple(int(factor) for _ in bound.prices))
    else:
        kernels = [
            dataclasses.replace(k, **{name: type(getattr(k, name))(getattr(k, name) * factor + 1)})
            for k in bound.kernels
        ]
        assert kernels != list(bound.kernels)
        bound = dataclasses.replace(bound, kernels=tuple(kernels))
    with pytest.raises(CompileError) as caught:
        check_divisions(found, dataclasses.replace(certificate, divisions=bound))
    assert caught.value.diagnostics[0].code == code


def test_a_bound_over_all_divisions_needs_all_its_arrays(folder: Path) -> None:
    edit_arrays(lambda arrays: arrays.pop("division.price"))(folder)
    with pytest.raises(CompileError) as caught:
        read_certificate(folder)
    assert caught.value.diagnostics[0].code == "MCM-A020"
