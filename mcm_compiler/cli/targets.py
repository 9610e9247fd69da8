"""`mcmc targets`: the packages of chips that models can be compiled for."""

from __future__ import annotations

from typing import Any

import click

from mcm_compiler.cli.failures import Verb
from mcm_compiler.cli.parameters import format_option


@click.command(cls=Verb)
@format_option()
def command(output_format: str) -> None:
    """List the packages of chips. A TOML file may stand wherever a name may."""
    from mcm_compiler.cli.listing import component_rows, show_components
    from mcm_compiler.registry import TARGETS
    from mcm_compiler.target_loading import load_target

    def describe(name: str, _component: Any) -> dict[str, Any]:
        target = load_target(name)
        limits = target.limits
        return {
            "summary": target.summary,
            "chips": limits.num_chips,
            "sram_bytes": list(limits.sram_bytes),
            "link_bytes_per_s": limits.link_bytes_per_s,
            "hop_latency_s": limits.hop_latency_s,
            "host_io": limits.host_io,
        }

    show_components("targets", component_rows(TARGETS, describe), output_format)
