"""Codes MCM-S020 to MCM-S039: plans, and what users ask of them."""

from __future__ import annotations

from mcm_compiler.diagnostics.catalog.entry import CatalogEntry

DECISIONS: tuple[CatalogEntry, ...] = (
    CatalogEntry(
        "MCM-S020",
        "a file is no parallel plan",
        "A plan is the JSON that `mcmc parallelize -o` writes: the model it was made for, degrees\n"
        "of parallelism, a dimension for every variable and every input (-1 for one that is kept\n"
        "whole), and the pipeline. The message says which part is missing or of the wrong kind.",
        example="`mcmc compile model.onnx --plan notes.json`",
        remedy="Write the plan with `mcmc parallelize MODEL -o plan.json`.",
    ),
    CatalogEntry(
        "MCM-S021",
        "a parallel plan is for another model",
        "A plan carries a hash of the names, types and shapes of all tensors of its model. They\n"
        "differ here, so that the plan's cuts would mean something else, or nothing. Another\n"
        "batch size or sequence length makes another model. Weights do not count: a plan stays\n"
        "good when a model is trained on.",
        example="a plan made for batch 8, and a model exported with batch 1",
        remedy="Make a plan for this model with mcmc parallelize.",
    ),
    CatalogEntry(
        "MCM-S022",
        "a parallel plan divides what a model does not have",
        "The plan names a tensor that is neither an input nor a weight of the model, or a\n"
        "dimension beyond the tensor's last. Plans that `mcmc parallelize` wrote never do; the\n"
        "file was changed.",
        example="a plan that divides 'fc9.weight' of a model that ends with fc8",
        remedy="Make the plan anew instead of editing it.",
    ),
    CatalogEntry(
        "MCM-S023",
        "a --shard option cannot be read",
        "It reads PATTERN=DIM, such as `--shard '/decoder/*/wi=1'`. The pattern is compared with\n"
        "the names of variables, and with their paths, in which dots are slashes; `*` and `?`\n"
        "stand for any characters. A pattern may also end at the module that holds the variables.\n"
        "DIM is the dimension to divide, or -1 to keep the variable whole.",
        example="`--shard wi:1`",
        remedy="Write PATTERN=DIM, such as --shard '/decoder/*/wi=1'.",
    ),
    CatalogEntry(
        "MCM-S024",
        "a --shard option matches no variable",
        "No trainable variable of the model has such a name, or none of those that have it has\n"
        "such a dimension. The hint has the names that come nearest.",
        example="`--shard '/decodr/*=1'`",
        remedy="Take a name from the hint.",
    ),
    CatalogEntry(
        "MCM-S025",
        "a --shard option asks for what an op forbids",
        "The dimension cannot be divided: it is tied, op by op, to one that some op needs whole.\n"
        "The message is the shortest such chain, with the sharding rule of every op in it. Keep\n"
        "the variable whole (-1), or divide another dimension of it. Where ops are divided over\n"
        "one device, as for packages without --operator, no dimension can be.",
        example="`--shard 'norm.weight=0'`, which a LayerNormalization needs whole",
        remedy="Keep the variable whole (=-1), or divide another dimension.",
    ),
    CatalogEntry(
        "MCM-S026",
        "two --shard options contradict each other",
        "Both dimensions meet in one op, which can only divide one of its loops, or they are\n"
        "divided together, and one option keeps whole what the other divides. The message is the\n"
        "chain of ops from one to the other. Leave out one of the two.",
        example="`--shard 'q=0' --shard 'k=1'` of two operands of one MatMul",
        remedy="Leave out one of the two.",
    ),
    CatalogEntry(
        "MCM-S027",
        "no dimension of a model can be divided over so many devices",
        "A dimension is divided into whole units: elements, or heads where a reshape groups\n"
        "elements into them, at least one unit for each device. The message has the most that any\n"
        "dimension which may be divided has. Ask for fewer devices, or for another kind of\n"
        "parallelism.",
        example="`--operator 64` for a model whose widest layer has 12 heads",
        remedy="Ask for fewer devices; mcmc parallelize --why NAME.DIM tells why a dimension\n"
        "cannot.",
    ),
)
