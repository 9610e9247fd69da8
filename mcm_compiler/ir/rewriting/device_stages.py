"""ONNX's multi-device fields: names of configurations, and the host as a device."""

from __future__ import annotations

from collections.abc import Collection

import onnx_ir as ir

from mcm_compiler.contracts.chips import RUNS_ON_HOST, RUNS_ON_PROPERTY

MULTI_DEVICE_IR_VERSION = 11
"""The IR version that introduced the multi-device fields."""

HOST_CONFIGURATION = "mcm_host"
"""The configuration whose only device is the host; ops that it runs are in its stage 0."""


def free_name(base: str, taken: Collection[str]) -> str:
    """`base`, with a number behind it if it is taken."""
    name, suffix = base, 1
    while name in taken:
        suffix += 1
        name = f"{base}_{suffix}"
    return name


def stage_on_host(model: ir.Model) -> None:
    """Puts ops that are marked to run on the host there in the multi-device fields, too.

    A model without such ops stays as it is.
    """
    marked = [
        node for node in model.graph if node.metadata_props.get(RUNS_ON_PROPERTY) == RUNS_ON_HOST
    ]
    if not marked:
        return
    model.ir_version = max(model.ir_version, MULTI_DEVICE_IR_VERSION)
    taken = [configuration.name for configuration in model.device_configurations]
    host = model.add_device_configuration(
        free_name(HOST_CONFIGURATION, taken), device_names=[RUNS_ON_HOST]
    )
    for node in marked:
        node.set_pipeline_stage(host, 0)
