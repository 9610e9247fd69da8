"""Matrix products and contractions."""

from __future__ import annotations

from collections.abc import Mapping

from mcm_compiler.contracts.sharding.rules import Dim, ShardingRule
from mcm_compiler.contracts.sharding.templates import Shape
from mcm_passes.parallelism.rules.operators.composing import (
    MICROSOFT_RULES,
    PASS,
    REDUCE,
    OpRule,
    RuleFamily,
)

RULES = RuleFamily()


@RULES.of("MatMul")
@RULES.of("MatMulInteger", scales={2: "m", 3: "n"})
@RULES.of("QLinearMatMul", second=3, k="!k", scales={1: "m", 2: "m", 4: "n", 5: "n", 6: "", 7: ""})
def matmul(
    op: OpRule, second: int = 1, k: str = "k+", scales: Mapping[int, str] | None = None
) -> ShardingRule:
    """`* m k+, * k+ n -> * m n`, where operands of one dimension have no `m` or `n`.

    Args:
        op: the op.
        second: the other operand of the product.
        k: the contracted factor, which rounding the result makes needed whole.
        scales: operands that scale or shift: per tensor, or per element of a factor.
    """
    left, right = op.inputs[0], op.inputs[second]
    out = op.outputs[0]
    if left is None or right is None or out is None or not left or not right:
        return op.whole()
    texts = ["_"] * len(op.inputs)
    texts[0] = k if len(left) == 1 else f"* m {k}"
    texts[second] = k if len(right) == 1 else f"* {k} n"
    for operand, factor in (scales or {}).items():
        shape = op.inputs[operand] if operand < len(texts) else None
        if shape is None:
            continue
        if shape in ((), (1,)):
            texts[operand] = "1" if shape else "[]"
        elif len(shape) == 1 and factor in texts[0 if factor == "m" else second].split():
            texts[operand] = factor
        else:
            return op.whole()
    rows = " m" if len(left) > 1 else ""
    columns = " n" if len(right) > 1 else ""
    batch = "*" if max(len(left), len(right)) > 2 else ""
    result = f"{batch}{rows}{columns}".strip() or "[]"
    return op.spelled(texts, [result])


@MICROSOFT_RULES.of("com.microsoft::MatMulNBits", inputs=2, outputs=1)
def blocked_matmul(op: OpRule, left: Shape, packed: Shape, made: Shape) -> ShardingRule:
    """`* k, n g x, n g, n z, k, n -> * n`; scales and zero points may be flat.

    Columns are divided with all that belongs to them. Rows of blocks, `k`, are whole.
    """
    columns = made[-1]
    if columns is None or packed[0] != columns:
        return op.whole()
    rows, n = op.dims(left[:-1]), op.dim(columns, name="n")
    operands: list[list[Dim] | None] = [[*rows, op.needed(left[-1], "k")]]
    for at, shape in enumerate(op.inputs[1:], 1):
        if shape is None or at == _ORDER:
            operands.append(None)
        elif shape[0] is None or shape[0] % columns:
            return op.whole()
        else:
            operands.append([n + op.needed(shape[0] // columns), *op.all_needed(shape[1:])])
    return op.rule(operands, [[*rows, n]])


_ORDER = 4
"""Operand of `MatMulNBits` with the group of each of its rows."""


@RULES.of("Gemm")
def gemm(op: OpRule) -> ShardingRule:
    """`m k+, k+ n, m n -> m n` with either product operand transposed; the third broadcasts."""
    a = "k+ m" if op.attributes.get("transA", 0) else "m k+"
    b = "n k+" if op.attributes.get("transB", 0) else "k+ n"
    bias = op.inputs[2] if op.is_given(2) else None
    return op.spelled([a, b, "_" if bias is None else ("[]", "n", "m n")[len(bias)]], ["m n"])


@RULES.of("Einsum")
def einsum(op: OpRule) -> ShardingRule:
    """Rule of the equation; indices that occur twice in an operand are needed whole."""
    equation = str(op.attributes.get("equation", "")).replace(" ", "")
    left, arrow, right = equation.partition("->")
    terms = left.split(",")
    shapes = op.inputs
    if len(terms) != len(shapes) or any(s is None for s in shapes):
        return op.whole()
    if not arrow:
        letters = left.replace(",", "").replace(".", "")
        once = sorted(c for c in set(letters) if letters.count(c) == 1)
        right = ("..." if "..." in left else "") + "".join(once)
    return _Contraction(op, terms, right).rule()


class _Contraction:
    """An einsum equation with the shapes of its operands."""

    def __init__(self, op: OpRule, terms: list[str], right: str) -> None:
        self.op = op
        self.terms = terms
        self.right = right
        self.diagonal = {c for t in terms for c in t if c != "." and t.count(c) > 1}
        self.sizes: dict[str, int | None] = {}

    def rule(self) -> ShardingRule:
        op = self.op
        spelled = [
            self._spelled(term, len(shape or ()))
            for term, shape in zip(self.terms, op.inputs, strict=True)
        ]
        out = op.outputs[0]
        result = self._spelled(self.right, -1 if out is None else len(out))
        if result is None or any(s is None for s in spelled):
            return op.whole()
        pairs = list(zip([s or [] for s in spelled], op.inputs, strict=True))
        for labels, shape in pairs:
            for label, size in zip(labels, shape or (), strict=True):
                if self.sizes.get(label, 1) == 1:
                    self.sizes[label] = size
        dims = {
            label: op.dim(
                size, PASS if label in result else REDUCE, label if label.isalpha() else ""
            )
            for label, size in self.sizes.items()
            if label not in self.diagonal
        }

        def placed(label: str, size: int | None) -> tuple[int, ...]:
            if label in self.diagonal:
                return op.needed(size)
            return () if size == 1 else dims[label]

        inputs = [
            [placed(label, size) for label, size in zip(labels, shape or (), strict=True)]
            for labels, shape in pairs
        ]
        return op.rule(inputs, [[placed(label, self.sizes[label]) for label in result]])

    def _spelled(self, term: str, rank: int) -> list[str] | None:
        """Labels of a term; the dimensions of its ellipsis are numbered from the right."""
        before, dots, after = term.partition("...")
        free = rank - len(before) - len(after)
        if free < 0 or (free and not dots):
            return None
        return [*before, *(str(i) for i in range(free, 0, -1)), *after]
