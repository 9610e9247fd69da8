"""Attention over heads, rotary positions, and the linear and convolutional replacements of it."""

from __future__ import annotations

from mcm_compiler.contracts.sharding.rules import ShardingRule
from mcm_passes.parallelism.rules.operators.composing import (
    MICROSOFT_RULES,
    OpRule,
    RuleFamily,
    Shape,
)

RULES = RuleFamily()


@RULES.of("Attention", inputs=2)
def attention(op: OpRule, query: Shape, key: Shape) -> ShardingRule:
    """`b (h g) s !d, b h !t !d, b h !t v -> b (h g) s v`, or with heads within the last dimension.

    `h` are the key-value heads, `g` the query heads that share one. The keys are needed whole by
    the softmax, and where a mask depends on the places of queries, so are these.
    """
    packed = len(query) == 3
    heads = op.attributes.get("kv_num_heads") if packed else key[1]
    all_heads = op.attributes.get("q_num_heads") if packed else query[1]
    if heads is None or all_heads is None:
        return op.whole()
    windowed = any(op.attributes.get(f"{side}_window_size", -1) >= 0 for side in _SIDES)
    s = "!s" if op.attributes.get("is_causal", 0) or windowed else "s"
    if packed:
        texts = [f"b {s} (h g !d)", "b !t (h !d)", "b !t (h v)"]
        results = [f"b {s} (h g v)"]
    else:
        texts = [f"b (h g) {s} !d", "b h !t !d", "b h !t v"]
        results = [f"b (h g) {s} v"]
    mask = op.inputs[3] if len(op.inputs) > 3 else None
    mask_dims = ["b", "(h g)", s, "!w"]
    texts.append("_" if mask is None else " ".join(mask_dims[4 - len(mask) :]))
    texts += ["b h !p !d", "b h !p v", "b"]
    results += ["b h !u !d", "b h !u v", f"b (h g) {s} !u"]
    return _with_heads(op, texts, results, int(heads), int(all_heads))


_SIDES = ("left", "right")


@MICROSOFT_RULES.of("com.microsoft::GroupQueryAttention", inputs=1)
def grouped_query_attention(op: OpRule, query: Shape, *, packed: bool = False) -> ShardingRule:
    """As `attention` with heads within the last dimension.

    Lengths of sequences are for each of them; tables of positions, and biases of heads, are whole.
    An op with one operand of queries, keys and values is whole, too, unless `packed` says that
    parts of it read a slice of each (`ShardForm.runs`).
    """
    heads, all_heads = (int(op.attributes.get(n, 0)) for n in ("kv_num_heads", "num_heads"))
    given = [*op.inputs, *[None] * 6]
    width = (given[3] or (0,))[-1] or 0
    packed = packed and given[1:3] == [None, None]
    named = None not in given[3 if packed else 1 : 5] and len(query) == 3
    if packed:
        named = named and query[2] == (all_heads + 2 * heads) * width
    if not named or any(shape is not None for shape in op.inputs[9:]):
        return op.whole()
    texts = ["_"] * 3 if packed else ["b !s (h g !d)", "b !s (h !d)", "b !s (h !d)"]
    b = "!b" if packed else "b"
    texts += [f"{b} h !p !d"] * 2 + [" ".join([b, *["1"] * (len(given[5] or ()) - 1)])]
    texts += ["_" for _ in op.inputs[6:]]
    results = [f"{b} !s (h g !d)", *[f"{b} h !u !d"] * 2]
    return _with_heads(op, texts, results, heads, all_heads)


@MICROSOFT_RULES.of("com.microsoft::MultiHeadAttention", inputs=1)
def multi_head_attention(op: OpRule, query: Shape) -> ShardingRule:
    """As `attention` with heads within the last dimension, and keys and values like the queries."""
    heads, given = int(op.attributes.get("num_heads", 0)), [*op.inputs, *[None] * 8]
    named = all(given[at] is not None for at in (1, 2, 6, 7)) and len(query) == 3
    if not named or any(given[at] is not None for at in (3, 4, 8)) or len(given[1] or ()) != 3:
        return op.whole()
    bias = given[5] or ()
    dims = ["b" if bias[:1] == query[:1] else "1", "h" if bias[1:2] == (heads,) else "1"]
    texts = ["b !s (h !d)", "b !t (h !d)", "b !t (h v)", "_", "_"]
    texts += [" ".join([*dims, "!s", "!w"]) if len(bias) == 4 else "_"]
    texts += ["b h !p !d", "b h !p v"]
    return _with_heads(op, texts, ["b !s (h v)", "b h !u !d", "b h !u v"], heads, heads)


@RULES.of("LinearAttention")
def linear_attention(op: OpRule) -> ShardingRule:
    """`b !t (h g !k), b !t (h !k), b !t (h v) -> b !t (h g v)` with a state `b h !k v`."""
    heads = int(op.attributes["kv_num_heads"])
    texts = ["b !t (h g !k)", "b !t (h !k)", "b !t (h v)", "b h !k v"]
    shapes = op.inputs
    decay = shapes[4] if len(shapes) > 4 else None
    beta = shapes[5] if len(shapes) > 5 else None
    texts.append("b !t h" if decay is not None and decay[2] == heads else "b !t (h !k)")
    texts.append("b !t 1" if beta is not None and beta[2] == 1 else "b !t h")
    results = ["b !t (h g v)", "b h !k v"]
    all_heads = int(op.attributes["q_num_heads"])
    return _with_heads(op, texts, results, heads, all_heads)


def _with_heads(
    op: OpRule, texts: list[str], results: list[str], heads: int, all_heads: int
) -> ShardingRule:
    if heads < 1 or all_heads % heads:
        return op.whole()
    return op.spelled(texts, results, {"h": heads, "g": all_heads // heads})


@RULES.of("RotaryEmbedding", inputs=1)
def rotary(op: OpRule, image: Shape) -> ShardingRule:
    """`b h s !d, b s !r, b s !r -> b h s !d`, or tables over positions `!p !r` that `b s` names."""
    sizes: dict[str, int] = {}
    text = "b h s !d"
    if len(image) == 3:
        heads = int(op.attributes.get("num_heads", 0))
        if heads < 1:
            return op.whole()
        text, sizes = "b s (h !d)", {"h": heads}
    named = len(op.inputs) > 3 and op.inputs[3] is not None
    tables = ["!p !r", "!p !r", "b s"] if named else ["b s !r", "b s !r", "_"]
    return op.spelled([text, *tables], [text], sizes)


@RULES.of("CausalConvWithState")
def causal_convolution(op: OpRule) -> ShardingRule:
    """`b c !l, c 1 !k, c, b c !p -> b c !l, b c !p`: every channel on its own."""
    return op.spelled(["b c !l", "c 1 !k", "c", "b c !p"], ["b c !l", "b c !p"])
