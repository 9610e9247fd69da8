"""Slower or faster than the baseline, and the reasons."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from mcm_compiler.ci.comparison import UNKNOWN, compare, explain
from mcm_compiler.ci.figures import Figures, figures_of, stored_op_times
from mcm_compiler.diagnostics import Severity
from mcm_compiler.report.report_data import build_report
from mcm_compiler.results.op_times import OpTime, program_op_times
from mcm_compiler.text.units import seconds_text
from tests.generators.example_result import bare_result, example_result


@pytest.fixture
def old() -> Figures:
    result = example_result()
    assert result.program is not None
    return figures_of(build_report(result), program_op_times(result.program))


def _slower(figures: Figures, factor: float = 2.0) -> Figures:
    period_s = figures.period_s * factor
    return replace(figures, period_s=period_s, throughput_per_s=1.0 / period_s)


def _with_op(figures: Figures, op: OpTime) -> Figures:
    return replace(figures, ops={**figures.ops, op.name: op})


def test_figures_are_those_of_the_report(old: Figures) -> None:
    assert old.throughput_per_s == 8000.0
    assert old.bottleneck == "chip 1"
    assert old.chip_busy_s == pytest.approx(274e-6, rel=0.01)
    assert old.link_bytes == 1_504_000
    assert old.added == {"relays": 1, "clones": 1, "sharded operators": 1}
    op = old.ops["layer1.1"]
    assert (op.name, op.chip, op.ops) == ("layer1.1", 1, 2)
    assert op.seconds == pytest.approx(60e-6, rel=0.02)
    assert len(old.ops) == 6


def test_a_stored_program_gives_the_same_times() -> None:
    program = example_result().program
    assert program is not None
    assert stored_op_times(program.to_dict()) == program_op_times(program)


def test_without_a_program_the_heaviest_ops_are_known() -> None:
    figures = figures_of(build_report(example_result()), None)
    assert sorted(figures.ops) == ["layer0.0", "layer1.0", "layer1.1", "layer1.2", "layer2.0"]
    assert not figures.all_ops


def test_kernels_of_one_name_are_added_up() -> None:
    times = (OpTime("mask", 0, 1, 1e-6), OpTime("mask", 2, 1, 2e-6))
    figures = figures_of(build_report(example_result()), times)
    assert figures.ops == {"mask": OpTime("mask", 0, 1, pytest.approx(3e-6))}


def test_a_report_without_throughput_is_refused() -> None:
    with pytest.raises(ValueError, match="not simulated"):
        figures_of(build_report(bare_result()), None)


def test_the_same_throughput_needs_no_reason(old: Figures) -> None:
    found = compare(old, old, 0.0)
    assert (found.change, found.regressed, found.reasons) == (0.0, False, ())
    assert found.diagnostics("m") == ()


def test_a_fall_within_the_limit_is_none(old: Figures) -> None:
    found = compare(old, _slower(old, 1.02), 0.03)
    assert not found.regressed
    assert found.diagnostics("m") == ()
    assert compare(old, _slower(old, 1.02), 0.01).regressed


def test_a_fall_names_the_numbers_and_the_op(old: Figures) -> None:
    new = _with_op(_slower(old), OpTime("layer1.1", 1, 2, 185e-6))
    error, *notes = compare(old, new, 0.03).diagnostics("net.onnx")
    assert (error.code, error.severity, error.at) == ("MCM-U031", Severity.ERROR, "net.onnx")
    assert error.message == (
        "throughput fell by 50.0 %, from 8,000 inferences/s to 4,000 inferences/s, where 3.0 % is "
        "allowed: 2 fused ops up to 'layer1.1' on chip 1 take 185 us, "
        f"{seconds_text(old.ops['layer1.1'].seconds)} before"
    )
    assert error.hint
    assert notes == []


def test_a_kernel_has_its_label_where_it_is_known(old: Figures) -> None:
    label = "MatMul+Add of 'layer1'"
    new = _with_op(_slower(old), OpTime("layer1.1", 1, 2, 185e-6, label))
    (error,) = compare(old, new, 0.03).diagnostics("net.onnx")
    assert f"{label} on chip 1 takes 185 us" in error.message


def test_the_report_labels_the_heaviest_kernels() -> None:
    report = build_report(example_result())
    times = (OpTime("layer1.1", 1, 2, 1e-6), OpTime("other", 1, 2, 1e-6))
    ops = figures_of(report, times).ops
    assert [ops[name].label for name in ops] == ["MatMul+Relu of 'layer1.1'", ""]


def test_labels_of_a_round_name_no_class() -> None:
    report: Any = build_report(example_result())
    report["replication"] = {"round": 2}
    kinds = {"kinds": ["MatMul", "Relu"], "layer": "heavy@1"}
    report["chips"][1]["heaviest_op"] = {"name": "heavy@1", "ops": 2, "seconds": 1e-6, **kinds}
    times = [OpTime(f"heavy@{index}", 1, 2, 1e-6) for index in range(2)]
    times += [OpTime(f"light@{index}", 1, 1, 1e-6, f"'light@{index}'") for index in range(2)]
    ops = figures_of(report, tuple(times)).ops
    labels = {name: op.label for name, op in ops.items()}
    assert labels == {"heavy": "MatMul+Relu of 'heavy'", "light": "'light'"}


def test_further_reasons_are_notes(old: Figures) -> None:
    new = replace(
        _slower(old), added={**old.added, "clones": 7}, versions={**old.versions, "onnx": "0.1"}
    )
    error, note = compare(old, new, 0.03).diagnostics("net.onnx")
    assert error.message.endswith("clones: 7, 1 before")
    assert note.code == "MCM-U032"
    assert note.severity is Severity.NOTE
    assert note.message == f"onnx is '0.1', '{old.versions['onnx']}' before"


def test_a_rise_is_a_note(old: Figures) -> None:
    new = _with_op(_slower(old, 0.5), OpTime("layer1.1", 1, 2, 5e-6))
    (note,) = compare(old, new, 0.0).diagnostics("net.onnx")
    assert (note.code, note.severity) == ("MCM-U033", Severity.NOTE)
    assert "rose by 100.0 %" in note.message
    before = seconds_text(old.ops["layer1.1"].seconds)
    assert f"take 5.00 us, {before} before" in note.message


def test_an_option_that_the_old_report_does_not_have_is_no_reason(old: Figures) -> None:
    first = replace(old, options={k: v for k, v in old.options.items() if k != "chips"})
    new = replace(_slower(old), options={**old.options, "chips": "2"})
    assert compare(first, new, 0.03).reasons == (UNKNOWN,)


def test_an_unexplained_fall_says_so(old: Figures) -> None:
    assert compare(old, _slower(old), 0.03).reasons == (UNKNOWN,)


Change = Callable[[Figures], Figures]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda f: replace(f, target="t2"), "the target is 't2', 'example3' before"),
        (lambda f: replace(f, target_sha256="0"), "description of the target 'example3' changed"),
        (
            lambda f: replace(f, options={**f.options, "partitioner": "greedy"}),
            "option partitioner is 'greedy', 'portfolio' before",
        ),
        (
            lambda f: replace(f, options={**f.options, "routing": "strict"}),
            "option routing is 'strict', 'relay' before",
        ),
        (
            lambda f: replace(f, options={**f.options, "chips": "2"}),
            "option chips is '2', 'none' before",
        ),
        (
            lambda f: replace(f, options={**f.options, "samples": "5"}),
            "option samples is '5', 'none' before",
        ),
        (
            lambda f: replace(f, model=replace(f.model, sha256="0", ops=9)),
            "the model changed: it has 9 ops and 32 B of weights, 2 ops and 32 B of weights before",
        ),
        (
            lambda f: replace(f, model=replace(f.model, sha256="0")),
            "with as many ops and bytes of weights as before",
        ),
        (lambda f: replace(f, lower_bound_s=200e-6), "no partition can be as fast as before"),
        (lambda f: replace(f, lower_bound_s=100e-6), "is 100 us, 110 us before"),
        (
            lambda f: replace(f, gap=0.5),
            "the simulated period is 50.0 % above the lower bound, 13.6 % before",
        ),
        (
            lambda f: replace(f, bottleneck="chip 2", bottleneck_busy_s=2e-4),
            "the bottleneck is chip 2 with 200 us, chip 1 with 12",
        ),
        (lambda f: replace(f, pipelines=4), "replicas: 4, 1 before"),
        (lambda f: replace(f, chips_used=1), "chips in use: 1, 3 before"),
        (lambda f: replace(f, chip_busy_s=3e-4), "together work 300 us per inference, 27"),
        (lambda f: replace(f, link_bytes=2048), "carry 2.0 KiB per inference, 1.4 MiB before"),
        (lambda f: replace(f, added={**f.added, "relays": 4}), "relays: 4, 1 before"),
        (
            lambda f: replace(f, added={**f.added, "sharded operators": 0}),
            "sharded operators: 0, 1 before",
        ),
        (
            lambda f: _with_op(f, OpTime("new", 2, 1, 50e-6)),
            "'new' on chip 2 takes 50.0 us, and there was no op of that name before",
        ),
    ],
)
def test_reasons(old: Figures, change: Change, reason: str) -> None:
    (found,) = explain(old, change(_slower(old)))
    assert reason in found


def test_ops_that_hardly_changed_are_no_reason(old: Figures) -> None:
    new = _with_op(_slower(old), OpTime("layer1.1", 1, 2, 61e-6))
    assert explain(old, new) == ()


def test_an_op_unknown_to_half_the_baseline_is_not_called_new(old: Figures) -> None:
    new = _with_op(_slower(old), OpTime("new", 2, 1, 50e-6))
    assert explain(replace(old, all_ops=False), new) == ()


def test_hostile_names_are_quoted(old: Figures) -> None:
    new = _with_op(_slower(old), OpTime("a\n\x1b[31m", 2, 1, 50e-6))
    assert r"'a\n\x1b[31m'" in explain(old, new)[0]


def test_json_form(old: Figures) -> None:
    data: dict[str, Any] = compare(old, _slower(old), 0.03).to_dict()
    assert data == {
        "baseline_throughput_per_s": 8000.0,
        "throughput_per_s": 4000.0,
        "change": -0.5,
        "max_regression": 0.03,
        "regressed": True,
        "reasons": [UNKNOWN],
    }


def _changed(figures: Figures) -> Figures:
    return replace(figures, model=replace(figures.model, sha256="0", ops=figures.model.ops + 1))


def test_a_new_op_of_a_changed_model_is_told_before_an_option(old: Figures) -> None:
    other_seed = {**old.options, "seed": "7", "routing": "strict"}
    new = _with_op(_slower(old), OpTime("layer9.0", 1, 1, 185e-6))
    new = replace(_changed(new), options=other_seed)
    reasons = explain(old, new)
    assert "'layer9.0' on chip 1 takes 185 us, and there was no op of that name before" in reasons
    assert reasons[0].startswith("'layer9.0'")
    assert reasons[1].startswith("the model changed")
    assert [r for r in reasons if r.startswith("option ")] == [
        "option routing is 'strict', 'relay' before",
        f"option seed is '7', '{old.options['seed']}' before",
    ]
    assert len(set(reasons)) == len(reasons)


def test_options_of_an_unchanged_model_are_told_before_its_ops(old: Figures) -> None:
    new = _with_op(_slower(old), OpTime("layer1.1", 1, 2, 185e-6))
    new = replace(new, options={**old.options, "seed": "7"})
    assert explain(old, new)[0] == f"option seed is '7', '{old.options['seed']}' before"


def test_a_bound_above_the_old_period_rules_the_search_out(old: Figures) -> None:
    new = replace(
        _slower(old),
        lower_bound_s=old.period_s * 1.5,
        options={**old.options, "seed": "7", "routing": "strict"},
    )
    first, second, third, *_ = explain(old, new)
    assert first.startswith("option routing")
    assert second.startswith("no partition can be as fast as before")
    assert third.startswith("option seed")
    assert sum(reason.startswith("no partition can") for reason in explain(old, new)) == 1


def test_what_is_gone_makes_faster_and_never_slower(old: Figures) -> None:
    ops = {name: op for name, op in old.ops.items() if name != "layer1.1"}
    (reason,) = explain(old, replace(_slower(old, 0.5), ops=ops))
    before = seconds_text(old.ops["layer1.1"].seconds)
    assert reason == f"MatMul+Relu of 'layer1.1' is gone, {before} on chip 1 before"
    assert explain(old, replace(_slower(old), ops=ops)) == ()


def test_another_kind_of_proof_is_named(old: Figures) -> None:
    moved = replace(_slower(old), lower_bound_s=120e-6, bound_proof="windows")
    (reason,) = explain(old, moved)
    assert reason == (
        "the lower bound on the period is 120 us (proof windows), 110 us (proof total_work) before"
    )
