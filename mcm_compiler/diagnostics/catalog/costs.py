"""Codes MCM-C###: cost models that are chosen by name, and measured times."""

from __future__ import annotations

from mcm_compiler.diagnostics.catalog.entry import CatalogEntry

ENTRIES: tuple[CatalogEntry, ...] = (
    CatalogEntry(
        "MCM-C001",
        "cost model fails",
        "A cost model that was chosen by name raised an exception, or is not built as one: a\n"
        "frozen dataclass with a method make(basis) whose result has name, node_cost and\n"
        "group_cost. The fault is the cost model's, not your model's. Run again with the\n"
        "environment variable MCMC_DEBUG=1 to see the stack trace.",
        example="`make` of a plug-in's cost model divides by zero: cost model 'mine' fails:\n"
        "ZeroDivisionError",
        remedy="Mend the cost model; MCMC_DEBUG=1 shows the stack trace.",
    ),
    CatalogEntry(
        "MCM-C002",
        "cost model gives no time",
        "A cost model answered with a number of seconds that is no time: not a number, infinite,\n"
        "negative, or more than thirty years. The message names the cost model and the op. No\n"
        "partition is searched with such numbers, because every bound would be worthless.",
        example="a cost model answers for a Reshape: cost model 'mine' gives nan s, which is\n"
        "no time",
        remedy="Answer with a finite number of seconds that is not negative, for every op.",
    ),
    CatalogEntry(
        "MCM-C003",
        "target takes no other cost model",
        "The target computes its times itself and has no way to take another cost model: it lacks\n"
        "with_cost_model. Targets of the families ring and cluster have it. Those of the family\n"
        "box take cost models by kind of device instead, with `mcmc place --cost-model\n"
        "KIND=MODEL` or a key for each kind in the table [cost].",
        example="`--cost-model cycles` for a plug-in's target without with_cost_model",
        remedy="Leave the option out, take a target of the family ring, cluster or box, or\n"
        "implement TakesCostModel or TakesDeviceCosts.",
    ),
    CatalogEntry(
        "MCM-C004",
        "file of a cost model cannot be read",
        "A cost model reads files that its options name, such as file of table. The path is\n"
        "relative to the working folder, or to the folder of the target description that names\n"
        "it, and at most 16 MiB are read. An output folder holds a copy of each such file: there\n"
        "the description may name nothing but files that the manifest lists.",
        example="`--cost-model 'table{file=tims.csv}'`: the file of the cost model cannot be\n"
        "read: No such file or directory",
        remedy="Correct the path; it is relative to the working folder, or to the target\n"
        "description that names it.",
    ),
    CatalogEntry(
        "MCM-C005",
        "fault in a table of measured times",
        "The table is a CSV file with a header. Its column seconds and one of node, kernel and\n"
        "op_type have to be there; inputs, type and chip go with op_type, chip with all. Each row\n"
        "has one of node, kernel and op_type, and a time in seconds that is a number and not\n"
        "negative; no two rows speak of the same. docs/how-to/kernel-times.md has the form.",
        example="a row `/fc/Gemm,-1e-6`: a time is negative (at: times.csv:3)",
        remedy="Correct the line that the place names.",
    ),
    CatalogEntry(
        "MCM-C006",
        "measured time of an op that is not there",
        "A row of the table names an op or a kernel that the model does not have. It would be\n"
        "ignored without a word, and the time that was measured with it. Fused kernels have the\n"
        "name of their last op and belong into the column kernel, single ops into node.",
        example="the table has /layer5/Relu, and the model ends with layer 4",
        remedy="Correct the name, or remove the row; the hint has the nearest name of the\nmodel.",
    ),
    CatalogEntry(
        "MCM-C007",
        "how much of a model was measured",
        "Tells how many ops, and which share of the seconds of the model on one chip, come from\n"
        "measured times; the rest is computed by the target's own cost model, times the median of\n"
        "the measured times over computed ones. Bounds are proven for these times. This is a\n"
        "note, and a warning where less than half of the seconds was measured.",
        example="cost model 'table': 14 of 121 ops and 60.3 % of the seconds are measured, the\n"
        "rest is computed",
        remedy="Measure more kernels, the longest first, or give the option `factor` of `table`.",
    ),
    CatalogEntry(
        "MCM-C008",
        "cost model of a description cannot be exchanged",
        "The output folder stores the description with the cost model that was used. Where the\n"
        "description has one already, its line is rewritten, which needs it on a line of its own:\n"
        'model = "..." in the table [cost], or KIND = "..." for a kind of device of a box.',
        example='`cost = { model = "cycles" }` in a description, and --cost-model on the\n'
        "command line",
        remedy='Write model = "..." on a line of its own in a table [cost].',
    ),
)
