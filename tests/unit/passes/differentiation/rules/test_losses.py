import pytest

FLAT = "(float[3,4] x, int64[3] t{}) => (float{} y) {{ y = {}<{}>(x, t{}) }}"
LABELS = [1, 3, 0]


@pytest.mark.parametrize("kind", ["SoftmaxCrossEntropyLoss", "NegativeLogLikelihoodLoss"])
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_losses(check, kind, reduction):
    shape = "[3]" if reduction == "none" else ""
    options = f'reduction="{reduction}"'
    check(FLAT.format("", shape, kind, options, ""), t=LABELS)
    check(FLAT.format("", shape, kind, options + ", ignore_index=3", ""), t=LABELS)


@pytest.mark.parametrize("kind", ["SoftmaxCrossEntropyLoss", "NegativeLogLikelihoodLoss"])
def test_class_weights_share_what_arrives(check, kind):
    text = FLAT.format(", float[4] w", "", kind, "ignore_index=-1", ", w")
    check(text, t=[1, -1, 0], w=[0.5, 2.0, 1.0, 0.25], sources=["x"])


@pytest.mark.parametrize("reduction", ["mean", "none"])
def test_labels_of_pixels(check, reduction):
    shape = "" if reduction == "mean" else "[2,2]"
    text = f"(float[2,3,2] x, int64[2,2] t) => (float{shape} y) {{ y = SoftmaxCrossEntropyLoss"
    check(f'{text}<reduction="{reduction}">(x, t) }}', t=[[0, 2], [1, 1]])


def test_the_logarithms_that_a_loss_gives_beside_itself(check):
    text = "(float[3,4] x, int64[3] t) => (float y, float[3,4] l)"
    check(text + " { y, l = SoftmaxCrossEntropyLoss(x, t) }", t=LABELS)
    text = "(float[3,4] x, int64[3] t) => (float[3,4] l)"
    check(text + " { y, l = SoftmaxCrossEntropyLoss(x, t) }", t=LABELS)
