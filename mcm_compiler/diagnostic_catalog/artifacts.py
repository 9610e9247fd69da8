"""Codes MCM-A###: the output folder."""

from __future__ import annotations

from mcm_compiler.diagnostic_catalog.entry import CatalogEntry

ENTRIES: tuple[CatalogEntry, ...] = (
    CatalogEntry(
        "MCM-A001",
        "output folder exists",
        "A compile never mixes its files with others, so that the output folder must not exist.\n"
        "Choose another one with -o, or give --force to replace it. The old folder stays\n"
        "untouched until the new one is complete.",
    ),
    CatalogEntry(
        "MCM-A002",
        "output cannot be written",
        "The system refused a write: the disk is full, the folder is read-only, or its parent\n"
        "does not exist. Output is written aside and moved into place when it is complete, so\n"
        "nothing half-written is left behind.",
    ),
    CatalogEntry(
        "MCM-A003",
        "refused to replace a foreign folder",
        "--force replaces output folders of this compiler, which it knows by their manifest.json,\n"
        "and empty folders. Anything else stays: remove it yourself if it is in the way.",
    ),
    CatalogEntry(
        "MCM-A004",
        "not an output folder",
        "The folder has no manifest.json, or does not exist. Name the folder that mcmc compile\n"
        "wrote, not a file in it.",
    ),
    CatalogEntry(
        "MCM-A005",
        "damaged file in the output folder",
        "A file of the folder is missing, cannot be read, is of another schema version, or holds\n"
        "something else than it should. The folder was changed, or copied in part, or written by\n"
        "another version. Compile again.",
    ),
    CatalogEntry(
        "MCM-A006",
        "file missing from the output folder",
        "The manifest lists a file that is not there or is not a plain file, or it does not list\n"
        "one that every output folder has. The folder was copied in part. Compile again.",
    ),
    CatalogEntry(
        "MCM-A007",
        "unknown file in the output folder",
        "A file is in the folder that the manifest does not list. The check vouches for every\n"
        "file of the folder, so it accepts none that it knows nothing about. Move it elsewhere.",
    ),
    CatalogEntry(
        "MCM-A008",
        "changed file in the output folder",
        "The SHA-256 of a file is not the one in the manifest: it was changed after the compile.\n"
        "If the change was meant, compile the changed model; otherwise compile again.",
    ),
    CatalogEntry(
        "MCM-A009",
        "swapped files in the output folder",
        "Files of the folder hold what the manifest says of other files of it: they changed\n"
        "names. Each chip would run another chip's model. Give the files their names back, or\n"
        "compile again.",
    ),
    CatalogEntry(
        "MCM-A010",
        "chip file differs from the manifest",
        "The inputs, outputs, weights or node order of a chip's model, or what it receives and\n"
        "sends by the wires, are not what the manifest says of it; or the manifest has other\n"
        "graph inputs and outputs than the source model. Whoever deploys by the manifest would\n"
        "wire the chips wrongly. Compile again.",
    ),
    CatalogEntry(
        "MCM-A011",
        "wire without a matching end",
        "A tensor in the manifest's wiring is not an output of its sender or not an input of its\n"
        "receiver, or its type or shape differs between them. The chain of chips cannot run.\n"
        "Compile again.",
    ),
    CatalogEntry(
        "MCM-A012",
        "trace too large",
        "mcmc simulate --trace writes a slice for every kernel and every hop of every inference.\n"
        "Viewers of traces get slow beyond some hundred thousand slices, and their time ends at\n"
        "64 bits of nanoseconds. A few inferences in steady state show what all the others do:\n"
        "give a smaller --inferences.",
    ),
    CatalogEntry(
        "MCM-A013",
        "program differs from the chips' models",
        "program.json runs an op that the model of the chip does not have, or leaves one out, or\n"
        "its transfers are not the wires of the manifest. Its simulation would say nothing about\n"
        "the models in the folder. Compile again.",
    ),
    CatalogEntry(
        "MCM-A020",
        "certificate cannot be used",
        "The certificate says what was placed, where, and which bound is claimed. Its head\n"
        "(certificate.json) or its arrays (certificate.safetensors) are missing, cut off, too\n"
        "large, of another schema version, or hold something else: another type, a number that\n"
        "is not finite or negative, an index that names nothing. Or the report claims a bound\n"
        "that no certificate stands for. Copy the whole folder, or compile again.",
    ),
    CatalogEntry(
        "MCM-A021",
        "report without its folder",
        "A report.json that is read by itself is taken at its word. In the folder that it was\n"
        "written to, its hash and its figures are checked before they are shown or compared.",
    ),
    CatalogEntry(
        "MCM-A023",
        "report of other versions",
        "Simulators and cost models may count otherwise in another version, so that figures of\n"
        "an earlier one are not derived again. The hashes of the folder were checked.",
    ),
)
