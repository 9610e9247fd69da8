"""Codes MCM-S###: sharding rules, parallel plans and clusters."""

from __future__ import annotations

from mcm_compiler.diagnostic_catalog.entry import CatalogEntry
from mcm_compiler.diagnostic_catalog.sharding_decisions import DECISIONS

_RULES: tuple[CatalogEntry, ...] = (
    CatalogEntry(
        "MCM-S001",
        "text that is no sharding rule",
        "A rule reads `operands -> results`, such as `b m k+, k+ n -> b m n`. Operands are\n"
        "divided by commas, dimensions by spaces; `(h d)` is a dimension with a major and a minor\n"
        "factor, `1` one that is never divided, `[]` an operand without dimensions and `_` one\n"
        "that every device reads whole. The message gives the column. The notation is in\n"
        "docs/reference/sharding-rules.md.",
    ),
    CatalogEntry(
        "MCM-S002",
        "a factor of a sharding rule has two marks",
        "A factor is passed through, reduced (`k+`), needed whole (`!n`), slid over by a window\n"
        "(`y~`) or divided in a pattern that is not contiguous (`c/`). It is one of these\n"
        "wherever it stands, so one mark is enough.",
    ),
    CatalogEntry(
        "MCM-S003",
        "a sharding rule names a reduction that does not exist",
        "Partial results are put together by sum (`k+`), max, min, prod (`k+max`), or by mean\n"
        "(`k+mean`), weighted by what each device had of the factor.",
    ),
    CatalogEntry(
        "MCM-S004",
        "a sharding rule does not fit the ranks of an op",
        "`*` stands for any number of leading dimensions, so that a rule with it holds only\n"
        "together with the shapes of an op. An operand or result has more or fewer dimensions\n"
        "than the rule has, or there are more operands than the rule names.",
    ),
    CatalogEntry(
        "MCM-S005",
        "a sharding rule contradicts the shapes of an op",
        "A factor has one size wherever it stands (1 where it is broadcast), and the size of a\n"
        "compound dimension is the product of its factors.",
    ),
    CatalogEntry(
        "MCM-S006",
        "a factor stands twice in one operand of a sharding rule",
        "One division cannot cut two dimensions of the same operand. Where an op reads a\n"
        "diagonal, give the two dimensions names of their own and mark them as needed whole.",
    ),
    CatalogEntry(
        "MCM-S007",
        "a factor of a sharding rule stands where it cannot",
        "Dividing a reduced factor leaves results without it partial, so there is one. A factor\n"
        "that is passed through is in a result: what only operands have is reduced or needed\n"
        "whole.",
    ),
    CatalogEntry(
        "MCM-S008",
        "the sharding rule of a plug-in does not fit the op",
        "A rule describes every operand and result of the op: as many as the op has, each of the\n"
        "right rank, with factors that exist. It is checked where it is made: a wrong rule\n"
        "would give a wrong model; nor may the function that makes it fail. Tell those who wrote\n"
        "the plug-in.",
    ),
    CatalogEntry(
        "MCM-S009",
        "an entry point holds no sharding rules",
        "An entry point of the group `mcm_compiler.sharding_rules` is a rule, named by the\n"
        "operator (`Blend`, or `com.acme::Blend` for another domain than that of ONNX), or a\n"
        "mapping from such names to rules under any name. A rule is a text or a function that\n"
        "makes one.",
    ),
    CatalogEntry(
        "MCM-S010",
        "an operator has no sharding rule",
        "Nothing is known of what the operator does with its dimensions, so that each device\n"
        "runs the whole op and nothing around it is divided either. A plug-in can register a rule\n"
        "under `mcm_compiler.sharding_rules`, by the name of the operator and its domain.",
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
    ),
    CatalogEntry(
        "MCM-S041",
        "a package of chips was given where a cluster is needed",
        "What was asked for is planned over servers of accelerators, whose networks and memories\n"
        "the description of a package of chips does not have. Take one of the clusters that come\n"
        'with the compiler, or write a description with `family = "cluster"`.',
    ),
    CatalogEntry(
        "MCM-S042",
        "no pipeline fits into the memory of the devices",
        "Weights, gradients, optimiser state and kept activations of a stage are on each of its\n"
        "devices. The message has what the pipeline that needs least has on its fullest device,\n"
        "and what a device has. More stages, an optimiser with less state (adafactor, sgd), a\n"
        "smaller micro-batch, or recomputing activations help.",
    ),
    CatalogEntry(
        "MCM-S043",
        "a model cannot be cut into so many stages",
        "Every stage of a pipeline holds at least one part of the model with a weight, and at\n"
        "least one device. Ask for fewer stages.",
    ),
    CatalogEntry(
        "MCM-S044",
        "a checkpoint of the pipeline policy cannot be used",
        "The file is damaged, is no checkpoint of a pipeline policy, was trained on other\n"
        "features, or its weights do not fit its card. Train one with `mcmc train pipeline`, or\n"
        "use the one that comes with the compiler.",
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
    ),
    CatalogEntry(
        "MCM-S062",
        "a plan divides two dimensions that meet in an op",
        "Every device has one part of what is divided, so that an op can be divided along one of\n"
        "its loops only. The message has the way from the one dimension to the op and on to the\n"
        "other. Keep one of the two whole.",
    ),
    CatalogEntry(
        "MCM-S063",
        "a tensor that is asked about does not exist",
        "`--why NAME.DIM` takes the name of any tensor of the model, a point, and the number of\n"
        "one of its dimensions, from 0 on.",
    ),
    CatalogEntry(
        "MCM-S064",
        "degrees that a cluster does not have",
        "Ops are divided over devices of one server, so that their number divides that of a\n"
        "server's devices, and data, operator and pipeline degrees together take no more devices\n"
        "than there are. Replicas need a batch dimension to divide. What is left open is chosen.",
    ),
    CatalogEntry(
        "MCM-S065",
        "a package of chips is asked to train",
        "Rings of chips run inferences: nothing of theirs adds up gradients. Plans for a step of\n"
        "training are made for clusters.",
    ),
)
"""MCM-S060 to MCM-S079: plans made and put to work."""

ENTRIES: tuple[CatalogEntry, ...] = _PIPELINES + _RULES + _APPLYING + DECISIONS
