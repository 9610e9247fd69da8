"""Codes MCM-D001 to MCM-D029: boxes of CPUs and GPUs, and steps that are placed in them."""

from __future__ import annotations

from mcm_compiler.diagnostics.catalog.entry import CatalogEntry

ENTRIES: tuple[CatalogEntry, ...] = (
    CatalogEntry(
        "MCM-D001",
        "a box where a package of chips is needed",
        "A box of CPUs and GPUs runs one step at a time on all of its devices, so nothing is\n"
        "compiled for a ring of chips in it. What is decided for a box is which op runs where.",
        example="`mcmc compile model.onnx --target box-2gpu`",
        remedy="`mcmc place model.onnx --target box-2gpu` places the ops; `mcmc targets` lists\n"
        "the packages of chips that models are compiled for.",
    ),
    CatalogEntry(
        "MCM-D002",
        "no box where one is needed",
        "`mcmc place` asks which op runs on which device of one machine. Packages of chips and\n"
        "clusters have verbs of their own.",
        example="`mcmc place model.onnx --target mcm36`",
        remedy='Name a box, or a description with family = "box"; `mcmc targets` lists them.',
    ),
    CatalogEntry(
        "MCM-D003",
        "an unknown kind of device",
        "The devices of a box are of kinds, each with its rates, memory and the ops that it runs.\n"
        "Some kinds are built in; others stand in the description itself.",
        example='kind = "k80" below [[device]], without a table [kind.k80]',
        remedy="Take a built-in kind that the message names, or describe the kind below\n"
        "`[kind.NAME]`: role, memory_mib, memory_bandwidth_gb_per_s and peak_tflop_per_s.",
    ),
    CatalogEntry(
        "MCM-D010",
        "ops that no device of the box runs",
        "Every kind of device lists what it cannot run, and an op is on all lists: there is\n"
        "nowhere to place it. There is one such error for each type of op.",
        example="a model with `NonZero` for a box whose only kind has\n"
        '`unsupported_ops = ["NonZero"]`',
        remedy="Add a device that runs the op, such as a CPU, or replace the op in the model.",
    ),
    CatalogEntry(
        "MCM-D011",
        "a value of unknown size",
        "What a copy takes and how much memory is held follows from the sizes of tensors, so that\n"
        "each needs a type and a static shape.",
        example="the output of `NonZero`, whose length depends on the data",
        remedy="Fix the dimensions of the inputs (`--dim batch=8`); where an op's output depends\n"
        "on the data, give its greatest size in the model's value infos.",
    ),
    CatalogEntry(
        "MCM-D012",
        "a step that does not fit into the box",
        "Variables and the largest op's tensors must lie in memory at once, wherever they are\n"
        "placed, and they take more than the devices have. No placement changes that.",
        example="300 MB of variables and gradients for a box of two devices with 100 MB each",
        remedy="Take a smaller batch, fewer layers, or a box with more memory or more devices.",
    ),
)
