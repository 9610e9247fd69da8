import numpy as np
import onnx_ir as ir
import pytest

from mcm_passes.differentiation.emission import EmissionError, Operand, TypeInference

FLOAT, INT64 = ir.DataType.FLOAT, ir.DataType.INT64


def ints(*numbers):
    return Operand(INT64, (len(numbers),), np.array(numbers, np.int64))


def attributes(**given):
    return {k: ir.convenience.convert_attribute(k, v) for k, v in given.items()}


def test_constants_decide_shapes():
    inference = TypeInference(18)
    x = Operand(FLOAT, (2, 6))
    assert inference.results("Reshape", [x, ints(3, 4)], {}, 1) == ((FLOAT, (3, 4)),)
    assert inference.results("Reshape", [x, ints(4, -1)], {}, 1) == ((FLOAT, (4, 3)),)


def test_attributes_decide_shapes_and_types():
    inference = TypeInference(18)
    x = Operand(FLOAT, (2, 6))
    keep, drop = attributes(keepdims=1), attributes(keepdims=0)
    assert inference.results("ReduceSum", [x, ints(1)], keep, 1) == ((FLOAT, (2, 1)),)
    assert inference.results("ReduceSum", [x, ints(1)], drop, 1) == ((FLOAT, (2,)),)
    assert inference.results("Cast", [x], attributes(to=7), 1) == ((INT64, (2, 6)),)
    one, two = (attributes(value=ir.tensor(np.array([n], k))) for n, k in ((1, "f"), (1, "int64")))
    assert inference.results("ConstantOfShape", [ints(3)], one, 1) == ((FLOAT, (3,)),)
    assert inference.results("ConstantOfShape", [ints(3)], two, 1) == ((INT64, (3,)),)


def test_what_is_left_out_is_no_operand():
    x = Operand(FLOAT, (4,))
    high = Operand(FLOAT, ())
    assert TypeInference(18).results("Clip", [x, None, high], {}, 1) == ((FLOAT, (4,)),)


@pytest.mark.parametrize(
    ("op_type", "operands"),
    [
        ("Reshape", [Operand(FLOAT, (2, 6)), Operand(INT64, (2,))]),
        ("NoSuchOp", [Operand(FLOAT, (2,))]),
        ("MatMul", [Operand(FLOAT, (2, 3)), Operand(FLOAT, (2, 3))]),
    ],
)
def test_results_without_a_static_shape_are_refused(op_type, operands):
    with pytest.raises(EmissionError, match=op_type):
        TypeInference(18).results(op_type, operands, {}, 1)
