"""Codes MCM-D030 to MCM-D049: gradients and training steps."""

from __future__ import annotations

from mcm_compiler.diagnostics.catalog.entry import CatalogEntry

ENTRIES: tuple[CatalogEntry, ...] = ()
