"""Codes MCM-S###: sharding rules, parallel plans and clusters."""

from __future__ import annotations

from mcm_compiler.diagnostics.catalog.entry import CatalogEntry
from mcm_compiler.diagnostics.catalog.sharding_decisions import DECISIONS

_RULES: tuple[CatalogEntry, ...] = (
    CatalogEntry(
        "MCM-S001",
        "text that is no sharding rule",
        "A rule reads `operands -> results`, such as `b m k+, k+ n -> b m n`. Operands are\n"
        "divided by commas, dimensions by spaces; `(h d)` is a dimension with a major and a minor\n"
        "factor, `1` one that is never divided, `[]` an operand without dimensions and `_` one\n"
        "that every device reads whole. The message gives the column. The notation is in\n"
        "docs/reference/sharding-rules.md.",
        example="the text `b m k+ k+ n -> b m n`, which lacks a comma",
        remedy="Correct the rule at the column that the message gives.",
    ),
    CatalogEntry(
        "MCM-S002",
        "a factor of a sharding rule has two marks",
        "A factor is passed through, reduced (`k+`), needed whole (`!n`), slid over by a window\n"
        "(`y~`) or divided in a pattern that is not contiguous (`c/`). It is one of these\n"
        "wherever it stands, so one mark is enough.",
        example="`b k+, !k n -> b n`: 'k' has two different marks",
        remedy="Mark the factor once, in one way.",
    ),
    CatalogEntry(
        "MCM-S003",
        "a sharding rule names a reduction that does not exist",
        "Partial results are put together by sum (`k+`), max, min, prod (`k+max`), or by mean\n"
        "(`k+mean`), weighted by what each device had of the factor.",
        example="`b k+median -> b`",
        remedy="Take sum (`k+`), max, min, prod or mean (`k+mean`).",
    ),
    CatalogEntry(
        "MCM-S004",
        "a sharding rule does not fit the ranks of an op",
        "`*` stands for any number of leading dimensions, so that a rule with it holds only\n"
        "together with the shapes of an op. An operand or result has more or fewer dimensions\n"
        "than the rule has, or there are more operands than the rule names.",
        example="a rule for images, `n c y x -> n c y x`, of an op with a matrix",
        remedy="Name a dimension for each of the operand's, or `*` for any number of leading\n"
        "ones.",
    ),
    CatalogEntry(
        "MCM-S005",
        "a sharding rule contradicts the shapes of an op",
        "A factor has one size wherever it stands (1 where it is broadcast), and the size of a\n"
        "compound dimension is the product of its factors.",
        example="`m k+, k+ n -> m n` of matrices 4 x 8 and 9 x 4: 'k' is 8 and 9",
        remedy="Correct the rule, or the shapes of the op.",
    ),
    CatalogEntry(
        "MCM-S006",
        "a factor stands twice in one operand of a sharding rule",
        "One division cannot cut two dimensions of the same operand. Where an op reads a\n"
        "diagonal, give the two dimensions names of their own and mark them as needed whole.",
        example="`i i -> i` for a diagonal",
        remedy="Give the two dimensions names of their own, and mark them as needed whole.",
    ),
    CatalogEntry(
        "MCM-S007",
        "a factor of a sharding rule stands where it cannot",
        "Dividing a reduced factor leaves results without it partial, so there is one. A factor\n"
        "that is passed through is in a result: what only operands have is reduced or needed\n"
        "whole.",
        example="`m k -> m`: k is passed through and is in no result",
        remedy="Mark it as reduced (`k+`) or as needed whole (`!k`).",
    ),
    CatalogEntry(
        "MCM-S008",
        "the sharding rule of a plug-in does not fit the op",
        "A rule describes every operand and result of the op: as many as the op has, each of the\n"
        "right rank, with factors that exist. It is checked where it is made: a wrong rule\n"
        "would give a wrong model; nor may the function that makes it fail. Tell those who wrote\n"
        "the plug-in.",
        example="a plug-in's rule for Blend has two operands, and the op has three",
        remedy="Correct the rule, or tell those who wrote the plug-in.",
    ),
    CatalogEntry(
        "MCM-S009",
        "an entry point holds no sharding rules",
        "An entry point of the group `mcm_compiler.sharding_rules` is a rule, named by the\n"
        "operator (`Blend`, or `com.acme::Blend` for another domain than that of ONNX), or a\n"
        "mapping from such names to rules under any name. A rule is a text or a function that\n"
        "makes one.",
        example="an entry point of mcm_compiler.sharding_rules that is the number 3",
        remedy="Register a rule text, a function from OpFacts to ShardingRule, or a mapping.",
    ),
    CatalogEntry(
        "MCM-S010",
        "an operator has no sharding rule",
        "Nothing is known of what the operator does with its dimensions, so that each device\n"
        "runs the whole op and nothing around it is divided either. A plug-in can register a rule\n"
        "under `mcm_compiler.sharding_rules`, by the name of the operator and its domain.",
        example="operator 'com.acme::Blend' has no sharding rule; 3 of them stay whole",
        remedy='Register one: register_sharding_rule("com.acme::Blend")("n c -> n c").',
    ),
)
"""MCM-S001 to MCM-S019: rules and their notation."""

