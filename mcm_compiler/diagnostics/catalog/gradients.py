"""Codes MCM-D030 to MCM-D049: gradients and training steps."""

from __future__ import annotations

from mcm_compiler.diagnostics.catalog.entry import CatalogEntry

ENTRIES: tuple[CatalogEntry, ...] = (
    CatalogEntry(
        "MCM-D030",
        "an operator without a gradient rule",
        "Reverse mode goes back from the loss through every op that a trained weight acts on, and\n"
        "each type of op needs a rule there. The message counts the ops and names the first.\n"
        "docs/reference/gradient-rules.md lists the operators that have one.",
        example="`com.acme::Blend` between a weight and the loss, without a plug-in's rule",
        remedy="Register a rule (`register_gradient_rule`), or leave the weights before the op as\n"
        "they are with `variables=PATTERN`.",
    ),
    CatalogEntry(
        "MCM-D031",
        "an op that has no gradient as it stands",
        "The operator has a rule, but not for what this op's attributes or inputs ask for: axes\n"
        "that are computed, a reduction that cannot be turned back, a body that reads weights\n"
        "from outside. The message says why.",
        example="`ScatterND` with `reduction=max`",
        remedy="Write the op in another form, or leave the weights before it as they are with\n"
        "`variables=PATTERN`.",
    ),
    CatalogEntry(
        "MCM-D032",
        "no loss to minimise",
        "A loss is an output of the model with one element of floating point. Without\n"
        '`loss=NAME` there has to be just one. `loss="cross_entropy:NAME"` and\n'
        '`loss="squares:NAME"` add one that compares an output with a new input.',
        example="`differentiate` of a classifier whose only output is `logits`",
        remedy="Name the output that is a loss with `loss=NAME`, or have one added.",
    ),
    CatalogEntry(
        "MCM-D033",
        "nothing to train",
        "Trained are initializers of floating point that the loss depends on and that\n"
        "`variables=PATTERN` names. Scalars count only where a pattern names them, statistics of\n"
        "normalisation never.",
        example='`differentiate{variables="encoder.*"}` of a model without an encoder',
        remedy="Correct the pattern; `*` stands for all.",
    ),
    CatalogEntry(
        "MCM-D034",
        "a gradient needs a shape that is not static",
        "Gradient ops are written for the shapes that values have, so that all shapes between the\n"
        "weights and the loss have to be known.",
        example="a batch of symbolic size",
        remedy="Bind symbolic dimensions with `--dim`, or give sizes with `--shape`.",
    ),
    CatalogEntry(
        "MCM-D035",
        "a gradient rule does not fit the op",
        "A rule gives a gradient or nothing for each input of the op, of that input's type and\n"
        "shape, and does not fail. It is checked where it is used: a wrong rule would train in a\n"
        "wrong direction.",
        example="a plug-in's rule for Blend gives two gradients, and the op has three inputs",
        remedy="Correct the rule, or tell those who wrote it.",
    ),
    CatalogEntry(
        "MCM-D036",
        "an op that cannot be taken up to the opset of gradients",
        "Gradients are written in opset 18, where `ScatterND` adds and reductions read axes.\n"
        "Models of older opsets are taken there op by op; few ops mean something else there and\n"
        "cannot be written anew.",
        example="`Clip` of opset 7, whose bounds are attributes",
        remedy="Export the model with `opset_version=18` or newer.",
    ),
    CatalogEntry(
        "MCM-D037",
        "an entry point that holds no gradient rule",
        "Entry points of `mcm_compiler.gradient_rules` name a function from `GradientRequest` to\n"
        "gradients, or a mapping of such functions by operator.",
        example='`"com.acme::Blend" = "acme_passes.gradients:NAME"` where NAME is a text',
        remedy="Correct the entry point in the plug-in's pyproject.toml.",
    ),
    CatalogEntry(
        "MCM-D038",
        "what a training step consists of",
        "How many states the step has (weights, and what the optimiser keeps of them), and how\n"
        "many ops each of its parts.",
        example="`differentiate{optimizer=adam}` of a model with 20 weights",
        remedy="None is needed.",
    ),
)
