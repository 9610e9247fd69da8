"""Codes MCM-B###: project files, and builds of them."""

from __future__ import annotations

from mcm_compiler.diagnostics.catalog.entry import CatalogEntry

ENTRIES: tuple[CatalogEntry, ...] = (
    CatalogEntry(
        "MCM-B001",
        "unreadable project file",
        "The project file does not exist, cannot be read, is too large, or is not TOML. The place\n"
        "has the line. docs/reference/project-file.md has every key.",
        example="`mcmc build` in a folder without mcmc.toml",
        remedy="Name a project file, or correct the line.",
    ),
    CatalogEntry(
        "MCM-B002",
        "unknown key in the project file",
        "A table of the project file has a key that it cannot have. Nothing is built, because a\n"
        "threshold that is misspelt would never be missed.",
        example="max_regresion = \"3%\" in mcmc.toml: did you mean 'max_regression'?",
        remedy="Correct the key, or remove it.",
    ),
    CatalogEntry(
        "MCM-B003",
        "key missing in the project file",
        "A project needs models, a model needs files, a profile needs a name, and an expected\n"
        "failure needs a code and a reason.",
        example="a [[models]] table without files",
        remedy="Add the key that the hint names.",
    ),
    CatalogEntry(
        "MCM-B004",
        "value that its key cannot have",
        "A value of the project file is of another type than its key needs, or out of range. The\n"
        "hint says what it may be. Amounts are texts with their unit.",
        example='max_latency = 3: 3 is not a text such as "500 us"',
        remedy="Write the value as the hint says.",
    ),
    CatalogEntry(
        "MCM-B005",
        "given twice in the project file",
        "Two keys say the same: one stands at the top of the file and in [defaults], 'level' and\n"
        "'levels' are both given, or two profiles of a model have one name.",
        example="level = 1 and levels = [0, 2] in one table",
        remedy="Leave one of the two out, or rename one.",
    ),
    CatalogEntry(
        "MCM-B006",
        "contradictory sizes of a profile",
        "A profile gives a dimension or an input another size than its model does. Sizes that\n"
        "differ from profile to profile belong into the profiles alone. What [defaults] says is\n"
        "replaced by models and profiles, and contradicts nothing.",
        example="dims = { seq = 128 } for the model, and dims = { seq = 1 } in its profile decode",
        remedy="Give the size in the profiles alone, or once for the model.",
    ),
)
