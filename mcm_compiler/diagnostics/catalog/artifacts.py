"""Codes MCM-A###: the output folder."""

from __future__ import annotations

from mcm_compiler.diagnostics.catalog.entry import CatalogEntry

ENTRIES: tuple[CatalogEntry, ...] = (
    CatalogEntry(
        "MCM-A001",
        "output folder exists",
        "A compile never mixes its files with others, so that the output folder must not exist.\n"
        "Choose another one with -o, or give --force to replace it. The old folder stays\n"
        "untouched until the new one is complete.",
        example="`mcmc compile model.onnx -o out` a second time: the output folder exists",
        remedy="Name another folder with -o, or replace it with --force.",
    ),
    CatalogEntry(
        "MCM-A002",
        "output cannot be written",
        "The system refused a write: the disk is full, the folder is read-only, or its parent\n"
        "does not exist. Output is written aside and moved into place when it is complete, so\n"
        "nothing half-written is left behind.",
        example="`-o /mnt/readonly/out`: the output cannot be written: Read-only file system",
        remedy="Write to a folder that may be written and has room; `df` and `ls -ld` tell.",
    ),
    CatalogEntry(
        "MCM-A003",
        "refused to replace a foreign folder",
        "--force replaces output folders of this compiler, which it knows by their manifest.json,\n"
        "and empty folders. Anything else stays: remove it yourself if it is in the way.",
        example="`-o ~/thesis --force`: --force would replace something that this compiler did\n"
        "not write",
        remedy="Remove what is there yourself, or name another output folder.",
    ),
    CatalogEntry(
        "MCM-A004",
        "not an output folder",
        "The folder has no manifest.json, or does not exist. Name the folder that mcmc compile\n"
        "wrote, not a file in it.",
        example="`mcmc check out/report.json`: this is not an output folder of mcmc: it has no\n"
        "manifest.json",
        remedy="Name the folder that mcmc compile wrote, such as `mcmc check out`.",
    ),
    CatalogEntry(
        "MCM-A005",
        "damaged file in the output folder",
        "A file of the folder is missing, cannot be read, is of another schema version, or holds\n"
        "something else than it should. The folder was changed, or copied in part, or written by\n"
        "another version. Compile again.",
        example="program.json was edited by hand: program.json is damaged: 'chips' is not a\nlist",
        remedy="Compile again; keep output folders unchanged.",
    ),
    CatalogEntry(
        "MCM-A006",
        "file missing from the output folder",
        "The manifest lists a file that is not there or is not a plain file, or it does not list\n"
        "one that every output folder has. The folder was copied in part. Compile again.",
        example="chip_03.onnx.data was left out of a copy: the file 'chip_03.onnx.data' is\n"
        "missing",
        remedy="Copy the whole folder, or compile again.",
    ),
    CatalogEntry(
        "MCM-A007",
        "unknown file in the output folder",
        "A file is in the folder that the manifest does not list. The check vouches for every\n"
        "file of the folder, so it accepts none that it knows nothing about. Move it elsewhere.",
        example="notes.txt was put into the folder: the file 'notes.txt' is not in the\nmanifest",
        remedy="Move the file elsewhere.",
    ),
    CatalogEntry(
        "MCM-A008",
        "changed file in the output folder",
        "The SHA-256 of a file is not the one in the manifest: it was changed after the compile.\n"
        "If the change was meant, compile the changed model; otherwise compile again.",
        example="one byte of chip_00.onnx was changed: the file 'chip_00.onnx' was changed:\n"
        "its hash is not the manifest's",
        remedy="Compile again; if the change was meant, compile the changed model.",
    ),
    CatalogEntry(
        "MCM-A009",
        "swapped files in the output folder",
        "Files of the folder hold what the manifest says of other files of it: they changed\n"
        "names. Each chip would run another chip's model. Give the files their names back, or\n"
        "compile again.",
        example="chip_01.onnx and chip_02.onnx were renamed into each other: files were\nswapped",
        remedy="Give the files their names back, or compile again.",
    ),
    CatalogEntry(
        "MCM-A010",
        "chip file differs from the manifest",
        "The inputs, outputs, weights or node order of a chip's model, or what it receives and\n"
        "sends by the wires, are not what the manifest says of it; or the manifest has other\n"
        "graph inputs and outputs than the source model. Whoever deploys by the manifest would\n"
        "wire the chips wrongly. Compile again.",
        example="an input of chip 2 was renamed in its model and not in the manifest",
        remedy="Compile again.",
    ),
    CatalogEntry(
        "MCM-A011",
        "wire without a matching end",
        "A tensor in the manifest's wiring is not an output of its sender or not an input of its\n"
        "receiver, or its type or shape differs between them. The chain of chips cannot run.\n"
        "Compile again.",
        example="the manifest's wire 'Relu_3' from chip 1 to chip 2 is float32 at one end and\n"
        "float16 at the other",
        remedy="Compile again.",
    ),
    CatalogEntry(
        "MCM-A012",
        "trace too large",
        "mcmc simulate --trace writes a slice for every kernel and every hop of every inference.\n"
        "Viewers of traces get slow beyond some hundred thousand slices, and their time ends at\n"
        "64 bits of nanoseconds. A few inferences in steady state show what all the others do:\n"
        "give a smaller --inferences.",
        example="`mcmc simulate out --trace t.pftrace --inferences 100000`: the trace would\n"
        "have 8,400,000 slices",
        remedy="Give a smaller --inferences; the hint has the largest that fits.",
    ),
    CatalogEntry(
        "MCM-A013",
        "program differs from the chips' models",
        "program.json runs an op that the model of the chip does not have, or leaves one out, or\n"
        "its transfers are not the wires of the manifest. Its simulation would say nothing about\n"
        "the models in the folder. Compile again.",
        example="program.json runs 'Conv_7' on chip 0, and chip_00.onnx has no such op",
        remedy="Compile again.",
    ),
    CatalogEntry(
        "MCM-A014",
        "a state that does not stay on its chip",
        "The manifest lists what stays on chips from one inference of a sequence to the next: an\n"
        "input and an output of one chip's model, which are an input and an output of the whole\n"
        "model. No other chip may take or hold either for a state, no wire may bring the past or\n"
        "take the present to the host, and the present must be what the next step can take.",
        example="manifest.json says that the state is on chip 2, and chip 1 takes the past",
        remedy="Compile again.",
    ),
    CatalogEntry(
        "MCM-A020",
        "certificate cannot be used",
        "The certificate says what was placed, where, and which bound is claimed. Its head\n"
        "(certificate.json) or its arrays (certificate.safetensors) are missing, cut off, too\n"
        "large, of another schema version, or hold something else: another type, a number that\n"
        "is not finite or negative, an index that names nothing. Or the report claims a bound\n"
        "that no certificate stands for. Copy the whole folder, or compile again.",
        example="certificate.safetensors is cut short: the certificate cannot be used: the\n"
        "file ends within an array",
        remedy="Copy the whole folder, or compile again.",
    ),
    CatalogEntry(
        "MCM-A021",
        "report without its folder",
        "A report.json that is read by itself is taken at its word. In the folder that it was\n"
        "written to, its hash and its figures are checked before they are shown or compared.",
        example="`--baseline old/report.json` where the rest of the folder old is gone",
        remedy="Name the whole output folder to have its figures checked; for a comparison\n"
        "alone nothing has to be done.",
    ),
    CatalogEntry(
        "MCM-A023",
        "report of other versions",
        "Simulators and cost models may count otherwise in another version, so that figures of\n"
        "an earlier one are not derived again. The hashes of the folder were checked.",
        example="a folder of the last release is checked with this one",
        remedy="Compile again to have the figures derived with the present versions.",
    ),
)
