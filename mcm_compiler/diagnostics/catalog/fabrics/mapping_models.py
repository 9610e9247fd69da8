"""Codes from MCM-M050 on: learned mapping models, their data and their training."""

from __future__ import annotations

from mcm_compiler.diagnostics.catalog.entry import CatalogEntry

ENTRIES: tuple[CatalogEntry, ...] = (
    CatalogEntry(
        "MCM-M050",
        "a file is no mapping model, or a damaged one",
        "Checkpoints are safetensors files with a card in their header, which says what the model\n"
        "is and what it has learned of. They are read as data only, up to 1 MiB. The message says\n"
        "what is missing or cut off.",
        example="`--mapping-model 'gnn{checkpoint=policy.safetensors}'`",
        remedy="Name a checkpoint that `mcmc train mapping-model` wrote.",
    ),
    CatalogEntry(
        "MCM-M051",
        "a mapping model was trained on other features",
        "What a model sees of a mapping has a version, which rises when a column changes its\n"
        "meaning. The weights of another version would read the wrong columns.",
        example="a model that an earlier release trained",
        remedy="Train it again, or use the one that comes with the compiler.",
    ),
    CatalogEntry(
        "MCM-M052",
        "the weights of a mapping model do not fit its card",
        "The card gives widths and rounds, from which follow the names and shapes of all weights,\n"
        "in 32-bit floats. A weight is missing, unknown, of another shape or type, or holds\n"
        "numbers that are not finite.",
        example="a checkpoint whose card says 3 rounds and that holds 2",
        remedy="Train the model again; the file was changed.",
    ),
    CatalogEntry(
        "MCM-M053",
        "a mapping model has learned of something else",
        "A learned model knows what a judge measured of problems that one lowering made, on\n"
        "fabrics of one make: widths, windows, buffers and delays. Hashes of all three stand in\n"
        "its card. On anything else its guesses mean nothing, so it is refused rather than used.\n"
        "The size of the fabric is not part of its make.",
        example="a model trained with windows of 16 flits, for a fabric with windows of 8",
        remedy="Train one for this target with `mcmc train mapping-model`, or use an analytic\n"
        "model, such as round-trips.",
    ),
    CatalogEntry(
        "MCM-M054",
        "a file is no data set of measured mappings, or a damaged one",
        "Data sets are `.npz` files of plain numbers with a card among them, up to 64 MiB, and\n"
        "256 MiB unpacked; sizes are looked at before anything is read, and nothing is unpickled.",
        example="a file that was cut off while it was copied",
        remedy="Copy it again, or collect it anew.",
    ),
    CatalogEntry(
        "MCM-M055",
        "a data set of measured mappings was changed",
        "The card of a data set holds a digest of all its arrays, and the arrays have another.\n"
        "Somebody changed numbers, or a disk did.",
        example="a period of the file was edited",
        remedy="Get the original, or collect it anew.",
    ),
    CatalogEntry(
        "MCM-M056",
        "nothing can be learned from measured mappings",
        "A period is NaN, infinite, or shorter than the bound that no mapping beats; or a mapping\n"
        "or a problem is not legal. One such label would spoil all weights.",
        example="graph 3: period_cycles of mapping 2 is nan",
        remedy="Mend the judge that measured it, and collect the data anew.",
    ),
    CatalogEntry(
        "MCM-M057",
        "a data set was measured for something else",
        "Its card has hashes of the make of the fabric, of the lowering and of the judge's\n"
        "physics, and those of the target differ. A model that learned from both would be wrong\n"
        "about both.",
        example="training for fabric-16 goes on with data from before the lowering changed",
        remedy="Collect data for this target in a new folder.",
    ),
    CatalogEntry(
        "MCM-M058",
        "the training of a mapping model diverges",
        "A loss or a weight is no longer finite, so that every later weight would be NaN; or\n"
        "weights are so large that what the network answers is no period.",
        example="`--set learning_rate=10`",
        remedy="Train with a smaller learning rate.",
    ),
    CatalogEntry(
        "MCM-M059",
        "the training of a mapping model cannot go on",
        "The folder holds the state of a training with other options, another seed or another\n"
        "target, or its state is damaged.",
        example="--resume with another width",
        remedy="Go on with the options that it was started with, or start in another folder.",
    ),
    CatalogEntry(
        "MCM-M060",
        "a target has no fabrics to learn of",
        "Mapping models guess what fabrics do, and the chips of this target are none.",
        example="`mcmc train mapping-model --set target=mcm36`",
        remedy="Name a target whose chips are fabrics, such as fabric-16.",
    ),
    CatalogEntry(
        "MCM-M061",
        "too few graphs to learn from",
        "Learning needs graphs of which it sees several mappings, and others that choose among\n"
        "checkpoints. Of the blocks that were drawn too many did not fit on the fabric, or\n"
        "their measurements did not come to a period that repeats.",
        example="`--set graphs=1`",
        remedy="Ask for more graphs, or for a larger fabric.",
    ),
)
