"""A KV cache that stays on its chips: equal over steps, no host transfers, its memory counted."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnxruntime as ort
import pytest

from mcm_compiler.api import compile_model
from mcm_compiler.artifact.layout import sha256_file
from mcm_compiler.checking.check import check_folder
from mcm_compiler.checking.entry.run_folder import run_folder
from mcm_compiler.checking.entry.run_pipelined import run_pipelined
from mcm_compiler.ci.batch import Job, exit_code, success
from mcm_compiler.contracts.target import HOST
from mcm_compiler.diagnostics import CompileError, Severity
from mcm_compiler.options import DEFAULT_PIPELINE, CompileOptions
from mcm_compiler.report.report_data import build_report
from tests.generators.small_mesh import small_mesh
from tests.oracles.real_road import PackageOptions, parse
from tests.oracles.reference_states import ReferenceStates

MODEL = "zoo:gpt2-tiny{cache=true,past=31,seq=1}"
EXPORT = Path(__file__).parents[1] / "data" / "exports" / "dynamo_rotary_cache_opset23.onnx"
WIDTHS = {"FLOAT": 16, "INT64": 32, "INT32": 32}
STEPS = 8


@pytest.fixture(scope="module")
def decoder(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("states") / "out"
    compile_model(MODEL, "mcm4", CompileOptions(level=1, replicas=1, inferences=8), output=folder)
    return folder


def read(folder: Path, name: str):
    return json.loads((folder / name).read_text())


def test_no_state_crosses_the_host_link_and_its_memory_is_planned(decoder):
    oracle, report = ReferenceStates(decoder, WIDTHS, 64), read(decoder, "report.json")
    assert len(oracle.pairs) == 4
    assert all(len(chips) == 1 for chips in oracle.homes().values())
    assert oracle.host_bytes() == (4, 2000)
    assert oracle.simulated_host_bytes(report) == oracle.host_bytes()
    assert oracle.planned_state_bytes() == oracle.state_bytes(report["states"]["sequences"])


def test_tokens_are_told_for_one_sequence_and_for_all(decoder):
    report = read(decoder, "report.json")
    states = report["states"]
    assert states["sequences"] == states["needed_sequences"] > 1
    assert states["tokens_per_s"] == pytest.approx(1 / report["period_s"])
    assert states["tokens_per_s_alone"] == pytest.approx(1 / report["latency_s"])
    # Four chips of 64 MiB with one copy of the weights, or the bound on the period.
    held = sum(row["sequence_bytes"] for row in states["chips"])
    program = read(decoder, "program.json")
    buffers = (b for chip in program["chips"] for b in chip["buffers"] if b["kind"] == "weight")
    fit = (4 * 64 * 2**20 - sum(b["size_bytes"] for b in buffers)) // held
    assert states["package_sequences"] == fit
    most = min(fit / report["latency_s"], 1 / report["lower_bound_s"])
    assert states["most_tokens_per_s"] == pytest.approx(most)
    text = (decoder / "report.md").read_text()
    assert "tokens/s" in text
    assert "inferences/s" not in text


@pytest.mark.parametrize(("tpot_s", "codes"), [(17e-6, None), (15e-6, ["MCM-P089", "MCM-P062"])])
def test_limits_of_users_are_kept_or_refused(tpot_s, codes):
    # By itself the fastest placement answers after 19 us, and one of fewer chips after 16.8 us.
    passes = DEFAULT_PIPELINE.removesuffix(",emit,verify")
    options = CompileOptions(level=1, replicas=1, serve={"tpot": tpot_s}, passes=passes)
    if codes is None:
        made = compile_model(MODEL, "mcm4", options)
        assert made.program.sequences * made.simulation.period_s <= tpot_s
        return
    with pytest.raises(CompileError) as refused:
        compile_model(MODEL, "mcm4", options)
    assert [one.code for one in refused.value.diagnostics[: len(codes)]] == codes
    assert "tpot is 18.8 us, not at most 15.0 us" in refused.value.diagnostics[0].message


def test_steps_on_the_chips_are_those_of_the_model(decoder):
    assert read(decoder, "report.json")["verification"]["steps"] == STEPS
    source = ort.InferenceSession(decoder / "annotated.onnx", providers=["CPUExecutionProvider"])
    rng = np.random.default_rng(3)
    ids = rng.integers(0, 1000, (STEPS, 1, 1))
    first = {
        value.name: rng.standard_normal(value.shape, np.float32)
        for value in source.get_inputs()
        if value.name != "input_ids"
    }
    past, expected = dict(first), []
    for token in ids:
        names = [value.name for value in source.get_outputs()]
        made = dict(zip(names, source.run(None, {"input_ids": token, **past}), strict=True))
        expected.append(made["logits"])
        past = {name: made[name.replace("past_key_values", "present")][:, :, 1:] for name in past}
    found = run_folder(decoder, {"input_ids": ids, **first}, STEPS)
    np.testing.assert_allclose(found["logits"], np.stack(expected), atol=1e-4)
    assert found["present.0.key"].shape == (1, 2, 32, 64)
    assert not np.allclose(found["logits"][0], found["logits"][1])


def test_processes_keep_the_states_of_all_sequences(decoder):
    rng = np.random.default_rng(3)
    entries = read(decoder, "manifest.json")["inputs"]
    first = {e["name"]: rng.standard_normal(e["shape"], np.float32) for e in entries[1:]}
    inputs = {"input_ids": rng.integers(0, 1000, (4, 1, 1)), **first}
    run = run_pipelined(decoder, inputs, 4, inferences=40)
    expected = run_folder(decoder, inputs, 4)
    assert run.data["outputs_equal"]
    assert run.outputs.keys() == expected.keys()
    for name, array in run.outputs.items():
        np.testing.assert_allclose(array, expected[name], atol=1e-4)
    assert [one["chip"] for one in run.data["chips"]] == list(range(len(run.data["chips"])))


def test_a_folder_with_states_holds(decoder):
    verdict = check_folder(decoder, seeds=(0,))
    assert verdict.holds, verdict.diagnostics
    assert verdict.verification is not None
    assert verdict.verification.steps == STEPS


@pytest.mark.parametrize(
    ("edit", "why"),
    [
        (lambda m: m["states"]["held"][0].update(chip=3), "the chip has no"),
        (lambda m: m["states"]["held"].append(m["states"]["held"][0]), "held twice"),
        (lambda m: m["states"]["held"][0].update(present="present.0.value"), "held twice"),
        (
            lambda m: m["wires"].append(
                {
                    "tensor": "past_key_values.0.key",
                    "source": -1,
                    "destinations": [m["states"]["held"][0]["chip"]],
                }
            ),
            "crosses the host's link",
        ),
    ],
)
def test_a_folder_whose_states_were_changed_is_refused(decoder, tmp_path, edit, why):
    folder = shutil.copytree(decoder, tmp_path / "copy")
    manifest = read(folder, "manifest.json")
    edit(manifest)
    (folder / "manifest.json").write_text(json.dumps(manifest))
    verdict = check_folder(folder, seeds=(0,))
    assert not verdict.holds
    assert [d for d in verdict.diagnostics if d.code == "MCM-A014" and why in d.message]


@pytest.mark.parametrize("name", ["sequences", "reserved"])
def test_other_numbers_of_sequences_are_refused(decoder, tmp_path, name):
    folder = shutil.copytree(decoder, tmp_path / "copy")
    manifest = read(folder, "manifest.json")
    manifest["states"][name] += 1
    (folder / "manifest.json").write_text(json.dumps(manifest))
    verdict = check_folder(folder, without=("equality",))
    assert not verdict.holds


def test_a_program_that_forgets_its_sequences_is_refused(decoder, tmp_path):
    folder = shutil.copytree(decoder, tmp_path / "copy")
    program = read(folder, "program.json")
    program["sequences"] = 0
    (folder / "program.json").write_text(json.dumps(program))
    manifest = read(folder, "manifest.json")
    manifest["files"]["program.json"] = sha256_file(folder / "program.json")
    (folder / "manifest.json").write_text(json.dumps(manifest))
    assert not check_folder(folder, without=("equality",)).holds


def test_a_prompt_is_read_with_an_empty_past(tmp_path):
    folder = tmp_path / "out"
    model = "zoo:gpt2-tiny{cache=true,past=0,seq=16}"
    compile_model(model, "mcm4", CompileOptions(level=0, replicas=1, inferences=8), output=folder)
    oracle, report = ReferenceStates(folder, WIDTHS, 64), read(folder, "report.json")
    assert oracle.simulated_host_bytes(report) == oracle.host_bytes()
    assert oracle.planned_state_bytes() == oracle.state_bytes(report["states"]["sequences"])
    assert report["states"]["tokens_per_step"] == 16
    assert report["verification"]["holds"]


@pytest.mark.parametrize(("past", "steps"), [(5, 8), (0, 0)])
def test_two_profiles_of_an_exported_step(past, steps):
    """A Llama-like step of torch with symbolic sizes, whose cache has names of its own."""
    options = CompileOptions(
        level=0,
        replicas=1,
        inferences=8,
        dims={"batch": 2, "past": past},
        state=(("keys", "cat_1"), ("values", "cat_2")),
    )
    result = compile_model(EXPORT, "mcm4", options)
    assert result.verification.holds
    assert result.verification.steps == steps
    assert {pair.past for chip in result.chips for pair in chip.states} == {"keys", "values"}
    assert {wire.tensor for wire in result.wires if wire.source == HOST} == {"tokens"}


def test_a_mesh_keeps_states_too(tmp_path):
    folder = tmp_path / "out"
    options = CompileOptions(level=0, replicas=1, inferences=8)
    result = compile_model(
        MODEL,
        small_mesh(2, 2, link_bytes_per_s=1e10, link_latency_s=1e-8, host_bytes_per_s=1e9),
        options,
        output=folder,
    )
    oracle = ReferenceStates(folder, WIDTHS, 64)
    assert len(oracle.pairs) == 4
    assert oracle.planned_state_bytes() == oracle.state_bytes(result.program.sequences)
    assert result.verification.holds


def test_states_that_are_switched_off_cross_the_host_link():
    passes = "simplify,fuse,annotate_cost,partition,legalize,split"
    result = compile_model(MODEL, "mcm4", CompileOptions(passes=passes, level=0, state=()))
    assert not any(chip.states for chip in result.chips)
    assert {wire.tensor for wire in result.wires} >= {"past_key_values.0.key", "present.0.key"}


def test_steps_need_a_state(tmp_path):
    folder = tmp_path / "out"
    options = CompileOptions(level=0, replicas=1, inferences=8)
    compile_model("zoo:gpt2-tiny{layers=1,seq=4}", "mcm4", options, output=folder)
    with pytest.raises(CompileError, match="no state that stays on a chip"):
        run_folder(folder, {"input_ids": np.zeros((1, 4), np.int64)}, 2)


def test_fewer_sequences_that_fit_are_what_is_told():
    """One sequence in flight is as fast as its latency allows."""
    passes = "simplify,fuse,annotate_cost,partition,legalize,split,lower,simulate"
    options = CompileOptions(passes=passes, level=0, sequences=1)
    result = compile_model(MODEL, "mcm4", options)
    assert result.program.sequences == 1
    assert result.simulation.period_s == pytest.approx(result.simulation.latency_s)
    assert [d.code for d in result.diagnostics] == ["MCM-P053"]


BUFFERS = """m (float[600] past_0, float[600] past_1, float[600] past_2, float[600] x)
    => (float[600] present_0, float[600] present_1, float[600] present_2) {
    present_0 = Add (past_0, x)
    present_1 = Mul (past_1, x)
    present_2 = Sub (past_2, x)
}"""


def test_states_are_given_up_where_nothing_fits_with_them():
    """Between past and present are two matrices of 10 KiB, and a chip has 16."""
    passes = "fuse,annotate_cost,partition,legalize,split,lower,simulate"
    target = PackageOptions(chips=2, sram_mib=1 / 64).target()
    model = parse(
        "m (float[1,64] past_0, float[1,64] x, float[64,80] w_0, float[80,64] w_1)"
        " => (float[1,64] present_0)"
        " { a = Add (past_0, x) b = MatMul (a, w_0) present_0 = MatMul (b, w_1) }"
    )
    with pytest.raises(CompileError, match="MCM-P052") as caught:
        compile_model(model, target, CompileOptions(passes=passes, sequences=1))
    result = compile_model(model, target, CompileOptions(passes=passes))
    (lost,) = (d for d in result.diagnostics if d.code == "MCM-P052")
    assert caught.value.diagnostics == (replace(lost, severity=Severity.ERROR),)
    assert lost.message.startswith("1 state cannot stay on a chip")
    assert {wire.tensor for wire in result.wires} >= {"past_0", "present_0"}
    assert result.program.sequences == 0
    report = build_report(result)
    (line,) = (line for line in report["verdict"]["lines"] if line["label"] == "states")
    assert (line["tone"], line["details"]) == ("bad", [lost.message])
    strict = success(Job("m", None), result, 0.0, strict=True)
    assert "MCM-P052" in strict.error_codes
    assert exit_code([strict]) == 1


def test_sequences_that_are_asked_for_are_kept_or_refused():
    passes = "fuse,annotate_cost,partition,legalize,split,lower,simulate"
    target = PackageOptions(chips=2, sram_mib=1 / 64).target()
    with pytest.raises(CompileError, match="the states of 7 sequences do not fit") as caught:
        compile_model(parse(BUFFERS), target, CompileOptions(passes=passes, sequences=7))
    assert [d.code for d in caught.value.diagnostics] == ["MCM-P080"]
    fewer = compile_model(parse(BUFFERS), target, CompileOptions(passes=passes, sequences=2))
    assert {d.code for d in fewer.diagnostics} <= {"MCM-P053"}
    assert fewer.program.sequences == 2


@pytest.mark.parametrize("state", [None, ()])
def test_sequences_of_a_model_without_states_are_refused(state):
    model = parse("m (float[600] x) => (float[600] y) { y = Relu (x) }")
    asked = CompileOptions(passes="fuse", sequences=7, state=state)
    with pytest.raises(CompileError, match="the model has no states") as caught:
        compile_model(model if state is None else parse(BUFFERS), "mcm4", asked)
    (told,) = caught.value.diagnostics
    assert (told.code, told.at) == ("MCM-P059", "option sequences")
    assert "memory for 7 sequences is asked for" in told.message


def test_sequences_are_refused_where_one_of_the_caches_has_no_present():
    model = parse(BUFFERS)
    model.graph.outputs[0].name = "other"
    asked = CompileOptions(passes="fuse", sequences=2)
    result = compile_model(model, "mcm4", replace(asked, sequences=None))
    assert {str(d.severity) for d in result.diagnostics if d.code == "MCM-P081"} == {"warning"}
    with pytest.raises(CompileError, match="no output belongs to 1 input") as caught:
        compile_model(model, "mcm4", asked)
    assert "MCM-P081" in {d.code for d in caught.value.diagnostics}


@pytest.mark.parametrize(
    ("asked", "code"), [((("past_0", "y"),), "MCM-P050"), ((("past_0", "odd"),), "MCM-P051")]
)
def test_states_that_cannot_be_are_refused(asked, code):
    text = BUFFERS.replace("=> (", "=> (float[300] odd, ")
    body = "half, rest = Split <num_outputs = 2> (x) odd = Relu (half)"
    model = parse(text.replace("{", "{ " + body, 1))
    with pytest.raises(CompileError) as caught:
        compile_model(model, "mcm4", CompileOptions(passes="simplify", state=asked))
    assert [d.code for d in caught.value.diagnostics] == [code]
