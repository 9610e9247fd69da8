"""Codes MCM-D070 to MCM-D099: what `mcmc place` is asked and writes."""

from __future__ import annotations

from mcm_compiler.diagnostics.catalog.entry import CatalogEntry

ENTRIES: tuple[CatalogEntry, ...] = (
    CatalogEntry(
        "MCM-D070",
        "a device that the box does not have",
        "Pins name devices of the box, such as gpu:1. --kind, --profile, --cost-model and the\n"
        "table [cost] of a description name kinds of them, such as k40. The message says which\n"
        "there are.",
        example="`mcmc place model.onnx --target box-2gpu --pin 'fc*=gpu:7'`",
        remedy="Take a name from the message; `mcmc targets show NAME` lists devices and kinds.",
    ),
    CatalogEntry(
        "MCM-D071",
        "a pattern that fits no op",
        "Patterns of --pin, --kind and --together are held against the names of ops, with * for\n"
        "any characters and ? for one. Inputs of the step lie with the host and are not moved.",
        example="--pin 'decoder/*=gpu:0' for a model whose ops begin with /decoder",
        remedy="Take names from placement.json of a placement without the option.",
    ),
    CatalogEntry(
        "MCM-D072",
        "an op is left without a device",
        "Pins contradict each other, or what the devices can run: an op is pinned to two devices,\n"
        "ops that run together (a variable and its update) are pinned apart, or an op is pinned\n"
        "to a device whose kind does not run it.",
        example="--pin 'fc*=gpu:0' --pin 'fc1=gpu:1'",
        remedy="Leave one of the pins out.",
    ),
    CatalogEntry(
        "MCM-D074",
        "no placement was found that fits",
        "The best placement that the search found holds more on a device than it has memory. The\n"
        "message gives what it holds, what there is, and how much of it is variables. Where no\n"
        "placement can fit, MCM-D012 proves it before the search.",
        example="a training step of a large model in a box with one GPU",
        remedy="Take a box with more devices or memory, a smaller batch with --dim or --shape, or\n"
        "more --evaluations. Pins may stand in the way.",
    ),
    CatalogEntry(
        "MCM-D075",
        "a placer's answer is no placement",
        "A placer gives a device for each op, one that the op may run on, the same for ops that\n"
        "run together. This one gave something else: a fault of the placer.",
        example="a placer of a plug-in that overlooks `together`",
        remedy="Take another placer, and report it to whoever wrote this one.",
    ),
    CatalogEntry(
        "MCM-D076",
        "one device alone beats the placement in segments",
        "A segment starts when all that it reads is there, and its start takes time. What ops on\n"
        "several devices gain can be less than that. The message compares the time of the step\n"
        "in segments with that of all ops on one device in one segment.",
        example="note[MCM-D076]: in 97 segments the step takes 11.2 ms, all of it on 'gpu:0' in "
        "one segment 9.1 ms",
        remedy="Take `--placer single` to run segments. Where a runtime starts ops on several\n"
        "devices by itself, or dispatches faster (--dispatch), the placement stands.",
    ),
    CatalogEntry(
        "MCM-D077",
        "a file is no profile of onnxruntime",
        "--profile reads the JSON that onnxruntime writes when profiling is enabled: a list of\n"
        "events, among them those of kernels, `NAME_kernel_time`, with the microseconds that they\n"
        "took. The file cannot be read, or holds none.",
        example="`--profile haswell=trace.json` with the trace of another program",
        remedy="Set SessionOptions.enable_profiling, run the model some times, and give the file\n"
        "that end_profiling names.",
    ),
    CatalogEntry(
        "MCM-D078",
        "a profile is of another model",
        "Times are taken for ops by their names. No op of the step that such a device runs has a\n"
        "name that was measured.",
        example="a profile of a model whose nodes were renamed, or all of whose nodes were fused",
        remedy="Profile the model that is placed, with graph optimisations off: fused kernels\n"
        "have names of their own.",
    ),
    CatalogEntry(
        "MCM-D079",
        "how many ops have measured times",
        "A note: ops that a profile or a table of measured times does not name take the times\n"
        "that are computed, times the median of the measured ones over those. It is a warning\n"
        "where less than half of the seconds was measured.",
        example="a profile with graph optimisations on, in which a third of the ops were fused",
        remedy="Profile with graph optimisations off to measure every op; in a table, rows of\n"
        "types of ops need the shapes and the element type of the model.",
    ),
    CatalogEntry(
        "MCM-D080",
        "the placement in a folder is none of its model",
        "The placement names ops that the model does not have, devices that the box does not\n"
        "have, or a device that an op may not run on; or another field of placement.json, marks\n"
        "of the model, or files for runtimes do not follow from model, box and placement.",
        example="placement.json was edited, and its hash in manifest.json with it",
        remedy="Place the model again; --pin puts an op where you want it.",
    ),
    CatalogEntry(
        "MCM-D081",
        "a figure of a placement does not follow from it",
        "The simulator gives another time, or other figures of a device, or the report was not\n"
        "rendered from the placement.",
        example='"seconds" in placement.json was edited',
        remedy="Place the model again. Another release may simulate otherwise; its version stands\n"
        "in placement.json.",
    ),
    CatalogEntry(
        "MCM-D082",
        "the bound of a placement does not follow",
        "What no placement is faster than is derived again from the model and the box, and is\n"
        "another number or has another reason than the folder says.",
        example='"bound_s" in placement.json was edited',
        remedy="Place the model again.",
    ),
    CatalogEntry(
        "MCM-D083",
        "segments are not the model",
        "Each op of each segment is held against the model: its type, attributes, weights and\n"
        "what it reads. One differs, or an output gets another value.",
        example="a weight in segment_003.onnx was changed",
        remedy="Place the model again.",
    ),
    CatalogEntry(
        "MCM-D084",
        "the schedule does not describe the segments",
        "The step is cut again. A field of schedule.json, or a segment's model, is another one\n"
        "than follows from model and placement.",
        example="two segments changed places in schedule.json",
        remedy="Place the model again.",
    ),
    CatalogEntry(
        "MCM-D085",
        "a placement where a compiled model is needed",
        "The folder is that of `mcmc place`: it holds segments for the devices of a box, not\n"
        "models for chips.",
        example="`mcmc run out -i x.npz -o y.npz` of a folder of mcmc place",
        remedy="`mcmc check`, `mcmc report` and `mcmc simulate` read it. Its segments run in\n"
        "onnxruntime in the order of schedule.json.",
    ),
)
