"""Codes MCM-D050 to MCM-D069: placers and what they learn."""

from __future__ import annotations

from mcm_compiler.diagnostics.catalog.entry import CatalogEntry

ENTRIES: tuple[CatalogEntry, ...] = (
    CatalogEntry(
        "MCM-D050",
        "no op tells its layer",
        "The expert's placement puts layers on devices in order, and reads from the names\n"
        "of ops which layer they belong to. Here no name has such a part.",
        example="--placer expert for a model whose nodes are named n0, n1, n2",
        remedy="Name scopes like `layer.0` when the model is exported, or choose another\n"
        "placer, such as `portfolio`: it needs no names.",
    ),
    CatalogEntry(
        "MCM-D051",
        "a package that a placer needs is missing",
        "The placers `metis` and `scotch` ask libraries that are installed with the extra\n"
        "`baselines` alone.",
        example="--placer scotch without scotchpy64",
        remedy="Install the extra with `pip install 'mcm-compiler[baselines]'`, or choose\n"
        "another placer.",
    ),
    CatalogEntry(
        "MCM-D052",
        "a file of weights' devices that cannot be used",
        "The placer `transfer` reads a JSON file of one object: names of weights and of the\n"
        "devices that they lie on in a placement of another version of the model. The file\n"
        "cannot be read, is of another form, or names no weight of this model.",
        example="--placer 'transfer{weights=old.json}' with a file of a model whose weights are\n"
        "named otherwise",
        remedy="Give the file that `mcmc place` wrote for another version of this model, or\n"
        "leave the option out.",
    ),
    CatalogEntry(
        "MCM-D053",
        "a placer cannot work as a member",
        "The option `members` of the placer `portfolio` names the portfolio itself, or\n"
        "nothing at all.",
        example="--placer 'portfolio{members=portfolio}'",
        remedy="Name other placers.",
    ),
    CatalogEntry(
        "MCM-D060",
        "a placer that learns was given scores that are no numbers",
        "One score that is not finite would make all weights of a policy NaN, so learning stops\n"
        "at the first. The fault lies in the times or sizes of the problem, or in the evaluator.",
        example="an evaluator of a plug-in gives NaN: 1 of 4 scores are no numbers from 0 up",
        remedy="Look for op times or sizes that are not finite.",
    ),
    CatalogEntry(
        "MCM-D061",
        "no sampled placement fits, so that nothing could be learned",
        "The published planner takes every placement that does not fit for one of 100 seconds.\n"
        "Where none fits, all signals are equal, and what it samples stays as random as it began.",
        example="a model whose activations fill more than one device, in a box of two",
        remedy="Take hierarchical-groups, whose signal says how much is too much, or a placer\n"
        "that does not learn.",
    ),
    CatalogEntry(
        "MCM-D062",
        "a planner was asked for more groups than there is to group",
        "Each op joins one group, and ops that run together join the same, so that more groups\n"
        "than sets of such ops would stay empty.",
        example="`--placer 'hierarchical{groups=256}'` for a model of 100 ops",
        remedy="Ask for fewer groups; 0 takes 20 per device, and never more than there are ops.",
    ),
    CatalogEntry(
        "MCM-D063",
        "the state of a planner is of something else",
        "A planner goes on from its state only where model, times, box, pins, order, seed and\n"
        "options are the same: its weights have a row for each device, its curve one recipe, and\n"
        "the best placement that it knows was allowed and simulated there. Only the number of\n"
        "evaluations may be another one.",
        example="a state of 3 devices, and a box of 5",
        remedy="Name another folder, or ask for what the state is of.",
    ),
    CatalogEntry(
        "MCM-D064",
        "the state of a planner is damaged",
        "The state is a safetensors file that is written whole or not at all. This one was\n"
        "changed or cut off since.",
        example="a state copied from a full disk",
        remedy="Remove it, or name another folder.",
    ),
    CatalogEntry(
        "MCM-D065",
        "a placement policy cannot be used",
        "The placer pretrained reads a checkpoint as data only: safetensors with a card inside,\n"
        "up to 16 MiB. This one is missing, damaged, was trained on other features, or has\n"
        "weights that do not fit its card.",
        example="`--placer 'pretrained{policy=policy.safetensors}'` with a policy of another kind",
        remedy="Train one with `mcmc train placement`, or use the compiler's own.",
    ),
    CatalogEntry(
        "MCM-D066",
        "a planner diverges",
        "A gradient or a weight is no longer finite, so every later weight would be NaN. The\n"
        "state of the planner or of the training before stays in its folder.",
        example="`hierarchical{learning_rate=1e30}`, or `mcmc train placement` with such a rate",
        remedy="Take a smaller learning rate, or less weight of the entropy.",
    ),
    CatalogEntry(
        "MCM-D067",
        "a training of placements cannot go on",
        "`mcmc train placement --resume` goes on only where the options and the seed are those\n"
        "that the state was left with, but for the number of iterations, which may have grown:\n"
        "it ends with the same bytes as a training that asked for so many at once. This state\n"
        "is of other options, or was changed or cut off since; or the folder holds other files,\n"
        "and no state.",
        example="a training of width 32, resumed with `--set width=64`",
        remedy="Start it again in another folder, or with the options of the state.",
    ),
)
