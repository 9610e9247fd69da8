import pytest

STEPS, BATCH, INPUTS, HIDDEN = 2, 2, 2, 2
GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}


def text_of(kind, attributes, inputs, directions=1):
    """One op with weights, bias and first states as inputs, and all outputs."""
    d, n, wide = directions, HIDDEN, GATES[kind] * HIDDEN
    shapes = {
        "x": [STEPS, BATCH, INPUTS], "w": [d, wide, INPUTS], "r": [d, wide, n], "b": [d, 2 * wide],
        "h": [d, BATCH, n], "c": [d, BATCH, n], "p": [d, 3 * n],
    }  # fmt: skip
    used = [name for name in inputs.replace(" ", "").split(",") if name in shapes]
    declared = ", ".join(f"float[{','.join(map(str, shapes[name]))}] {name}" for name in used)
    if "lens" in inputs:
        declared += f", int32[{BATCH}] lens"
    outputs = f"float[{STEPS},{d},{BATCH},{n}] y, float[{d},{BATCH},{n}] yh"
    names = "y, yh"
    if kind == "LSTM":
        outputs, names = f"{outputs}, float[{d},{BATCH},{n}] yc", "y, yh, yc"
    made = f"{names} = {kind}<hidden_size={n}{attributes}>({inputs})"
    return f"({declared}) => ({outputs}) {{ {made} }}"


@pytest.mark.parametrize("kind", ["RNN", "GRU"])
def test_first_states_and_bias(check, kind):
    check(text_of(kind, "", "x, w, r, b, , h"), low=-1.0, high=1.0)


def test_peepholes_of_lstm(check):
    check(text_of("LSTM", "", "x, w, r, b, , h, c, p"), low=-1.0, high=1.0)


def test_reset_behind_the_product(check):
    text = text_of("GRU", ", linear_before_reset=1", "x, w, r, b")
    check(text, low=-1.0, high=1.0)
