"""Times that are learned from kernels of other models."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable
from dataclasses import replace

import numpy as np
import onnx
import onnx.parser
import onnx_ir as ir
import pytest

from mcm_compiler.components.cost_choice import calibrated, choice_of, with_cost_model
from mcm_compiler.components.cost_files import held_files
from mcm_compiler.contracts.cost import LearnedTimes, MeasuredKernels
from mcm_compiler.contracts.target import Target
from mcm_compiler.diagnostics import CompileError
from mcm_hardware.chip.roofline import cycle_model
from mcm_hardware.families.ring.ring_target import cpu_ring, mcm4
from mcm_hardware.measured_times.kernel_process import (
    COMPILED,
    FEATURES,
    SCALES,
    KernelProcess,
    KnownKernels,
    slope_of_evidence,
)
from mcm_hardware.measured_times.learned_times import kernel_features, learned_times

OWN = cycle_model(cpu_ring().spec.reference)


Point = tuple[int, str, tuple[float, ...]]


def drawn(count: int, seed: int = 0) -> KnownKernels:
    draw = np.random.default_rng(seed)
    features = draw.uniform(0, 3, (count, FEATURES)).round(4)
    residuals = np.sin(features[:, 0]) + 0.01 * draw.standard_normal(count)
    types = tuple("Conv" if one < 0.5 else "Add" for one in draw.uniform(size=count))
    models = tuple(draw.integers(COMPILED, 3, count).tolist())
    scales = tuple(draw.uniform(-1, 1, SCALES).round(3).tolist())
    rows = tuple(map(tuple, features.tolist()))
    return KnownKernels("here", (1.0,), scales, models, types, rows, tuple(residuals.tolist()))


def points(known: KnownKernels) -> list[Point]:
    return list(zip(known.models, known.types, known.features, strict=True))


def covariance(known: KnownKernels, a: Point, b: Point) -> float:
    """By one pair of kernels, as the book has it."""
    variance, _, of_type, between, *lengths = map(math.exp, known.scales)
    square = (a[1] != b[1]) / of_type**2
    for left, right, length in zip(a[2], b[2], lengths, strict=True):
        square += ((left - right) / length) ** 2
    root = math.sqrt(3.0 * square)
    return variance * (1.0 + root) * math.exp(-root) + between * (a[0] == b[0])


def dense(known: KnownKernels) -> np.ndarray:
    matrix = np.array([[covariance(known, a, b) for b in points(known)] for a in points(known)])
    return matrix + math.exp(known.scales[1]) * np.eye(len(matrix))


def evidence(known: KnownKernels) -> float:
    matrix, y = dense(known), np.array(known.residuals)
    _, logarithm = np.linalg.slogdet(matrix)
    return -0.5 * float(y @ np.linalg.solve(matrix, y)) - 0.5 * float(logarithm)


def test_predictions_are_those_of_the_dense_formula() -> None:
    known = drawn(12)
    process, matrix = KernelProcess(known), dense(known)
    for _, kind, features in points(drawn(3, seed=1)):
        point = (COMPILED, kind, features)
        near = np.array([covariance(known, point, one) for one in points(known)])
        mean, deviation = process.predicted(kind, features)
        assert mean == pytest.approx(near @ np.linalg.solve(matrix, known.residuals))
        variance = covariance(known, point, point) - near @ np.linalg.solve(matrix, near)
        assert deviation == pytest.approx(math.sqrt(variance))


def test_slope_is_that_of_the_evidence() -> None:
    known = drawn(10)
    found = slope_of_evidence(np.array(known.scales), known)
    for at in range(SCALES):
        both: list[float] = []
        for step in (1e-5, -1e-5):
            scales = list(known.scales)
            scales[at] += step
            both.append(evidence(replace(known, scales=tuple(scales))))
        assert found[at] == pytest.approx((both[0] - both[1]) / 2e-5, rel=1e-4, abs=1e-6)


def test_fit_finds_the_feature_that_times_depend_on() -> None:
    known = drawn(60).fitted()
    assert evidence(known) > evidence(drawn(60))
    lengths = known.scales[4:]
    assert lengths[0] == min(lengths)
    others = drawn(20, seed=2)
    process = KernelProcess(known)
    predicted = [process.predicted(kind, features)[0] for _, kind, features in points(others)]
    assert np.abs(np.array(predicted) - others.residuals).mean() < 0.15


SIZES = (32, 48, 64, 96, 128, 192, 256)


@pytest.fixture(scope="module")
def kernels() -> dict[tuple[str, int], ir.Node]:
    """Products and elementwise ops of many sizes."""
    lines = [f"[Erf{n}] e{n} = Erf (a{n}) [MatMul{n}] p{n} = MatMul (a{n}, a{n})" for n in SIZES]
    arrays = ", ".join(f"float[{n},{n}] a{n}" for n in SIZES)
    text = f"""<ir_version: 10, opset_import: ["": 21]>
    g ({arrays}) => (float[32,32] p32) {{ {" ".join(lines)} }}"""
    proto = onnx.shape_inference.infer_shapes(onnx.parser.parse_model(text))
    nodes = ir.from_proto(proto).graph
    return {(node.op_type, SIZES[at // 2]): node for at, node in enumerate(nodes)}


def models(
    kernels: dict[tuple[str, int], ir.Node], noise: float, learnable: bool
) -> list[MeasuredKernels]:
    """Six models; times of a size are off by as much in all of them, or in none alike."""
    draw = np.random.default_rng(5)
    found: list[MeasuredKernels] = []
    for _ in range(6):
        some = draw.permutation(len(kernels))[:10]
        model: list[tuple[tuple[ir.Node, ...], float]] = []
        for (kind, size), node in itertools.compress(kernels.items(), np.isin(range(14), some)):
            off = (1.0 if kind == "Erf" else -0.7) + 0.5 * math.log(size / 64)
            gain = math.exp(off * learnable + noise * draw.standard_normal())
            model.append(((node,), OWN.node_cost(node).seconds * gain))
        found.append(model)
    return found


def learned(measured: list[MeasuredKernels]) -> LearnedTimes:
    found = learned_times(
        OWN, measured, "here", lambda rows: lambda nodes: OWN.group_cost(nodes).seconds
    )
    assert found is not None
    return found


def test_learned_times_count_where_models_have_something_in_common(
    kernels: dict[tuple[str, int], ir.Node],
) -> None:
    found = learned(models(kernels, 0.02, learnable=True))
    assert found.is_better
    assert found.means["learned"] < 0.1
    assert found.means["calibrated"] > 0.3
    assert not learned(models(kernels, 0.5, learnable=False)).is_better
    few = models(kernels, 0.0, learnable=True)[:4]
    assert learned_times(OWN, few, "here", lambda rows: lambda nodes: 1.0) is None


def rows(nodes: Iterable[ir.Node], times: float, machine: str) -> bytes:
    lines = [f"{n.name},{times * OWN.node_cost(n).seconds:.9g},{machine}" for n in nodes]
    return "\n".join(["node,seconds,machine", *lines, ""]).encode()


def test_rows_and_known_kernels_predict_the_rest(kernels: dict[tuple[str, int], ir.Node]) -> None:
    known = learned(models(kernels, 0.02, learnable=True)).content
    nodes = list(kernels.values())
    files = {"t.csv": rows(nodes[-2:-1], math.exp(1.0 + 0.5 * math.log(4)), "here"), "k": known}
    given = with_cost_model(cpu_ring(), "table{file=t.csv,known=k}", held_files(files))
    target = calibrated(given, [(node,) for node in nodes])
    choice = choice_of(target)
    assert choice is not None
    assert choice.text == "table{file=cost_model.file.csv,factor=1.0,known=cost_model.known}"
    assert len(choice.stored["cost_model.known"]) > len(known)
    for (kind, size), node in kernels.items():
        off = (1.0 if kind == "Erf" else -0.7) + 0.5 * math.log(size / 64)
        cost, own = target.cost_model().node_cost(node), OWN.node_cost(node)
        assert cost.seconds == pytest.approx(own.seconds * math.exp(off), rel=0.15)
        assert (cost.read_bytes, cost.deviation_s > 0.0) == (own.read_bytes, not cost.measured_ops)
    again = with_cost_model(cpu_ring(), choice.text, held_files(choice.stored))
    assert again.cost_model().node_cost(nodes[0]) == target.cost_model().node_cost(nodes[0])


@pytest.mark.parametrize(
    ("content", "machine", "target", "message"),
    [
        (None, "there", cpu_ring, "measured on here, the rows on there"),
        (None, "", cpu_ring, "the rows on no machine that is named"),
        (None, "here", mcm4, "other numbers of the chip"),
        (b"[]", "here", cpu_ring, "holds no kernels"),
        (b"\xff", "here", cpu_ring, "holds no kernels"),
    ],
)
def test_kernels_of_another_machine_or_chip_are_refused(
    kernels: dict[tuple[str, int], ir.Node],
    content: bytes | None,
    machine: str,
    target: Callable[[], Target],
    message: str,
) -> None:
    known = content or learned(models(kernels, 0.02, learnable=True)).content
    files = {"t.csv": rows(list(kernels.values())[:1], 1.0, machine), "k.json": known}
    with pytest.raises(CompileError) as caught:
        with_cost_model(target(), "table{file=t.csv,known=k.json}", held_files(files))
    assert caught.value.diagnostics[0].code == "MCM-C017"
    assert message in caught.value.diagnostics[0].message


def test_features_see_sizes_and_the_main_op(kernels: dict[tuple[str, int], ir.Node]) -> None:
    storage = OWN.chip.storage
    kind, features = kernel_features((kernels["MatMul", 64], kernels["Erf", 64]), storage)
    assert kind == "MatMul"
    assert len(features) == FEATURES
    assert features[5] == pytest.approx(math.log1p(64), abs=1e-4)
