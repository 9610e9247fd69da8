"""Ops of which hardly more than the batch is divided: recurrences, spectra, counts of words."""

from __future__ import annotations

from mcm_compiler.contracts.sharding.rules import ShardingRule
from mcm_passes.parallelism.rules.operators.composing import OpRule, RuleFamily, Shape

RULES = RuleFamily()


@RULES.of("LSTM", "GRU", "RNN")
def recurrent(op: OpRule) -> ShardingRule:
    """`!t b !i, d !g !i, d !g !h, d !k, b, d b !h -> !t d b !h, d b !h`.

    Steps follow each other, and the gates of a step read the whole hidden state of the last. The
    two directions `d` know nothing of each other: either is an op of its own.
    """
    batch_first = bool(op.attributes.get("layout", 0))
    # Parameters of activations are listed for those that have some, over both directions.
    d = "!d" if {"activation_alpha", "activation_beta"} & set(op.attributes) else "d"
    state = f"b {d} !h" if batch_first else f"{d} b !h"
    sequence = "b !t !i" if batch_first else "!t b !i"
    weights = [f"{d} !g !i", f"{d} !g !h", f"{d} !k"]
    texts = [sequence, *weights, "b", state, state, f"{d} !p"]
    states = f"b !t {d} !h" if batch_first else f"!t {d} b !h"
    return op.spelled(texts, [states, state, state])


@RULES.of("STFT", inputs=1, outputs=1)
def spectrum(op: OpRule, shape: Shape, out: Shape) -> ShardingRule:
    """STFT `b !l !k, _, _, _ -> b !f !u !c`."""
    batch = op.dim(shape[0])
    return op.rule([[batch, *op.all_needed(shape[1:])]], [[batch, *op.all_needed(out[1:])]])


@RULES.of("TfIdfVectorizer", inputs=1, outputs=1)
def words(op: OpRule, shape: Shape, out: Shape) -> ShardingRule:
    """TfIdfVectorizer `n !c -> n !m`; one row alone is whole."""
    return spectrum(op, shape, out) if len(shape) == 2 else op.whole()


@RULES.of("AffineGrid", outputs=1)
def affine_grid(op: OpRule, out: Shape) -> ShardingRule:
    """`n !i !j, _ -> n !y !x !k`: coordinates run over the whole grid."""
    places = " ".join(f"!y{axis}" for axis in range(len(out) - 2))
    return op.spelled(["n !i !j", "_"], [f"n {places} !k"])
