"""Work of matrix products, recurrent layers among them.

What a product of given extents takes stands in `tile_cycles.py`; here the extents are found, by
numpy's rules for `matmul`. Operations around the product, such as bias, activation, unpacking and
requantisation, are lane operations per element (`work.py`, our derivation).
"""

from __future__ import annotations

import math
from functools import partial

from mcm_hardware.op_costs import work
from mcm_hardware.op_costs.node_shapes import NodeShapes
from mcm_hardware.op_costs.work import Gemm, Work, joined, ops
from mcm_hardware.tensors.storage_widths import UNPACK_OPS


def matmul_gemm(a: tuple[int, ...], b: tuple[int, ...]) -> Gemm:
    """The product of `a` and `b` under numpy's rules for `matmul`.

    Leading axes along which one operand is a single matrix are folded into the other's rows or
    columns: `[8, 128, k] x [k, n]` is one product with 1024 rows.

    Args:
        a: dimensions of the left operand, rank 1 or more.
        b: dimensions of the right operand, rank 1 or more.
    """
    if len(a) == 0 or len(b) == 0:
        return Gemm(0, 0, 0, 0)
    m, k = (a[-2] if len(a) > 1 else 1), a[-1]
    n = b[-1] if len(b) > 1 else 1
    a_batch, b_batch = math.prod(a[:-2]), math.prod(b[:-2])
    if b_batch == 1:
        return Gemm(1, a_batch * m, n, k)
    if a_batch == 1:
        return Gemm(1, m, b_batch * n, k)
    rank = max(len(a), len(b)) - 2
    batch = math.prod(
        max(x, y)
        for x, y in zip(
            (1,) * (rank - len(a) + 2) + a[:-2], (1,) * (rank - len(b) + 2) + b[:-2], strict=True
        )
    )
    return Gemm(batch, m, n, k)


def _matmul(b_index: int, per_result: int, node: NodeShapes) -> Work:
    gemm = matmul_gemm(node.dims(0), node.dims(b_index))
    return Work((gemm,), per_result * gemm.count * gemm.m * gemm.n)


def _swapped(dims: tuple[int, ...], swap: bool) -> tuple[int, ...]:
    return (*dims[:-2], dims[-1], dims[-2]) if swap and len(dims) > 1 else dims


def _gemm(b_index: int, bias_index: int, per_result: int, node: NodeShapes) -> Work:
    a = _swapped(node.dims(0), node.integer("transA") == 1)
    b = _swapped(node.dims(b_index), node.integer("transB") == 1)
    gemm = matmul_gemm(a, b)
    bias = 1 if node.has(bias_index) else 0
    return Work((gemm,), (per_result + bias) * gemm.count * gemm.m * gemm.n)


def _pairwise_distance(node: NodeShapes) -> Work:
    # |a - b|^2 = |a|^2 - 2 a.b + |b|^2, then the root.
    gemm = matmul_gemm(node.dims(0), _swapped(node.dims(1), True))
    return Work((gemm,), (work.SQUARE_ROOT + 2) * gemm.m * gemm.n)


def _fused_matmul(per_result: int, node: NodeShapes) -> Work:
    # transBatchA moves the rows' axis to the front: [m, batch, k].
    def dims(index: int, letter: str) -> tuple[int, ...]:
        found = node.dims(index)
        if node.integer(f"transBatch{letter}") == 1 and len(found) > 2:
            found = (*found[1:-1], found[0], found[-1])
        return _swapped(found, node.integer(f"trans{letter}") == 1)

    gemm = matmul_gemm(dims(0, "A"), dims(1, "B"))
    return Work((gemm,), per_result * gemm.count * gemm.m * gemm.n)


def _block_quantized(products: int, node: NodeShapes) -> Work:
    """Weights in packed blocks, whose shape says nothing: the results give the columns."""
    k = node.dim(0, -1)
    rows = node.size(0) // max(k, 1)
    cols = [node.out_dims(i)[-1] for i in range(len(node.node.outputs)) if node.out_dims(i)]
    gemms = tuple(Gemm(products, rows, n, k) for n in cols)
    return Work(gemms, unpack_ops=UNPACK_OPS * sum(products * n * k for n in cols))


