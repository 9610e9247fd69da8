"""All numbers of a package: the keys of its file with defaults, and what follows from them."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from mcm_hardware.chip.chip_spec import ChipSpec, PackageSpec
from mcm_hardware.descriptions.description_reader import DescriptionReader
from mcm_hardware.descriptions.package_schema import PackageForm
from mcm_hardware.descriptions.target_schema import CHIP_TABLE

Section = dict[str, str | float]


def package_details(
    name: str, text: str, spec: PackageSpec, form: PackageForm
) -> dict[str, Section]:
    """Values by section and key.

    Args:
        name: of the target.
        text: its description, without faults.
        spec: what the description says.
        form: what descriptions of the family look like.

    Returns:
        A section per table of the file with the keys as they are written there, one for each kind
        of chip, the bytes per element of every ONNX type, and `derived`.
    """
    reader = DescriptionReader(name, text, form)
    sections = reader.sections()
    for table in reader.chip_tables or ():
        for path, value in table.given.items():
            at, _, key = path.rpartition(".")
            section = f"{CHIP_TABLE}.{table.name}{at.removeprefix(CHIP_TABLE)}"
            sections.setdefault(section, {})[key] = value
    kinds: dict[tuple[int, int, float], list[int]] = {}
    kind_of = spec.kind_of or (0,) * spec.num_chips
    for place, chip, kind in zip(spec.physical, spec.chips, kind_of, strict=True):
        kinds.setdefault((kind, chip.sram_bytes, chip.speed), []).append(place)
    places = int(reader.values.get("package.num_chips", spec.num_chips))
    off = sorted(set(range(places)) - set(spec.physical))
    for (kind, sram_bytes, speed), alike in kinds.items():
        named: Section = {"kind": spec.kinds[kind].name} if spec.kinds else {}
        numbers: Section = {"sram_mib": sram_bytes / 2**20, "speed": speed}
        sections[f"chips {ranges(alike)}"] = {**named, **numbers}
    if off:
        sections[f"chips {ranges(off)}"] = {"off": True}
    sections["bytes_per_element"] = {
        kind.name: spec.reference.storage.element_bits(kind) / 8
        for kind in ir.DataType
        if kind is not ir.DataType.UNDEFINED
    }
    sections["derived"] = _derived(spec)
    return sections


def array_ops_per_s(chip: ChipSpec) -> float:
    """Operations of a chip's MAC array per second; a multiply-accumulate counts as two."""
    return 2 * chip.array.rows * chip.array.cols * chip.array.clock_hz * chip.speed


def vector_ops_per_s(chip: ChipSpec) -> float:
    """Lane operations of a chip's vector unit per second."""
    return chip.vector.lanes * chip.vector.clock_hz * chip.speed


def ranges(numbers: Sequence[int]) -> str:
    """Ascending numbers in short: `0 to 2, 5`."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return ", ".join(
        f"{run[0]} to {run[-1]}" if len(run) > 2 else ", ".join(map(str, run)) for run in runs
    )


def _derived(spec: PackageSpec) -> Section:
    reference = spec.reference
    return {
        "usable_chips": spec.num_chips,
        "array_tera_ops_per_s": array_ops_per_s(reference) / 1e12,
        "vector_tera_ops_per_s": vector_ops_per_s(reference) / 1e12,
        "array_ops_per_sram_byte": array_ops_per_s(reference) / reference.sram_bytes_per_s,
        "package_array_tera_ops_per_s": sum(map(array_ops_per_s, spec.chips)) / 1e12,
        "package_vector_tera_ops_per_s": sum(map(vector_ops_per_s, spec.chips)) / 1e12,
        "package_sram_mib": sum(chip.sram_bytes for chip in spec.chips) / 2**20,
    }
