"""Matrix products and contractions."""

from __future__ import annotations

from mcm_compiler.contracts.sharding.rules import OpFacts, RuleMaker, ShardingRule
from mcm_compiler.contracts.sharding.templates import rule_for_shapes
from mcm_passes.parallelism.rules.operators import composing


def matmul(facts: OpFacts) -> ShardingRule:
    """`* m k+, * k+ n -> * m n`, where operands of one dimension have no `m` or `n`."""
    return _product(facts, "+")


def matmul_integer(facts: OpFacts) -> ShardingRule:
    """As `matmul`, with zero points per tensor, or per row and per column."""
    return _product(facts, "+", [(2, "m"), (3, "n")])


def qlinear_matmul(facts: OpFacts) -> ShardingRule:
    """As `matmul`, but rounding the result makes the contracted factor needed whole."""
    return _product(facts, "!", [(1, "m"), (2, "m"), (4, "n"), (5, "n"), (6, ""), (7, "")])


def _product(
    facts: OpFacts, contracted: str, scales: list[tuple[int, str]] | None = None
) -> ShardingRule:
    second = 3 if contracted == "!" else 1
    left, right = facts.input_shapes[0], facts.input_shapes[second]
    out = facts.output_shapes[0]
    if left is None or right is None or out is None or not left or not right:
        return composing.whole(facts)
    k = "!k" if contracted == "!" else "k+"
    texts = ["_"] * len(facts.input_shapes)
    texts[0] = k if len(left) == 1 else f"* m {k}"
    texts[second] = k if len(right) == 1 else f"* {k} n"
    for operand, factor in scales or ():
        shape = facts.input_shapes[operand] if operand < len(texts) else None
        if shape is None:
            continue
        if shape in ((), (1,)):
            texts[operand] = "1" if shape else "[]"
        elif len(shape) == 1 and factor in texts[0 if factor == "m" else second].split():
            texts[operand] = factor
        else:
            return composing.whole(facts)
    rows = " m" if len(left) > 1 else ""
    columns = " n" if len(right) > 1 else ""
    batch = "*" if max(len(left), len(right)) > 2 else ""
    result = f"{batch}{rows}{columns}".strip() or "[]"
    return rule_for_shapes(
        f"{', '.join(texts)} -> {result}", facts.input_shapes, facts.output_shapes
    )


def gemm(facts: OpFacts) -> ShardingRule:
    """`m k+, k+ n, m n -> m n` with either product operand transposed; the third broadcasts."""
    a = "k+ m" if facts.attributes.get("transA", 0) else "m k+"
    b = "n k+" if facts.attributes.get("transB", 0) else "k+ n"
    texts = [a, b]
    if len(facts.input_shapes) > 2:
        bias = facts.input_shapes[2]
        texts.append("_" if bias is None else ("[]", "n", "m n")[len(bias)])
    return rule_for_shapes(f"{', '.join(texts)} -> m n", facts.input_shapes, facts.output_shapes)


def einsum(facts: OpFacts) -> ShardingRule:
    """What the equation says; indices that stand twice in an operand are needed whole."""
    equation = str(facts.attributes.get("equation", "")).replace(" ", "")
    left, arrow, right = equation.partition("->")
    terms = left.split(",")
    shapes = facts.input_shapes
    if len(terms) != len(shapes) or any(s is None for s in shapes):
        return composing.whole(facts)
    if not arrow:
        letters = left.replace(",", "").replace(".", "")
        once = sorted(c for c in set(letters) if letters.count(c) == 1)
        right = ("..." if "..." in left else "") + "".join(once)
    return _Contraction(facts, terms, right).rule()


class _Contraction:
    """An einsum equation with the shapes of its operands."""

    def __init__(self, facts: OpFacts, terms: list[str], right: str) -> None:
        self.facts = facts
        self.terms = terms
        self.right = right
        self.diagonal = {c for t in terms for c in t if c != "." and t.count(c) > 1}
        self.sizes: dict[str, int | None] = {}

    def rule(self) -> ShardingRule:
        spelled = [
            self._spelled(term, len(shape or ()))
            for term, shape in zip(self.terms, self.facts.input_shapes, strict=True)
        ]
        out = self.facts.output_shapes[0]
        result = self._spelled(self.right, -1 if out is None else len(out))
        if result is None or any(s is None for s in spelled):
            return composing.whole(self.facts)
        pairs = list(zip([s or [] for s in spelled], self.facts.input_shapes, strict=True))
        for labels, shape in pairs:
            for label, size in zip(labels, shape or (), strict=True):
                if self.sizes.get(label, 1) == 1:
                    self.sizes[label] = size
        build = composing.RuleBuilder()
        dims = {
            label: build.dim(
                size,
                composing.PASS if label in result else composing.REDUCE,
                label if label.isalpha() else "",
            )
            for label, size in self.sizes.items()
            if label not in self.diagonal
        }

        def placed(label: str, size: int | None) -> tuple[int, ...]:
            if label in self.diagonal:
                return build.dim(size, composing.REPLICATE)
            return () if size == 1 else dims[label]

        inputs = [
            [placed(label, size) for label, size in zip(labels, shape or (), strict=True)]
            for labels, shape in pairs
        ]
        return build.rule(inputs, [[placed(label, self.sizes[label]) for label in result]])

    def _spelled(self, term: str, rank: int) -> list[str] | None:
        """Labels of a term; the dimensions of its ellipsis are numbered from the right."""
        before, dots, after = term.partition("...")
        free = rank - len(before) - len(after)
        if free < 0 or (free and not dots):
            return None
        return [*before, *(str(i) for i in range(free, 0, -1)), *after]


RULES: dict[str, RuleMaker] = {
    "MatMul": matmul,
    "MatMulInteger": matmul_integer,
    "QLinearMatMul": qlinear_matmul,
    "Gemm": gemm,
    "Einsum": einsum,
}
