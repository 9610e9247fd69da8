"""Ops of which hardly more than the batch is divided: recurrences, spectra, counts of words."""

from __future__ import annotations

from mcm_compiler.contracts.sharding.rules import OpFacts, RuleMaker, ShardingRule
from mcm_passes.parallelism.rules.operators import composing


def recurrent(facts: OpFacts) -> ShardingRule:
    """`!t b !i, d !g !i, d !g !h, d !k, b, d b !h -> !t d b !h, d b !h`.

    Steps follow each other, and the gates of a step read the whole hidden state of the last. The
    two directions `d` know nothing of each other: either is an op of its own.
    """
    batch_first = bool(facts.attributes.get("layout", 0))
    # Parameters of activations are listed for those that have some, over both directions.
    d = "!d" if {"activation_alpha", "activation_beta"} & set(facts.attributes) else "d"
    state = f"b {d} !h" if batch_first else f"{d} b !h"
    sequence = "b !t !i" if batch_first else "!t b !i"
    weights = [f"{d} !g !i", f"{d} !g !h", f"{d} !k"]
    texts = [sequence, *weights, "b", state, state, f"{d} !p"]
    states = f"b !t {d} !h" if batch_first else f"!t {d} b !h"
    return composing.spelled(facts, texts, [states, state, state])


def spectrum(facts: OpFacts) -> ShardingRule:
    """STFT `b !l !k, _, _, _ -> b !f !u !c`."""
    return _first_only(facts)


def words(facts: OpFacts) -> ShardingRule:
    """TfIdfVectorizer `n !c -> n !m`; one row alone is whole."""
    shape = facts.input_shapes[0]
    return _first_only(facts) if shape is not None and len(shape) == 2 else composing.whole(facts)


@composing.known_shapes(inputs=1, outputs=1)
def _first_only(facts: OpFacts, shape: composing.Shape, out: composing.Shape) -> ShardingRule:
    build = composing.RuleBuilder()
    batch = build.dim(shape[0], composing.PASS)
    rest = [None] * (len(facts.input_shapes) - 1)
    inputs = [batch, *[build.dim(s, composing.REPLICATE) for s in shape[1:]]]
    return build.rule(
        [inputs, *rest], [[batch, *[build.dim(s, composing.REPLICATE) for s in out[1:]]]]
    )


@composing.known_shapes(outputs=1)
def affine_grid(facts: OpFacts, out: composing.Shape) -> ShardingRule:
    """`n !i !j, _ -> n !y !x !k`: coordinates run over the whole grid."""
    places = " ".join(f"!y{axis}" for axis in range(len(out) - 2))
    return composing.spelled(facts, ["n !i !j", "_"], [f"n {places} !k"])


RULES: dict[str, RuleMaker] = {
    "LSTM": recurrent,
    "GRU": recurrent,
    "RNN": recurrent,
    "STFT": spectrum,
    "AffineGrid": affine_grid,
    "TfIdfVectorizer": words,
}
