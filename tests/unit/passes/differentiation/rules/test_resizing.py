import jax
import jax.scipy.ndimage
import numpy as np
import onnx
import onnx_ir as ir
import pytest

from tests.generators.appended_gradients import append_gradients
from tests.oracles.central_differences import onnxruntime_of

COORDINATES = [
    "half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric",
]  # fmt: skip


@pytest.mark.parametrize("coordinates", COORDINATES)
@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
def test_coordinates(check, mode, coordinates):
    text = "(float[1,1,3,4] x) => (float[1,1,5,3] y) <int64[4] sizes = {1, 1, 5, 3}>"
    how = f'mode="{mode}", coordinate_transformation_mode="{coordinates}"'
    check(f"{text} {{ y = Resize<{how}>(x, , , sizes) }}", opset=19)


@pytest.mark.parametrize("rounding", ["floor", "ceil", "round_prefer_ceil"])
def test_nearest_places(check, rounding):
    text = f'y = Resize<nearest_mode="{rounding}">(x, , , sizes)'
    check(f"(float[1,1,4] x) => (float[1,1,6] y) <int64[3] sizes = {{1, 1, 6}}> {{ {text} }}")


@pytest.mark.parametrize("mode", ["linear", "cubic"])
def test_shrinking_with_a_wide_filter(check, mode):
    text = "(float[1,1,6,2] x) => (float[1,1,3,2] y) <int64[4] sizes = {1, 1, 3, 2}>"
    check(f'{text} {{ y = Resize<mode="{mode}", antialias=1>(x, , , sizes) }}', opset=19)


@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
def test_nearest_places_of_a_grid(check, padding):
    text = "(float[1,1,3,4] x, float[1,2,2,2] grid) => (float[1,1,2,2] y)"
    how = f'mode="nearest", padding_mode="{padding}"'
    check(f"{text} {{ y = GridSample<{how}>(x, grid) }}", opset=20, high=1.4, low=-1.3)


SAMPLED = """<ir_version: 8, opset_import: ["" : 20]>
g (float[1,1,3,4] x, float[1,1,6,2] grid, float[1,1,1,6] f) => (float loss) {{
    y = GridSample<mode="linear", padding_mode="{padding}", align_corners={aligned}>(x, grid)
    p = Mul(y, f)
    loss = ReduceSum<keepdims=0>(p)
}}"""


@pytest.mark.parametrize("aligned", [0, 1])
@pytest.mark.parametrize(("padding", "mode"), [("zeros", "constant"), ("border", "nearest")])
def test_between_places_of_a_grid(padding, mode, aligned):
    # onnx's reference rounds what it samples to float32, so that jax is the oracle.
    rng = np.random.default_rng(5)
    arrays = {
        "x": rng.normal(size=(1, 1, 3, 4)).astype("f"),
        "grid": rng.uniform(-1.3, 1.3, size=(1, 1, 6, 2)).astype("f"),
        "f": rng.normal(size=(1, 1, 1, 6)).astype("f"),
    }

    def loss(x, grid):
        places = [
            (grid[0, 0, :, part] + 1) * ((size - aligned) / 2) - (0.5 - aligned / 2)
            for part, size in ((1, 3), (0, 4))
        ]
        taken = jax.scipy.ndimage.map_coordinates(x[0, 0], places, order=1, mode=mode)
        return (taken * arrays["f"][0, 0, 0]).sum()

    proto = onnx.parser.parse_model(SAMPLED.format(padding=padding, aligned=aligned))
    for index, node in enumerate(proto.graph.node):
        node.name = f"n{index}"
    model = ir.from_proto(onnx.shape_inference.infer_shapes(proto, data_prop=True))
    append_gradients(model, "loss", ["x", "grid"])
    made = onnxruntime_of(ir.to_proto(model))(arrays)
    due = jax.grad(loss, argnums=(0, 1))(arrays["x"], arrays["grid"])
    for name, array in zip(("x", "grid"), due, strict=True):
        np.testing.assert_allclose(made[f"grad/{name}"], array, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("aligned", [0, 1])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
def test_cubic_pieces_between_places_of_a_grid(padding, aligned):
    # onnx's reference brings places back from beyond the border, onnxruntime only their taps.
    rng = np.random.default_rng(7)
    arrays = {
        "x": rng.normal(size=(1, 1, 3, 4)).astype("f"),
        "grid": rng.uniform(-1.4, 1.4, size=(1, 1, 6, 2)).astype("f"),
        "f": rng.normal(size=(1, 1, 1, 6)).astype("f"),
    }
    text = SAMPLED.format(padding=padding, aligned=aligned).replace('"linear"', '"cubic"')
    proto = onnx.parser.parse_model(text)
    for index, node in enumerate(proto.graph.node):
        node.name = f"n{index}"
    model = ir.from_proto(onnx.shape_inference.infer_shapes(proto, data_prop=True))
    append_gradients(model, "loss", ["x", "grid"])
    run = onnxruntime_of(ir.to_proto(model))
    made = run(arrays)
    # The loss is linear in x.
    np.testing.assert_allclose((made["grad/x"] * arrays["x"]).sum(), made["loss"], rtol=1e-4)
    step = 2e-3
    measured = np.zeros((1, 1, 6, 2))
    for place in np.ndindex(measured.shape):
        moved = np.zeros((1, 1, 6, 2), np.float32)
        moved[place] = step
        sides = [run(arrays | {"grid": arrays["grid"] + way * moved})["loss"] for way in (1, -1)]
        measured[place] = (sides[0] - sides[1]) / (2 * step)
    np.testing.assert_allclose(made["grad/grid"], measured, rtol=1e-2, atol=2e-2)
