"""Codes MCM-M02#: mapping the chips of a compile, and the files that hold the mappings."""

from __future__ import annotations

from mcm_compiler.diagnostics.catalog.entry import CatalogEntry

ENTRIES: tuple[CatalogEntry, ...] = (
    CatalogEntry(
        "MCM-M020",
        "a mapper for chips that are no fabrics",
        "--mapper and --mapping-model say how units are laid out on chips that are fabrics: grids\n"
        "of compute and memory units. The chips of this target are of another kind, and nothing\n"
        "would come of these options.",
        example="mcmc compile model.onnx --target mcm36 --mapper annealing",
        remedy="Leave the option out, or take a target whose chips are fabrics, such as fabric-16\n"
        "or mcm36-fabric.",
    ),
    CatalogEntry(
        "MCM-M021",
        "a fabric without a mapping",
        "What a fabric does in how much time is known only once its units have places and its\n"
        "streams have ways. The pipeline lowers chips that were not mapped, or a folder lacks the\n"
        "file with the mapping of a chip.",
        example="mcmc compile m.onnx --target fabric-16 --passes simplify,partition,split,lower",
        remedy="Put map_chips between split and lower, or compile the folder again.",
    ),
    CatalogEntry(
        "MCM-M022",
        "a mapper gives something else than a legal mapping",
        "A mapper gives one mapping, in which each unit has a site of its own and of its kind,\n"
        "and each stream turns one of two ways. What this one gave is looked at before anything\n"
        "else is done with it.",
        example="a plug-in that puts two units on site 17",
        remedy="Mend the mapper, or take another one with --mapper.",
    ),
    CatalogEntry(
        "MCM-M023",
        "units that could come to a standstill",
        "Units and streams of a chip are made so that no unit ever waits for one that waits for\n"
        "it, wherever they lie. Those of this chip are not: a rule of the contract is broken.",
        example="a plug-in's target whose units send to each other with no memory between",
        remedy="This is a fault of the target's lowering. Report it with the model.",
    ),
    CatalogEntry(
        "MCM-M024",
        "mapping files and chips differ",
        "A folder holds a mapping for each chip that it uses: one file for each chip with units\n"
        "of its own, which names all chips that are laid out alike. Here a chip has none, or\n"
        "several, or a chip is named that the folder does not use.",
        example="mapping_00.json names chips 0 and 1, and the manifest lists chip 0 alone",
        remedy="The folder was changed. Compile again.",
    ),
    CatalogEntry(
        "MCM-M025",
        "a mapping of other units than those of the chip",
        "mcmc check makes units and streams from each chip's ONNX file anew. They are not those\n"
        "that the mapping file places, so that the file says nothing of this chip.",
        example="cycles of unit 12 is 40 in mapping_00.json, and 64 by the chip's model",
        remedy="The folder was changed, or made by another release. Compile again.",
    ),
    CatalogEntry(
        "MCM-M026",
        "a mapping that is not legal",
        "Each unit has a site of its own and of its kind, and each stream turns one of two ways.\n"
        "The mapping in the file does not keep to this.",
        example="unit 3 needs a site for compute, and 17 is one for memory",
        remedy="The file was changed. Compile again.",
    ),
    CatalogEntry(
        "MCM-M027",
        "a mapping that is not as fast as it says",
        "mcmc check plays each mapping again, flit by flit, and gets the same cycles on every\n"
        "machine. Period, latency, bound or error in the file are others.",
        example="period_cycles is 5000.0 in mapping_00.json, and 6926.1 when measured",
        remedy="The file was changed. Compile again.",
    ),
    CatalogEntry(
        "MCM-M028",
        "a mapping by other rules",
        "Each mapping file has the hash of the rules by which units were made, and that of what\n"
        "the measurement depends on. This release has others, so that its figures cannot be\n"
        "compared.",
        example="a folder of an earlier release",
        remedy="Compile again, or check the folder with the release that made it.",
    ),
    CatalogEntry(
        "MCM-M029",
        "a chip that is too slow to be measured",
        "A mapping is measured by playing flits: a billion hops, or four million cycles in which\n"
        "anything happens, at most. Where not one inference has left the chip by then, nothing is\n"
        "known of its period. The message names the largest of its streams; products read their\n"
        "operands once for each tile of results, so that long loops have the most flits.",
        example="a Loop with 10,000 trips around a product of 1000 x 1000, on one fabric-12",
        remedy="Split the model over more chips, such as with --target mcm36-fabric, or make its\n"
        "tensors or the trips of its loops smaller.",
    ),
)
