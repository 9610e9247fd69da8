"""The cost of an op for which the compiler has no formula."""

from mcm_compiler import register
from mcm_hardware.op_costs.node_shapes import NodeShapes
from mcm_hardware.op_costs.work import Work


@register("op-cost", "com.microsoft::NGramRepeatBlock")
def ngram_repeat_block(node: NodeShapes) -> Work:
    """A comparison for each token of a sequence and place of an n-gram; scores are copied."""
    return Work(lane_ops=node.size(0) * node.integer("ngram_size") + node.out_size())
