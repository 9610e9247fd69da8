import pytest

ONE = "(float[2,3] x) => (float[2,3] y) {{ y = {} }}"

ANYWHERE = (
    "Neg(x)", "Abs(x)", "Exp(x)", "Sin(x)", "Cos(x)", "Atan(x)", "Asinh(x)", "Tanh(x)",
    "Sigmoid(x)", "Relu(x)", "LeakyRelu<alpha=0.3>(x)", "Elu<alpha=0.7>(x)", "Selu(x)",
    "HardSigmoid<alpha=0.4>(x)", "Softplus(x)", "Softsign(x)", "Erf(x)", "Sinh(x)", "Cosh(x)",
    "ThresholdedRelu<alpha=0.4>(x)", "Shrink<lambd=0.6, bias=0.1>(x)", "Ceil(x)", "Floor(x)",
    "Round(x)", "Sign(x)", "Identity(x)", "Mul(x, x)", "Dropout(x)", "Sum(x, x, x)", "Max(x)",
)  # fmt: skip


@pytest.mark.parametrize("op", ANYWHERE)
def test_ops_of_one_operand(check, op):
    check(ONE.format(op))


@pytest.mark.parametrize("op", ["Log(x)", "Sqrt(x)", "Reciprocal(x)", "Tan(x)"])
def test_ops_of_positive_numbers(check, op):
    check(ONE.format(op), low=0.4, high=1.2)


@pytest.mark.parametrize("op", ["Asin(x)", "Acos(x)", "Atanh(x)"])
def test_ops_of_numbers_between_minus_one_and_one(check, op):
    check(ONE.format(op), low=-0.8, high=0.8)


def test_acosh(check):
    check(ONE.format("Acosh(x)"), low=1.3, high=3.0)


@pytest.mark.parametrize("op", ["Add", "Sub", "Mul", "Div", "Pow"])
@pytest.mark.parametrize("shapes", ["[2,3] [2,3]", "[2,1,3] [4,1]", "[3] [2,3]"])
def test_two_operands_are_summed_where_they_were_broadcast(check, op, shapes):
    a, b = shapes.split()
    out = {"[2,3]": "[2,3]", "[2,1,3]": "[2,4,3]", "[3]": "[2,3]"}[a]
    check(f"(float{a} a, float{b} b) => (float{out} y) {{ y = {op}(a, b) }}", low=0.5, high=2.5)


def test_a_square_is_written_without_a_power(check):
    check("(float[3] x) => (float[3] y) <float two = {2.0}> { y = Pow(x, two) }")
    check("(float[3] x, int64 two) => (float[3] y) { y = Pow(x, two) }", two=2)


@pytest.mark.parametrize("op", ["Max", "Min", "Sum", "Mean"])
def test_many_operands(check, op):
    text = "(float[2,3] a, float[3] b, float[2,1] c) => (float[2,3] y)"
    check(f"{text} {{ y = {op}(a, b, c) }}")


def test_equal_operands_share_the_gradient_of_their_maximum(check):
    # Both move together, so that the difference is what both have in common.
    check("(float[3] x) => (float[3] y) { a = Mul(x, x) y = Max(a, a) }")


def test_mod_of_floats(check):
    text = "(float[4] a, float[4] b) => (float[4] y) { y = Mod<fmod=1>(a, b) }"
    check(text, a=[5.3, -4.2, 7.9, 2.2], b=[2.0, 1.5, -3.1, 0.9])


def test_where_and_prelu(check):
    text = "(bool[2,3] c, float[2,3] a, float[3] b) => (float[2,3] y) { y = Where(c, a, b) }"
    check(text, c=[[True, False, True], [False, False, True]])
    check("(float[2,3] x, float[3] s) => (float[2,3] y) { y = PRelu(x, s) }")


def test_clip_passes_within_and_hands_the_rest_to_its_bounds(check):
    text = "(float[2,3] x, float l, float h) => (float[2,3] y) { y = Clip(x, l, h) }"
    check(text, l=-0.9, h=0.7)
    check(text.replace("Clip(x, l, h)", "Clip(x, , h)"), l=0.0, h=0.7)
    check(text, l=1.0, h=-1.0)


def test_cast_goes_back_to_the_type_of_its_operand(check):
    check("(float[3] x) => (float[3] y) { d = Cast<to=11>(x) e = Mul(d, d) y = CastLike(e, x) }")
