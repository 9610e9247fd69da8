"""Codes MCM-D070 to MCM-D099: what `mcmc place` is asked and writes."""

from __future__ import annotations

from mcm_compiler.diagnostics.catalog.entry import CatalogEntry

ENTRIES: tuple[CatalogEntry, ...] = ()
