"""A fusion rule: a Transpose runs in the kernel of the MatMul that alone reads it."""

from mcm_compiler import register
from mcm_passes.rewriting.fusion_rules.grouping import Grouping
from mcm_passes.rewriting.fusion_rules.rule import FusionRule


def transpose_and_matmul(grouping: Grouping, transpose: int) -> list[int] | None:
    """The members of a group that begins at a Transpose, or None."""
    reader = grouping.graph.only_reader(transpose)
    if reader is None or grouping.graph.op(reader) != "MatMul":
        return None
    return [transpose, reader]


register("fusion-rule")(
    FusionRule("acme_transposed_matmul", frozenset({"Transpose"}), transpose_and_matmul)
)
