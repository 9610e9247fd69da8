"""Every diagnostic code of the compiler with its long explanation, one family a file."""

from __future__ import annotations

from mcm_compiler.diagnostics.catalog.entry import CatalogEntry


def catalog() -> dict[str, CatalogEntry]:
    """All entries by code, sorted.

    Raises:
        ValueError: if two entries share a code.
    """
    from mcm_compiler.diagnostics.catalog import (
        artifacts,
        boxes,
        costs,
        gradients,
        importing,
        learning,
        objectives,
        partitioning,
        passes,
        placed_models,
        placing,
        problem_files,
        projects,
        sharding,
        targets,
        usage,
        verification,
    )
    from mcm_compiler.diagnostics.catalog.fabrics import (
        layouts,
        mapped_chips,
        mappers,
        mapping_models,
    )

    families = (
        artifacts,
        boxes,
        costs,
        gradients,
        importing,
        learning,
        objectives,
        partitioning,
        passes,
        placed_models,
        placing,
        problem_files,
        projects,
        sharding,
        targets,
        usage,
        verification,
        layouts,
        mapped_chips,
        mappers,
        mapping_models,
    )
    entries: dict[str, CatalogEntry] = {}
    for entry in (entry for family in families for entry in family.ENTRIES):
        if entry.code in entries:
            raise ValueError(f"diagnostic code {entry.code} is defined twice")
        entries[entry.code] = entry
    return dict(sorted(entries.items()))
