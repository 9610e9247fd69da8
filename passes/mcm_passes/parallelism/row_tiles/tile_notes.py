"""What the user is told of ops that are divided along rows, and of those that are not."""

from __future__ import annotations

from mcm_compiler.contracts.target import PackageLimits
from mcm_compiler.diagnostics import Diagnostic, quote
from mcm_compiler.text.units import bytes_text, count_text
from mcm_passes.parallelism.row_tiles.row_tiling import NotTiled, TiledRows


def tiled_note(region: TiledRows, limits: PackageLimits) -> Diagnostic:
    """MCM-P057: ops were divided along rows."""
    largest = bytes_text(max(limits.sram_bytes))
    why = f"{bytes_text(region.need_bytes)} do not fit a chip of {largest}: "
    return Diagnostic(
        "MCM-P057",
        f"{why if region.need_bytes else ''}{count_text(len(region.ops), 'op')} divided along "
        f"{region.rows:,} rows into {region.tiles} tiles",
        at=f"node {quote(region.node)}",
    )


def not_tiled_note(refused: NotTiled, limits: PackageLimits) -> Diagnostic:
    """MCM-P058: an op that no chip has room for is not divided."""
    return Diagnostic(
        "MCM-P058",
        f"{bytes_text(refused.need_bytes)} do not fit a chip of "
        f"{bytes_text(max(limits.sram_bytes))}, and the op is not divided along rows: "
        + "; ".join(refused.reasons),
        at=f"node {quote(refused.node.name or '')} ({quote(refused.node.op_type)})",
    )
