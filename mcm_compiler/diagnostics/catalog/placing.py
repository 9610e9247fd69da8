"""Codes MCM-D050 to MCM-D069: placers and what they learn."""

from __future__ import annotations

from mcm_compiler.diagnostics.catalog.entry import CatalogEntry

ENTRIES: tuple[CatalogEntry, ...] = ()
