"""Placements as runtimes take them: onnxruntime's layer annotations, OpenVINO's affinities.

onnxruntime (1.27 and newer) takes a name per node, `layer_ann` in its metadata, and rules that
send names to devices. It is a wish: a rule for a device that no provider has is logged and passed
over, and a provider takes of its nodes what it can. So what a session did is read back, with
`assignment_of`, and compared with the plan. A rule without `=` fits all names that begin with what
it says; names have the same number of digits, so that none is the beginning of another. A session
holds one instance of a provider: two GPUs need two sessions, which is what segments are for.

OpenVINO takes the device of each op in `rt_info["affinity"]`, under its device `HETERO`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mcm_compiler.contracts.boxes.box import Box
from mcm_compiler.placed import records

ANNOTATION = "layer_ann"
"""Key of a node's metadata that onnxruntime reads."""

RULES = "session.layer_assignment_settings"
RECORD = "session.record_ep_graph_assignment_info"

CPU_PROVIDER = "CPUExecutionProvider"


def annotation_names(devices: int) -> tuple[str, ...]:
    """`[D]`, what nodes of each device are marked with; none begins with another."""
    digits = len(str(max(devices - 1, 0)))
    return tuple(f"d{device:0{digits}}" for device in range(devices))


def designators(box: Box) -> dict[str, str]:
    """Names of a host's devices in onnxruntime: GPUs have numbers, other devices have none."""
    return {
        device: device if device.startswith("gpu:") else device.partition(":")[0]
        for device in box.devices
    }


def onnxruntime_settings(
    box: Box, used: Sequence[int], names: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """Session options with which onnxruntime takes the placement of `annotated.onnx`.

    Args:
        box: the devices.
        used: devices that run ops.
        names: what onnxruntime calls each device, where that is not `designators`: such as the
            name of a provider.
    """
    known = {**designators(box), **(names or {})}
    marks = annotation_names(box.num_devices)
    rules: dict[str, list[str]] = {}
    for device in used:
        rules.setdefault(known[box.devices[device]], []).append(f"={marks[device]}")
    text = ";".join(f"{name}({','.join(fits)})" for name, fits in rules.items())
    one = sum(name != "cpu" for name in rules) <= 1
    return {
        "annotations": {box.devices[d]: marks[d] for d in used},
        "designators": {box.devices[d]: known[box.devices[d]] for d in used},
        "session_config": {RULES: text, RECORD: "1"},
        "one_session": one,
    }


def runtime_files(box: Box, device_of_node: Mapping[str, str]) -> dict[str, dict[str, Any]]:
    """Files of the folder for runtimes, by name.

    Args:
        box: the devices.
        device_of_node: a device's name for each node.
    """
    used = sorted({box.devices.index(device) for device in device_of_node.values()})
    return {
        records.ONNXRUNTIME: onnxruntime_settings(box, used),
        records.OPENVINO: openvino_affinities(box, device_of_node),
    }


def assignment_of(session: Any) -> dict[str, str]:
    """The provider of each node by its name, as a session has it.

    Nodes that optimisations removed or made are as the session has them, too.

    Args:
        session: an `onnxruntime.InferenceSession`, opened with `RECORD` set to 1.
    """
    return {
        node.name: part.ep_name
        for part in session.get_provider_graph_assignment_info()
        for node in part.get_nodes()
    }


@dataclass(frozen=True)
class ReadBack:
    """A plan compared with what a session did.

    Attributes:
        as_planned: how many nodes are where they should be.
        elsewhere: `(node, planned provider, provider)` of those that are not.
        unknown: nodes of the plan that the session does not have, such as those that were fused.
    """

    as_planned: int
    elsewhere: tuple[tuple[str, str, str], ...]
    unknown: tuple[str, ...]

    @property
    def holds(self) -> bool:
        """True if no node is elsewhere."""
        return not self.elsewhere


def read_back(
    planned: Mapping[str, str], provider_of: Mapping[str, str], actual: Mapping[str, str]
) -> ReadBack:
    """Compares.

    Args:
        planned: the device of each node.
        provider_of: the provider of each device.
        actual: as `assignment_of` gives it.
    """
    elsewhere: list[tuple[str, str, str]] = []
    unknown: list[str] = []
    equal = 0
    for node, device in planned.items():
        if node not in actual:
            unknown.append(node)
        elif actual[node] == provider_of[device]:
            equal += 1
        else:
            elsewhere.append((node, provider_of[device], actual[node]))
    return ReadBack(equal, tuple(elsewhere), tuple(unknown))


def openvino_affinities(box: Box, device_of_node: Mapping[str, str]) -> dict[str, Any]:
    """The device `HETERO` of OpenVINO and the affinity of each node by its name.

    Args:
        box: the devices.
        device_of_node: a device's name for each node.
    """
    known = {
        device: "CPU" if name == "cpu" else name.upper().replace(":", ".")
        for device, name in designators(box).items()
    }
    used = {known[device] for device in device_of_node.values()}
    # OpenVINO asks devices in this order for ops without affinity: the host comes last.
    ordered = sorted(used, key=lambda name: (name == "CPU", name))
    return {
        "device": f"HETERO:{','.join(ordered)}",
        "affinity": {node: known[device] for node, device in device_of_node.items()},
    }
