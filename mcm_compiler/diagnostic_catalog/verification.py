"""Codes MCM-V###: proving that the chips compute what the model computes."""

from __future__ import annotations

from mcm_compiler.diagnostic_catalog.entry import CatalogEntry

ENTRIES: tuple[CatalogEntry, ...] = (
    CatalogEntry(
        "MCM-V001",
        "onnxruntime refuses a model",
        "Stock onnxruntime is the functional judge: the source model and every chip's\n"
        "model must load in it. Its own reason is in the message.",
    ),
    CatalogEntry(
        "MCM-V002",
        "onnxruntime fails while running",
        "The model loads but does not run on the given or random inputs. Its own reason\n"
        "is in the message; indices out of range in random inputs are a common one.",
    ),
    CatalogEntry(
        "MCM-V003",
        "tensor missing on a wire",
        "A wire takes a tensor from a chip that does not make it, or a graph output\n"
        "reaches no host wire. The folder was changed, or the compiler is at fault.",
    ),
    CatalogEntry(
        "MCM-V010",
        "wrong inputs for a run",
        "mcmc run needs one array for each graph input, of the shape and type that the\n"
        "model was compiled for.",
    ),
    CatalogEntry(
        "MCM-V020",
        "chips and model differ",
        "The chain of chips gives another result than the source model on the same input,\n"
        "with graph optimisations off in both. Equal bits are required; a tolerance\n"
        "applies only where 16-bit floats cross a wire.",
    ),
    CatalogEntry(
        "MCM-V021",
        "equality not checked",
        "The weights are placeholders (a shape-only model), so that equal outputs would\n"
        "prove nothing. All other checks were made.",
    ),
    CatalogEntry(
        "MCM-V030",
        "simulation differs from the report",
        "Simulating the folder's program again gives another period than report.json\nsays.",
    ),
    CatalogEntry(
        "MCM-V040",
        "buffers overlap",
        "Two buffers of a chip's memory plan share an address while both hold data.",
    ),
    CatalogEntry(
        "MCM-V041",
        "buffer outside SRAM",
        "A buffer ends beyond the chip's SRAM.",
    ),
    CatalogEntry(
        "MCM-V042",
        "program does not belong to the chips",
        "Lowering the chips' models for the folder's target gives another program than\n"
        "the one that is stored.",
    ),
    CatalogEntry(
        "MCM-V050",
        "constraint broken",
        "The wires between chips break one of the ring's rules: dataflow runs one way, no\n"
        "chip is skipped, and (under the strict rule) no direct wire runs beside a longer\n"
        "path.",
    ),
)
