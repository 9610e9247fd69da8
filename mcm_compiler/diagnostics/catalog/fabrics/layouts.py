"""Codes MCM-M001 and on: laying subgraphs out on fabrics."""

from __future__ import annotations

from mcm_compiler.diagnostics.catalog.entry import CatalogEntry

ENTRIES: tuple[CatalogEntry, ...] = (
    CatalogEntry(
        "MCM-M001",
        "more stages than compute units",
        "Each op that does not join another one becomes a stage of the fabric's pipeline, and a\n"
        "stage has compute units of its own, at least one. The subgraph has more stages than the\n"
        "fabric has such units, or than were granted.",
        example="all 24 layers of BERT-large on one `fabric-16`: the subgraph has 265 stages, and\n"
        "there are 128 compute units for them",
        remedy="Split the model over as many chips as the message says (a ring of fabrics does\n"
        "that), take a larger fabric, or grant more units.",
    ),
    CatalogEntry(
        "MCM-M002",
        "what lies between the stages does not fit",
        "Memory units between stages hold every value that a stage makes for another one: as\n"
        "many samples of it as stages lie between who makes it and who reads it last, and two at\n"
        "least, since else one stage would wait for the other. Weights would already come from\n"
        "outside for each sample, so that they take no room.",
        example="an image of 4096 x 4096 with 64 channels on `fabric-12`, whose memory units have\n"
        "256 KiB each",
        remedy="Split the model over as many chips as the message says, take a fabric with more\n"
        "or larger memory units, or a smaller batch.",
    ),
    CatalogEntry(
        "MCM-M003",
        "values of unknown size on a fabric",
        "Units and their memory are shared out before the first sample comes, so every value\n"
        "needs a size. Shape inference did not find that of the value that the message names.",
        example="a model with an input of shape `[batch, 3, 224, 224]`",
        remedy="Give the dimensions of the inputs, as with `--dim batch=8`.",
    ),
    CatalogEntry(
        "MCM-M004",
        "nothing to lay out on a fabric",
        "No output of the model depends on one of its inputs, so that no unit would have anything\n"
        "to do. Of several chips some may have nothing to do.",
        example="a model whose outputs are constants",
        remedy="Compile the model that you meant, or let `simplify` fold it.",
    ),
    CatalogEntry(
        "MCM-M005",
        "compute units that a fabric does not have",
        "A subgraph may be laid out on a part of the fabric's compute units: on one at least, and\n"
        "on no more than there are.",
        example="200 compute units of `fabric-16`, which has 128",
        remedy="Ask for a number from 1 up to that of the fabric, or for all.",
    ),
)
