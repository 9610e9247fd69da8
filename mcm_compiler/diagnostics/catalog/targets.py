"""Codes MCM-T###: target descriptions, and the programs that targets make and play."""

from __future__ import annotations

from mcm_compiler.diagnostics.catalog.entry import CatalogEntry

ENTRIES: tuple[CatalogEntry, ...] = (
    CatalogEntry(
        "MCM-T001",
        "target description cannot be read",
        """\
The file given with --target cannot be opened, or cannot be parsed as TOML. In the second
case the message has the parser's reason, and the place has the line where the parser
stopped, which may be after the line that is at fault. Start from a built-in description:
`mcmc targets` lists them.""",
        example="`--target my.toml`, whose third line lacks a closing quote",
        remedy="Correct the file at that line; `mcmc targets show mcm36 --toml` prints one to\n"
        "start from.",
    ),
    CatalogEntry(
        "MCM-T002",
        "unknown key in a target description",
        """\
The description has a key, or a table, that its family does not know. Unknown keys are
refused rather than ignored: a misspelt key would otherwise leave its default in force
without a word. The hint names the nearest key that exists.""",
        example="'link.hop_latency_ns': a ring package has no such key",
        remedy="Write the key of the hint, such as 'hop_latency_us'.",
    ),
    CatalogEntry(
        "MCM-T003",
        "missing key in a target description",
        """\
The description lacks a key that has no default. The numbers of a package have no
defaults, so that nobody compiles for a chip that they did not describe. The hint says
which table the key belongs to.""",
        example="a description without [host] latency_us: the key is missing",
        remedy="Add the key; docs/reference/target-keys.md has all.",
    ),
    CatalogEntry(
        "MCM-T004",
        "wrong type in a target description",
        """\
The value of a key is of another type than the key needs: a text where a number belongs,
a fraction where only whole numbers make sense, or a value where a table belongs.""",
        example='num_chips = "36"',
        remedy="Write the value as the message expects it, such as num_chips = 36.",
    ),
    CatalogEntry(
        "MCM-T005",
        "value out of range in a target description",
        """\
The value of a key is zero, negative, not finite, not one of the possible words, or
greater than makes sense for a package of chips (more than 4096 chips, more than 1 TiB
of SRAM). A value that is a thousand times too large is often in another unit than the
key's name says: sram_mib is in MiB, clock_mhz in MHz, hop_latency_us in microseconds.""",
        example="clock_mhz = 0: 0 is not positive",
        remedy="Give a value within the range, in the unit of the key's name.",
    ),
    CatalogEntry(
        "MCM-T006",
        "unknown element type in [storage_bits]",
        """\
The table [storage_bits] says how many bits an element of an ONNX type takes on the chip.
Its keys are the names of ONNX's TensorProto.DataType, such as FLOAT, FLOAT16, INT8 or
INT64. Types that are not listed take what ONNX says.""",
        example="FLOAT8 = 8 in [storage_bits]",
        remedy="Name a type of ONNX's TensorProto.DataType, such as FLOAT8E4M3FN.",
    ),
    CatalogEntry(
        "MCM-T007",
        "a target description has more faults than are listed",
        """\
The first faults of the description are listed one by one, and the rest is counted. So many
faults mean that the file is of another kind, or for another family.""",
        example="a file of another program is given with --target",
        remedy="Check that it is the file that you meant, then correct the faults that are\n"
        "listed.",
    ),
    CatalogEntry(
        "MCM-T008",
        "keys of a target description contradict each other",
        """\
Each key is right by itself, and together they make no package: weights are to be streamed
from an off-package memory that is not described, or one is described that nothing uses; a
chip is overridden twice, or is off and has a speed; an override changes nothing or names
no chip; all chips are off.""",
        example='spill = "stream" without a table [off_package_memory]',
        remedy="Change one of the keys that contradict each other.",
    ),
    CatalogEntry(
        "MCM-T010",
        "lowered program deadlocks",
        """\
Within one inference, kernels and transfers of the program wait for each other in a circle, so
that no inference ever ends; the message names the circle. A kernel waits for what it reads, for
the kernel before it, and for room for what it writes; a transfer waits for the kernel that makes
its tensor, and for a buffer to arrive in. A transfer without any buffer (`slots` is 0) waits for
itself. Our own lowering makes no such program, so it was changed, or a plug-in is at fault.""",
        example="a program in which two chips each wait for the other's tensor",
        remedy="Compile the model again; if a plug-in lowers it, mend that.",
    ),
    CatalogEntry(
        "MCM-T011",
        "lowered program does not fit",
        """\
The memory plan of a chip (weights, channel buffers and activations by lifetime) ends above
the chip's SRAM, so the program cannot be loaded and is not simulated. The message has
demand and limit, the place has the largest buffers. More chips, sharding of the largest
weights, or a target with more memory per chip help.""",
        example="chip 2 needs 70.0 MiB, it has 64.0 MiB",
        remedy="Use more chips, allow sharding, or choose a target with more memory per chip.",
    ),
    CatalogEntry(
        "MCM-T012",
        "lowered program contradicts itself",
        """\
The program refers to chips or transfers that do not exist, sends a tensor where no route leads,
lets transfers pass each other on in a circle, lets a kernel read what goes to another chip, brings
a tensor twice, uses more SRAM than a chip has, or holds a time or size that is negative, not finite
or absurd. It was changed after it was written, or a plug-in's lowering is at fault. Compile the
model again.""",
        example="program.json sends a tensor to chip 9 of 4",
        remedy="Compile the model again.",
    ),
    CatalogEntry(
        "MCM-T013",
        "lowered program is too large to simulate",
        """\
The program has more kernels and transfers, or more buffers per transfer, than can be played in a
few hundred MiB of memory; or a timeline of so many inferences was asked for. The message has
the number and the limit. Fewer inferences, or more fusion, help; a program that was changed has
to be compiled again.""",
        example="`--inferences 100000` with a timeline of 5,000 kernels",
        remedy="Ask for fewer inferences, or fuse more ops.",
    ),
    CatalogEntry(
        "MCM-T014",
        "routes wait for each other in a circle",
        """\
A tensor on its way holds the channel that it is on until the next one of its route is free. The
routes of the target's machine hold channels such that each waits for the next, all around, so that
tensors may block each other for good, however many buffers there are (Dally and Seitz 1987). The
message names the channels of a circle by their ends. A family of machines that numbers its
channels, and whose routes take them in ascending order, has none: on a mesh, all that lead along
rows before all that lead along columns.""",
        example="a mesh whose tensors take rows first in one half and columns first in the\nother",
        remedy="Let all routes take their channels in one ascending order, such as rows\n"
        "before columns.",
    ),
    CatalogEntry(
        "MCM-T015",
        "machine of a target cannot be",
        """\
What the family of a target says of its devices, channels and routes contradicts itself: arrays of
different lengths, a rate that is not positive, a latency that is negative, a route that does not
lead from where it begins to where it ends or comes to a place twice. The family is at fault, or
accepts descriptions that it should refuse.""",
        example="a route from chip 0 to chip 2 that ends at chip 1",
        remedy="Mend the family of the target; machine_faults lists what is wrong.",
    ),
    CatalogEntry(
        "MCM-T016",
        "unknown op in a target description",
        """\
A list of ops that chips run, or cannot run, names an op that its domain does not have. Op types are
written as ONNX writes them, such as Softmax; those of another domain have it in front, as
com.microsoft::Gelu has. Domains that neither ONNX nor onnxruntime knows are not looked into.""",
        example='unsupported_ops = ["SoftMax"]',
        remedy="Write the name of the hint.",
    ),
    CatalogEntry(
        "MCM-T020",
        "target lowers nothing",
        """\
A target is known by its numbers and its costs; that it also turns the chips' models into programs
is a capability of its own, which this one's family lacks. The pipeline is refused before anything
runs where a pass needs it. The hint has the pipeline without such passes: the chips' models are
written and verified as ever, only schedules and memory plans are missing. Planning with
`mcmc parallelize` needs no lowering either.""",
        example="`mcmc compile` for a plug-in's target without a method lower",
        remedy="Use the pipeline of the hint, which writes and verifies the chips' models all\n"
        "the same.",
    ),
    CatalogEntry(
        "MCM-T021",
        "target has no simulator",
        """\
The family of the target has no simulator, so that nothing plays its programs. Leave the pass
simulate out of the pipeline; the report then has the figures of the fast model alone, and
`mcmc check` proves all that does not come from a simulation.""",
        example="the pass simulate for a target without a simulator",
        remedy="Leave simulate out of --passes.",
    ),
    CatalogEntry(
        "MCM-T022",
        "target simulates no placements during a search",
        """\
The strategy shows placements to the simulator while it searches, and the target has none for that
(`EvaluatesBatches` in mcm_compiler/contracts/target.py). As a warning: the strategy searched under
the fast model alone, so that its answer is valid and may be slower than it could be. A strategy
that needs no simulator says the same in less time; `mcmc strategies` lists them.""",
        example="`--partitioner judge_search` for a target without batch_evaluator",
        remedy="Take a strategy that needs no simulator, or accept an answer under the fast\n"
        "model.",
    ),
    CatalogEntry(
        "MCM-T030",
        "chips cannot run an op of the model",
        """\
The target's description lists what its chips run, or cannot run, and the model has ops that they
lack, or tensors of a type that they do not know. It was asked, with `--fallback error` or by the
description's `host.fallback`, that such models are refused. There is one diagnostic for each op
type and each element type, all of them at once.""",
        example="`--fallback error` for a model with Softmax and a target with\n"
        'unsupported_ops = ["Softmax"]',
        remedy="Write the model without these ops, or let the host run them with\n"
        "`--fallback host`.",
    ),
    CatalogEntry(
        "MCM-T031",
        "chips have no way to the host for ops that they lack",
        """\
The host was to run ops that chips lack, and not every chip reaches it by a link of its own: on a
ring with host_io = "ends" all but two reach it through others, whose links a round trip would take
too. A family of a plug-in may have no model of round trips either.""",
        example='unsupported_ops = ["Softmax"] on a ring with host_io = "ends"',
        remedy="Take a package whose chips all reach the host, or a model without these ops.",
    ),
    CatalogEntry(
        "MCM-T032",
        "chips run nothing of the model",
        """\
Every op of the model that takes any time would run on the host, so that there is nothing to place.
Most often the lists of ops and types in the target's description are at fault: an allow list that
lacks the ops of this model, or a list of types without the one that all its tensors have.""",
        example='supported_types = ["int8"] and a model in float32',
        remedy="Correct the lists, or convert the model to a type that chips know.",
    ),
    CatalogEntry(
        "MCM-T033",
        "host runs ops that chips lack",
        """\
Chips lack ops of the model, or know no tensors of a type, and leave them to the host: each round
trip is time in which a chip's engine waits. The report tells how many trips there are, what crosses
the chips' links to the host, and what it costs; docs/how-to/unsupported-ops.md says what is
counted.""",
        example='a model with Softmax for a target with unsupported_ops = ["Softmax"]',
        remedy="Accept the cost, write the model without these ops, or refuse such models with\n"
        "`--fallback error`.",
    ),
)
