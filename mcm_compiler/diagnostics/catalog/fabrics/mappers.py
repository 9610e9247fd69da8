"""Codes MCM-M04#: mappers, and what they ask mapping models."""

from __future__ import annotations

from mcm_compiler.diagnostics.catalog.entry import CatalogEntry

ENTRIES: tuple[CatalogEntry, ...] = (
    CatalogEntry(
        "MCM-M040",
        "a mapping model answers with something else than one number per mapping",
        "Mappers ask a mapping model about many mappings at once, and get an array with one\n"
        "number for each. Arrays of another shape, and what is no array of numbers, would be\n"
        "taken for something that they are not.",
        example="period_cycles of a plug-in returns the shape (64, 1) for 64 mappings",
        remedy="Mend the model, or choose another one, such as --mapping-model round-trips.",
    ),
    CatalogEntry(
        "MCM-M041",
        "a mapping model answers with numbers that are no periods",
        "Periods are finite and above 0. NaN compares as false with everything, so that a search\n"
        "would take such a mapping for the best one, or never leave it.",
        example="a network of a plug-in overflows: 3 of 64 answers are no finite numbers above 0",
        remedy="Look for features that are not finite, or choose another model.",
    ),
    CatalogEntry(
        "MCM-M042",
        "a search cannot start from a mapping that is not legal",
        "A mapper was given a mapping to start from that is of another problem or fabric, or puts\n"
        "units where they cannot be.",
        example="a mapping of 40 units is given for a problem of 56",
        remedy="Give a mapping of the same problem on the same fabric, or none.",
    ),
    CatalogEntry(
        "MCM-M043",
        "a fitted formula is asked about another fabric or lowering",
        "The coefficients of `ridge` were fitted to measurements of one lowering, judge and sort\n"
        "of fabric. Elsewhere their answers would be guesses that look like knowledge.",
        example="--mapping-model ridge for a fabric whose windows hold 32 flits, fitted with 16",
        remedy="Choose `round-trips`, which needs no fit, or fit anew with\n"
        "`python tools/reproduce/fabrics/lcm_ridge.py`.",
    ),
)
