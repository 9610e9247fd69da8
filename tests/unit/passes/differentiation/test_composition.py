def test_an_operand_that_is_read_twice(check):
    text = "(float[1,1,2,3] x) => (float[1,1,2,3] y) { y = Attention(x, x, x) }"
    check(text, opset=23)


def test_an_operand_that_depends_on_another(check):
    text = "(float[1,1,2,3] x) => (float[1,1,2,3] y) { k = Tanh(x) y = Attention(x, k, x) }"
    check(text, opset=23)
