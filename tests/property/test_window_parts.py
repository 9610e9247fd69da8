"""Tiles with halos of convolutions and pools: what is proven is what onnxruntime computes."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace

import numpy as np
import onnx
import onnxruntime as ort
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.generators.one_chip import Arrays, model_text, prove_one_chip

CHANNELS = 4


@dataclass(frozen=True)
class Windows:
    """Windows along one axis."""

    extent: int
    kernel: int
    stride: int
    dilation: int
    before: int
    after: int
    ceil: bool

    @property
    def count(self) -> int:
        left = self.extent + self.before + self.after - (self.kernel - 1) * self.dilation - 1
        return (-(-left // self.stride) if self.ceil else left // self.stride) + 1

    def tile(self, first: int, last: int) -> tuple[int, int, int, int]:
        """The image that windows `[first, last)` read, and the padding that they still need."""
        low = first * self.stride - self.before
        high = (last - 1) * self.stride - self.before + (self.kernel - 1) * self.dilation + 1
        start, stop = max(low, 0), min(high, self.extent)
        # Pools may have no more padding than their kernel; rounding up adds what is missing.
        rounded = self.ceil and stop == self.extent
        return start, stop, start - low, self.after if rounded else high - stop


@st.composite
def windows(draw: st.DrawFn, *, pool: bool, ceil: bool) -> Windows:
    kernel, stride, dilation = (draw(st.integers(1, 3)) for _ in range(3))
    most = min(kernel - 1, 2) if pool else 2
    before, after = draw(st.integers(0, most)), draw(st.integers(0, most))
    reach = (kernel - 1) * dilation + 1
    # Every window begins in the image, and every tile has some of it.
    extent = draw(st.integers(reach + 2 * stride + 2, reach + 4 * stride + 6))
    found = Windows(extent, kernel, stride, dilation, before, after, ceil)
    assume((found.count - 1) * stride - before < extent)
    return found


@dataclass(frozen=True)
class Case:
    """An op, and the tiles that it is cut into: rows, and columns of rows."""

    op: str
    axes: tuple[Windows, Windows]
    rows: tuple[int, ...]
    columns: tuple[int, ...]
    further: str
    weights: tuple[tuple[int, ...], ...]

    def attributes(self, pads: tuple[int, ...], *, ceil: bool) -> str:
        parts = [f"pads = {list(pads)}", *([self.further] if self.further else [])]
        for name, own in (("strides", "stride"), ("dilations", "dilation")):
            parts.append(f"{name} = {[getattr(axis, own) for axis in self.axes]}")
        parts.append(f"kernel_shape = {[axis.kernel for axis in self.axes]}")
        if ceil:
            parts.append("ceil_mode = 1")
        return f"{self.op} <{', '.join(parts)}>"


@st.composite
def cases(draw: st.DrawFn) -> Case:
    op = draw(st.sampled_from(["Conv", "MaxPool", "AveragePool"]))
    ceil = op != "Conv" and draw(st.booleans())
    axes = tuple(draw(windows(pool=op != "Conv", ceil=ceil)) for _ in range(2))
    bounds = [
        (0, *sorted(draw(st.sets(st.integers(1, axis.count - 1), max_size=most))), axis.count)
        if axis.count > 1
        else (0, 1)
        for axis, most in zip(axes, (3, 1), strict=True)
    ]
    further, weights = "", ()
    if op == "Conv":
        group = draw(st.sampled_from([1, 2, CHANNELS]))
        further = f"group = {group}"
        weights = ((CHANNELS, CHANNELS // group, axes[0].kernel, axes[1].kernel),)
    if op == "AveragePool" and not ceil:
        further = f"count_include_pad = {draw(st.integers(0, 1))}"
    return Case(op, (axes[0], axes[1]), bounds[0], bounds[1], further, weights)


Tile = tuple[tuple[int, ...], tuple[int, ...]]


def tiles(case: Case) -> list[list[Tile]]:
    pairs = [list(itertools.pairwise(cuts)) for cuts in (case.rows, case.columns)]
    rows, columns = case.axes
    return [[(rows.tile(*r), columns.tile(*c)) for c in pairs[1]] for r in pairs[0]]


def chip_text(case: Case, grid: list[list[Tile]], operands: str) -> str:
    lines = ["r = Relu (x)"]
    for i, row in enumerate(grid):
        for j, (down, right) in enumerate(row):
            pads = (down[2], right[2], down[3], right[3])
            name = f"{i}_{j}"
            lines.append(
                f"s{name} = Constant <value_ints: ints = {[down[0], right[0]]}> () "
                f"e{name} = Constant <value_ints: ints = {[down[1], right[1]]}> () "
                f"a{name} = Constant <value_ints: ints = [2, 3]> () "
                f"p{name} = Slice (r, s{name}, e{name}, a{name}) "
                f"c{name} = {case.attributes(pads, ceil=case.axes[0].ceil)} (p{name}{operands}) "
                f"t{name} = Tanh (c{name})"
            )
        lines.append(
            f"l{i} = Concat <axis = 3> ({', '.join(f't{i}_{j}' for j in range(len(row)))})"
        )
    lines.append(f"y = Concat <axis = 2> ({', '.join(f'l{i}' for i in range(len(grid)))})")
    return " ".join(lines)


def models(case: Case, grid: list[list[Tile]]) -> tuple[onnx.ModelProto, onnx.ModelProto]:
    rows, columns = case.axes
    weights: Arrays = {
        f"w{k}": np.random.default_rng(k).standard_normal(shape, np.float32)
        for k, shape in enumerate(case.weights)
    }
    operands = "".join(f", {name}" for name in weights)
    ends = (
        f"(float[1,{CHANNELS},{rows.extent},{columns.extent}] x) => "
        f"(float[1,{CHANNELS},{rows.count},{columns.count}] y)"
    )
    pads = (rows.before, columns.before, rows.after, columns.after)
    whole = f"r = Relu (x) c = {case.attributes(pads, ceil=rows.ceil)} (r{operands}) y = Tanh (c)"
    return (
        model_text(f"m {ends} {{ {whole} }}", weights),
        model_text(f"c {ends} {{ {chip_text(case, grid, operands)} }}", weights),
    )


def outputs(model: onnx.ModelProto) -> np.ndarray | None:
    """What onnxruntime computes, or None where it refuses the model."""
    options = ort.SessionOptions()
    options.log_severity_level = 4
    try:
        session = ort.InferenceSession(
            model.SerializeToString(), options, providers=["CPUExecutionProvider"]
        )
        (own,) = session.get_inputs()
        # Above zero, so that no window of other elements gives the same.
        x = np.random.default_rng(9).uniform(0.1, 1.0, own.shape).astype(np.float32)
        return np.asarray(session.run(None, {"x": x})[0])
    except Exception:
        return None


def same(left: np.ndarray | None, right: np.ndarray | None) -> bool:
    return (
        left is not None
        and right is not None
        and left.shape == right.shape
        and np.allclose(left, right, rtol=1e-4, atol=1e-5)
    )


@settings(max_examples=60, deadline=None)
@given(cases())
def test_tiles_with_their_halos_are_proven(case: Case) -> None:
    grid = tiles(case)
    for tile in itertools.chain(*grid):
        for axis, (start, stop, before, after) in zip(case.axes, tile, strict=True):
            reach = (axis.kernel - 1) * axis.dilation + 1
            # On windows that are larger than the image with its padding, runtimes differ.
            assume(start < stop and stop - start + before + after >= reach)
    whole, chip = models(case, grid)
    assert same(outputs(whole), outputs(chip))
    found = prove_one_chip(whole, chip)
    assert found.whole
    assert not found.outputs


@settings(max_examples=60, deadline=None)
@given(cases(), st.data())
def test_other_halos_are_proven_only_if_they_compute_the_same(
    case: Case, data: st.DataObject
) -> None:
    grid = tiles(case)
    i, j = data.draw(st.integers(0, len(grid) - 1)), data.draw(st.integers(0, len(grid[0]) - 1))
    axis, at = data.draw(st.integers(0, 1)), data.draw(st.integers(0, 3))
    by = data.draw(st.sampled_from([-2, -1, 1, 2]))
    tile = [list(one) for one in grid[i][j]]
    tile[axis][at] = max(0, tile[axis][at] + by)
    if data.draw(st.booleans()):  # the same size again
        other = {0: 1, 1: 0, 2: 3, 3: 2}[at]
        tile[axis][other] = max(0, tile[axis][other] + (by if at < 2 else -by))
    grid[i][j] = (tuple(tile[0]), tuple(tile[1]))
    if data.draw(st.booleans()):
        case = replace(case, further=case.further.replace("count_include_pad = 1", ""))
    whole, chip = models(case, grid)
    expected, made = outputs(whole), outputs(chip)
    if made is None or expected is None:
        return
    found = prove_one_chip(whole, chip)
    assert not (found.whole and not found.outputs) or same(expected, made)
