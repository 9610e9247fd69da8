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
)
