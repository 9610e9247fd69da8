import onnx_ir as ir
import pytest

from tests.generators.appended_gradients import append_gradients

SHAPES = (
    ("[2,3]", "[3,4]", "[2,4]"),
    ("[5,2,3]", "[3,4]", "[5,2,4]"),
    ("[2,3]", "[5,3,4]", "[5,2,4]"),
    ("[5,1,2,3]", "[2,3,4]", "[5,2,2,4]"),
    ("[3]", "[3,4]", "[4]"),
    ("[2,3]", "[3]", "[2]"),
    ("[3]", "[3]", ""),
    ("[5,2,3]", "[3]", "[5,2]"),
    ("[3]", "[5,3,4]", "[5,4]"),
)


@pytest.mark.parametrize(("a", "b", "y"), SHAPES)
def test_matrix_products_of_all_ranks(check, a, b, y):
    check(f"(float{a} a, float{b} b) => (float{y} y) {{ y = MatMul(a, b) }}")


@pytest.mark.parametrize("trans_a", [0, 1])
@pytest.mark.parametrize("trans_b", [0, 1])
def test_gemm(check, trans_a, trans_b):
    a, b = "[3,2]" if trans_a else "[2,3]", "[4,3]" if trans_b else "[3,4]"
    options = f"transA={trans_a}, transB={trans_b}, alpha=0.5, beta=-1.5"
    check(
        f"(float{a} a, float{b} b, float[4] c) => (float[2,4] y) {{ y = Gemm<{options}>(a, b, c) }}"
    )


def test_gemm_without_addend(check):
    check("(float[2,3] a, float[3,4] b) => (float[2,4] y) { y = Gemm(a, b) }")


def test_the_gradient_of_a_weight_is_one_product_over_the_whole_batch():
    model = ir.from_onnx_text(
        '<ir_version: 8, opset_import: ["" : 18]> graph (float[5,2,3] x, float[3,4] w) => '
        "(float loss) { y = MatMul(x, w) loss = ReduceSum<keepdims=0>(y) }"
    )
    append_gradients(model, "loss", ["w"])
    kinds = [node.op_type for node in model.graph]
    assert kinds.count("Gemm") == 1
    assert kinds.count("MatMul") == 1
