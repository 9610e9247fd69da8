import pytest


@pytest.mark.parametrize(
    ("op", "opset"), [('Gelu<approximate="tanh">', 20), ("HardSwish", 18), ("Mish", 18)]
)
def test_activations(check, op, opset):
    check(f"(float[2,3] x) => (float[2,3] y) {{ y = {op}(x) }}", opset=opset, high=2.5)


def test_axes_that_an_attribute_names(check):
    text = "y = CenterCropPad<axes=[1]>(x, shape)"
    check(f"(float[2,3] x) => (float[2,5] y) <int64[1] shape = {{5}}> {{ {text} }}")


def test_a_body_that_branches_on_shapes(check):
    text = "(float[1,2,3,4] q, float[1,2,3,4] k, float[1,2,3,4] v) => (float[1,2,3,4] y)"
    check(f"{text} {{ y = Attention<is_causal=1>(q, k, v) }}", opset=23)


def test_rotation(check):
    text = "(float[1,2,2,4] x, float[1,2,2] c, float[1,2,2] s) => (float[1,2,2,4] y)"
    check(f"{text} {{ y = RotaryEmbedding(x, c, s) }}", opset=23)


def test_a_scan_is_written_out(check):
    body = "(float[2] s, float[2] a) => (float[2] t, float[2] o) { t = Mul(s, a) o = Sin(t) }"
    text = "(float[2] first, float[3,2] a) => (float[2] t, float[3,2] o)"
    check(f"{text} {{ t, o = Scan<num_scan_inputs=1, body = step {body}>(first, a) }}")