_PIPELINES: tuple[CatalogEntry, ...] = (
    CatalogEntry(
        "MCM-S040",
        "a cluster was given where a package of chips is needed",
        "A cluster describes servers of accelerators. Models are not compiled for it: plans are\n"
        "made for it by `mcmc parallelize`, which estimates them by formulas. Compiling, lowering\n"
        "and simulating need a package of chips, such as mcm36.",
        example="`mcmc compile model.onnx --target config-a`",
        remedy="Plan with mcmc parallelize --target config-a, or compile for a package of\n"
        "chips, such as mcm36.",
    ),
    CatalogEntry(
        "MCM-S041",
        "a package of chips was given where a cluster is needed",
        "What was asked for is planned over servers of accelerators, whose networks and memories\n"
        "the description of a package of chips does not have. Take one of the clusters that come\n"
        'with the compiler, or write a description with `family = "cluster"`.',
        example="`mcmc train pipeline --target mcm36`",
        remedy='Take a cluster such as config-a, or a description with family = "cluster".',
    ),
    CatalogEntry(
        "MCM-S042",
        "no pipeline fits into the memory of the devices",
        "Weights, gradients, optimiser state and kept activations of a stage are on each of its\n"
        "devices. The message has what the pipeline that needs least has on its fullest device,\n"
        "and what a device has. More stages, an optimiser with less state (adafactor, sgd), a\n"
        "smaller micro-batch, or recomputing activations help.",
        example="T5-11B with adam on one server",
        remedy="Take a larger cluster, an optimiser with less state (--optimizer adafactor),\n"
        "more stages or smaller micro-batches.",
    ),
    CatalogEntry(
        "MCM-S044",
        "a checkpoint of the pipeline policy cannot be used",
        "The file is damaged, is no checkpoint of a pipeline policy, was trained on other\n"
        "features, or its weights do not fit its card. Train one with `mcmc train pipeline`, or\n"
        "use the one that comes with the compiler.",
        example="a checkpoint of the partitioning policy where one of the pipeline policy\nbelongs",
        remedy="Train one with `mcmc train pipeline`, or use the one that comes with the\n"
        "compiler.",
    ),
)
"""MCM-S040 to MCM-S059: clusters and pipelines."""

_APPLYING: tuple[CatalogEntry, ...] = (
    CatalogEntry(
        "MCM-S061",
        "a plan divides what cannot be divided",
        "Some op needs the dimension as a whole, or it has fewer units than the plan has devices.\n"
        "The message has the way from the dimension to that op. Plans that `mcmc parallelize`\n"
        "writes are free of this; a plan that was changed by hand need not be.",
        example="a plan in which a softmax's dimension was changed to 1 by hand",
        remedy="Set the dimension to -1, or make the plan anew.",
    ),
    CatalogEntry(
        "MCM-S062",
        "a plan divides two dimensions that meet in an op",
        "Every device has one part of what is divided, so that an op can be divided along one of\n"
        "its loops only. The message has the way from the one dimension to the op and on to the\n"
        "other. Keep one of the two whole.",
        example="a plan that divides both the rows and the columns of one product",
        remedy="Keep one of the two whole (-1).",
    ),
    CatalogEntry(
        "MCM-S063",
        "a tensor that is asked about does not exist",
        "`--why NAME.DIM` takes the name of any tensor of the model, a point, and the number of\n"
        "one of its dimensions, from 0 on.",
        example="`--why fc1.weight.2`, and fc1.weight has two dimensions",
        remedy="Name a tensor of the model and one of its dimensions, from 0 on.",
    ),
    CatalogEntry(
        "MCM-S064",
        "degrees that a cluster does not have",
        "Ops are divided over devices of one server, so that their number divides that of a\n"
        "server's devices, and data, operator and pipeline degrees together take no more devices\n"
        "than there are. Replicas divide the rows of a batch: each needs one at least. What is\n"
        "left open is chosen.",
        example="`--operator 3` on servers of eight devices",
        remedy="Ask for degrees that divide what there is, or leave them to the compiler.",
    ),
    CatalogEntry(
        "MCM-S065",
        "a package of chips is asked to train",
        "Rings of chips run inferences: nothing of theirs adds up gradients. Plans for a step of\n"
        "training are made for clusters.",
        example="`mcmc parallelize model.onnx --target mcm36 --training`",
        remedy="Take a cluster, such as config-a, or leave --training out.",
    ),
)
"""MCM-S060 to MCM-S079: plans made and put to work."""

ENTRIES: tuple[CatalogEntry, ...] = _PIPELINES + _RULES + _APPLYING + DECISIONS
