"""The addition of fabrics: mappings of chips in compiles, folders, reports and pages."""

from __future__ import annotations

from mcm_compiler.additions import Addition
from mcm_passes.families.fabric import fabric_section
from mcm_passes.families.fabric.chip_mappings import mapped_chips
from mcm_passes.families.fabric.mapping_files import check_mappings, read_mapped, write_mappings

FABRICS = Addition(
    search=mapped_chips,
    write=write_mappings,
    read=read_mapped,
    check=check_mappings,
    facts=fabric_section.fabric_facts,
    lines=fabric_section.fabric_lines,
    page_section=fabric_section.page_section,
    optimum=fabric_section.optimum,
    busy_with=fabric_section.busy_with,
)
"""The component."""