def _mixture_of_experts(node: NodeShapes) -> Work:
    """Only the experts of the tokens run, `k` of each token.

    Tokens are spread over as many experts as possible, which is what such layers are trained for
    (Shazeer et al. 2017, *Outrageously Large Neural Networks*, section 4). Widths follow from the
    numbers of weights, which exporters store in either order.
    """
    hidden, experts = max(node.dim(0, -1), 1), max(node.dim(2, 0), 1)
    packed = node.node.op_type == "QMoE"
    tokens, per_byte = node.size(0) // hidden, 1
    if packed:
        per_byte = 8 // min(max(node.integer("expert_weight_bits", 4), 1), 8)
    routed = tokens * max(node.integer("k", 1), 0)
    active = min(experts, routed)
    rows = -(-routed // max(active, 1))
    places = (2, 5, 8) if packed else (2, 4, 6)
    first, inner, third = (node.size(at) * per_byte // (experts * hidden) for at in places)
    gemms = [Gemm(active, rows, first, hidden), Gemm(active, rows, hidden, inner)]
    gemms += [Gemm(active, rows, third, hidden)] if third else []
    gated = 1 if first + third > inner else 0
    lane_ops = routed * (inner * (work.TANH + gated) + 2 * hidden) + work.SOFTMAX * tokens * experts
    parts = range(2, len(node.node.inputs))
    reads = [(at, node.size(at) // experts * active) for at in parts if node.dim(at, 0) == experts]
    unpack = UNPACK_OPS * active * hidden * (first + inner + third) if packed else 0
    return Work(tuple(gemms), lane_ops, unpack, tuple(reads))


def _einsum(node: NodeShapes) -> Work:
    """Two operands at a time from the left, as a batched matrix product each (our choice)."""
    terms, result = _einsum_terms(node)
    if not terms:
        return Work(lane_ops=node.out_size())
    sizes: dict[str, int] = {}
    for index, term in enumerate(terms):
        for letter, size in zip(term, node.dims(index), strict=False):
            sizes[letter] = max(size, sizes.get(letter, 1))

    def extent(letters: set[str]) -> int:
        return math.prod(sizes.get(letter, 1) for letter in sorted(letters))

    gemms: list[Gemm] = []
    lane_ops = 0
    left = set(terms[0])
    if len(terms) == 1:
        return Work(lane_ops=extent(left))
    for position, term in enumerate(terms[1:], start=1):
        right = set(term)
        needed = set(result).union(*terms[position + 1 :])
        contracted = (left & right) - needed
        batch = left & right & needed
        rows, cols = left - right, right - left
        lone = (rows | cols) - needed
        lane_ops += extent(left) if lone & rows else 0
        lane_ops += extent(right) if lone & cols else 0
        gemm = Gemm(
            extent(batch), extent(rows - lone), extent(cols - lone), max(extent(contracted), 1)
        )
        if gemm.k == 1 or gemm.m == gemm.n == 1:
            # Without reuse of operands the array idles; the vector unit does it.
            lane_ops += gemm.macs
        else:
            gemms.append(gemm)
        left = (left | right) - contracted - lone
    return Work(tuple(gemms), lane_ops)


def _einsum_terms(node: NodeShapes) -> tuple[list[list[str]], list[str]]:
    """Labels of each operand and of the result, an ellipsis spelled out as `.0`, `.1`, ..."""
    equation = node.text("equation").replace(" ", "")
    operands, arrow, result = equation.partition("->")
    texts = operands.split(",")
    if not operands or len(texts) != len(node.node.inputs):
        return [], []
    terms = [
        _labels(text, len(node.dims(index)) - len(text.replace("...", "")))
        for index, text in enumerate(texts)
    ]
    if arrow:
        return terms, _labels(result, max((sum(x[0] == "." for x in t) for t in terms), default=0))
    letters = [letter for term in terms for letter in term]
    return terms, [x for x in letters if x[0] == "." or letters.count(x) == 1]


def _labels(text: str, ellipsis_rank: int) -> list[str]:
    before, dots, after = text.partition("...")
    # Broadcasting aligns at the right, so the axes of an ellipsis count from there.
    middle = [f".{axis}" for axis in reversed(range(max(ellipsis_rank, 0)))] if dots else []
    return [*before, *middle, *after]


def _recurrent(gates: int, per_cell: int, node: NodeShapes) -> Work:
    """Appleyard et al. 2016: `W x` does not depend on the state, so all steps are one product.

    `R h` is a product per step, and reads the recurrent weights again in each.
    """
    steps, batch = node.dim(0, 0), node.dim(0, 1)
    if node.integer("layout") == 1:
        steps, batch = batch, steps
    directions, width = node.dim(1, 0), node.dim(0, 2)
    hidden = node.integer("hidden_size", node.dim(2, -1))
    gemms = (
        Gemm(directions, steps * batch, gates * hidden, width),
        Gemm(directions * steps, batch, gates * hidden, hidden, rounds=steps),
    )
    lane_ops = per_cell * directions * steps * batch * hidden
    return Work(gemms, lane_ops, reads=((2, steps * node.size(2)),))


FORMULAS = joined(
    ops(partial(_matmul, 1, 0), "MatMul MatMulInteger", "MatMulInteger16"),
    ops(partial(_matmul, 1, work.REQUANTIZE), "", "MatMulIntegerToFloat"),
    ops(partial(_matmul, 1, 2 * work.REQUANTIZE), "", "DynamicQuantizeMatMul"),
    ops(partial(_matmul, 2, work.REQUANTIZE), "", "QOrderedMatMul"),
    ops(partial(_matmul, 3, work.REQUANTIZE), "QLinearMatMul"),
    ops(partial(_fused_matmul, 0), "", "FusedMatMul TransposeMatMul SparseToDenseMatMul"),
    ops(partial(_fused_matmul, 1), "", "FusedMatMulActivation"),
    ops(partial(_gemm, 1, 2, 0), "Gemm"),
    ops(partial(_gemm, 1, 2, 1), "", "FusedGemm GemmFloat8"),
    ops(partial(_gemm, 1, 2, work.TANH + 6), "", "GemmFastGelu"),
    ops(partial(_gemm, 3, 6, work.REQUANTIZE), "", "QGemm"),
    ops(_einsum, "Einsum"),
    ops(
        partial(_block_quantized, 1),
        "",
        "MatMulNBits MatMulBnb4 MatMulFpQ4 MatMulNBitsQkv MatMulBlockQuantizedFp4Weight "
        "MatMulBlockQuantizedFp8Weight",
    ),
    ops(partial(_block_quantized, 2), "", "MatMulNBitsMlp"),
    ops(_pairwise_distance, "", "CDist"),
    ops(_mixture_of_experts, "", "MoE QMoE"),
    ops(
        partial(_recurrent, 4, 3 * work.SIGMOID + 2 * work.TANH + 4 + 8),
        "LSTM",
        "DynamicQuantizeLSTM AttnLSTM",
    ),
    ops(partial(_recurrent, 3, 2 * work.SIGMOID + work.TANH + 5 + 6), "GRU"),
    ops(partial(_recurrent, 1, work.TANH + 2), "RNN"),
)
"""Matrix products."""
