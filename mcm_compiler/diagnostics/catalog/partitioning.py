"""Codes MCM-P###: placing ops on chips."""

from __future__ import annotations

from mcm_compiler.diagnostics.catalog.entry import CatalogEntry

ENTRIES: tuple[CatalogEntry, ...] = (
    CatalogEntry(
        "MCM-P001",
        "a fusion group is not convex",
        "The ops of a fusion group run as one kernel, so no path between two of them may\n"
        "leave the group: one that leaves and comes back makes a cycle once the group is\n"
        "one unit. This is a fault of the fusion rule that made the group, not of the\n"
        "model.  Compile without `fuse`, or without the rule, and tell whoever wrote it.",
        example="a fusion rule of a plug-in joins ops 1 and 3, and op 2 reads the one and\n"
        "feeds the other",
        remedy="Compile without `fuse`, and mend the rule.",
    ),
    CatalogEntry(
        "MCM-P002",
        "nothing to place",
        "All outputs of the model are graph inputs or constants, so there is no op that a\n"
        "chip would have to run. Often `simplify` has folded a model whose outputs do not\n"
        "depend on its inputs; check that the model is the one you meant. A model of empty\n"
        "tensors has nothing to place either on a target whose launches take no time: its\n"
        "period would be 0 s.",
        example="a model whose outputs are its inputs",
        remedy="Compile the model that you meant, or leave out `simplify` to keep its ops as\n"
        "they are.",
    ),
    CatalogEntry(
        "MCM-P003",
        "an operator fits no chip",
        "The weights of one operator take more memory than a chip has, and the operator\n"
        "cannot be split into operators with a slice of the weights each. Split are\n"
        "MatMul and Gemm by columns, Gather along axis 0 by the columns of its table, and\n"
        "Conv with one group by output channels, as long as every piece keeps the bits of\n"
        "the whole. An LSTM, or an Add with a huge table, is not.  Choose a target with\n"
        "more memory per chip, narrow the model's data type, or divide the weight in the\n"
        "model.",
        example="an LSTM with 80 MiB of weights on chips of 64 MiB",
        remedy="Choose a target with more memory per chip, a narrower data type, or divide\n"
        "the weight in the model.",
    ),
    CatalogEntry(
        "MCM-P004",
        "the model's weights exceed the package's memory",
        "All weights together, counted once each at the target's storage widths, take\n"
        "more memory than all chips have. No placement can hold them, since weights stay\n"
        "on the chips.  Choose a target with more chips or more memory, or quantize the\n"
        "model.",
        example="the weights take 5.1 GiB, the 36 chips of 'mcm36' have 2.2 GiB",
        remedy="Choose a target with more chips or memory, or one that streams weights (spill\n"
        '= "stream"), or quantize the model.',
    ),
    CatalogEntry(
        "MCM-P010",
        "an op type without a cost formula",
        "The cost model of the target does not know how much this op computes, so it\n"
        "counts only the bytes that the op reads and writes. The model still compiles and\n"
        "runs; the estimate may be too low for an op that computes much, and then its\n"
        "chip is the real bottleneck.  A cost model of your own can be registered under\n"
        "the entry points `mcm_compiler.cost_models`.",
        example="'roofline' has no formula for com.acme.Blend: 3 ops costed by bytes moved",
        remedy="Register a cost model for the op, or measure it and use --cost-model table.",
    ),
    CatalogEntry(
        "MCM-P011",
        "an operator was split over chips",
        "The weights of one operator, with room for its inputs and outputs, take more\n"
        "memory than a chip has. It was replaced by several operators that hold a slice\n"
        "of the weights each, and a Concat that puts their outputs together; the result\n"
        "is equal to the bit. This is a note: nothing is wrong.\n"
        "`shard_oversized{fraction=...}` sets how much of a chip one operator may fill.",
        example="7.5 MiB of weights do not fit a chip of 4.0 MiB: split into 3 pieces along\n"
        "axis 1",
        remedy="Nothing has to be done; shard_oversized{fraction=...} sets how much one op\n"
        "may fill.",
    ),
    CatalogEntry(
        "MCM-P005",
        "ops that stay together have more weights than a chip has memory",
        "An op, or a group of ops that is fused into one kernel, runs on one chip, and\n"
        "all of its weights must be in that chip's memory.  Let `shard_oversized` split\n"
        "the op, compile without `fuse` if the ops of a group fit one by one, or choose a\n"
        "target with more memory per chip.",
        example="a fused group of two Gemm needs 70 MiB of weights on one chip",
        remedy="Leave shard_oversized in the pipeline, compile without `fuse`, or choose\n"
        "chips with more memory.",
    ),
    CatalogEntry(
        "MCM-P007",
        "an op is pinned to a chip that does not exist",
        "Chips are numbered from 0 along the ring, and the one that was asked for is not\n"
        "among those of the target.",
        example="`--pin 'conv1=36'` for chips 0 to 35",
        remedy="Pin to a chip that exists.",
    ),
    CatalogEntry(
        "MCM-P008",
        "the strategy found no valid partition",
        "The strategy found nothing that keeps all rules: dataflow in the direction of\n"
        "the ring, no skipped chip, no chip triangle (under `strict` routing), and the\n"
        "memory of each chip. Another strategy may still find one, or prove that there is\n"
        "none: `dp` cuts several orders of the ops, `cpsat` searches all partitions.  Under\n"
        "`strict` routing a tensor that is read far away leaves few partitions or none.\n"
        "`relay` routing passes such tensors on from chip to chip.",
        example="`--partitioner greedy --routing strict` on an encoder-decoder: the strategy\n"
        "found no valid partition",
        remedy="Take --partitioner cpsat or --routing relay, more chips, or more memory per\nchip.",
    ),
    CatalogEntry(
        "MCM-P009",
        "a strategy broke its contract",
        "The partition that the strategy returned breaks a rule of the ring, or\n"
        "contradicts the lower bound that the strategy claims to have proven. This is a\n"
        "fault of the strategy, not of the model; built-in strategies are tested against\n"
        "it, plug-ins may not be.",
        example="a plug-in's strategy sends a tensor from chip 3 to chip 2",
        remedy="Choose another --partitioner, and mend the strategy.",
    ),
    CatalogEntry(
        "MCM-P015",
        "an op and its tensors exceed a chip's memory",
        "A chip that runs an op holds the op's weights (where they cannot be streamed),\n"
        "buffers for what it sends to the host or gets from there, and each other tensor that\n"
        "the op reads or makes: in buffers if it crosses a link, else among the chip's\n"
        "activations. A view takes no room beside what it is a view of, and no room for gaps\n"
        "between addresses is counted. What is counted is the least that any memory plan\n"
        "needs, so that this is a proof that there is none.  Choose a target with more memory\n"
        "per chip or fewer channel slots, or a smaller batch or sequence.",
        example="a MatMul whose operands take 90 MiB on chips of 64 MiB",
        remedy="Choose chips with more memory, fewer channel slots, or a smaller batch or\n"
        "sequence.",
    ),
    CatalogEntry(
        "MCM-P016",
        "no valid partition exists",
        "A search over all partitions found none that keeps the rules of the ring and the\n"
        "memory of each chip. What is counted of memory is the least that any memory plan\n"
        "needs, without room for gaps, so that this is a proof.\n"
        "Pins take partitions away, and so does `strict` routing. `relay` routing, more chips,\n"
        "or more memory per chip allow more.",
        example="two pinned ops leave no chip for the op between them",
        remedy="Take back pins, allow --routing relay, or choose more chips or memory.",
    ),
    CatalogEntry(
        "MCM-P013",
        "more chips asked for than can be used",
        "Every chip that is used runs at least one op (or fused group), and the package has only\n"
        "so many chips. Small models run on fewer chips than the package has without being asked.",
        example="`--chips 50` for a package of 36 chips",
        remedy="Ask for fewer chips, or leave --chips out.",
    ),
    CatalogEntry(
        "MCM-P018",
        "more pipelines asked for than can run side by side",
        "Pipelines side by side share the chips of a package equally, and each runs the same\n"
        "programs. That takes as many chips as pipelines, chips that are alike, a host that\n"
        "reaches all of them, and no constraints on single chips: pins, assignments and forbidden\n"
        "chips name places of one pipeline.",
        example="`--replicas 5` on four chips",
        remedy="Ask for fewer pipelines, or leave --replicas out.",
    ),
    CatalogEntry(
        "MCM-P012",
        "a value at a chip's boundary has no type",
        "A tensor that travels between chips or to the host is an input or output of a\n"
        "chip's model, and ONNX wants its element type there. Ops around a value whose type\n"
        "nothing tells are kept on one chip, so that this is about an output of the graph.\n"
        "Declare its type in the model.",
        example="the output of a custom op is a graph output without a type",
        remedy="Declare its type in the model.",
    ),
    CatalogEntry(
        "MCM-P014",
        "values without a type keep ops together",
        "ONNX wants the type of every value that travels between chips. Nothing tells it\n"
        "for what an op of an unknown domain makes, and for what is computed from that, so\n"
        "these ops and their readers share a chip, with all ops on paths between them. A\n"
        "value_info with type and shape lets them be distributed.",
        example="a custom op whose result has no type, and three ops that read it",
        remedy="Add a value_info with type and shape to let them be distributed.",
    ),
    CatalogEntry(
        "MCM-P017",
        "graph partitioner not installed",
        "The strategies metis and kahip are baselines that call METIS and KaHIP, which are not\n"
        "part of the compiler's own requirements. Install the extra 'baselines', or take another\n"
        "strategy: mcmc strategies lists them.",
        example="`--partitioner metis` without pymetis",
        remedy="pip install 'mcm-compiler[baselines]', or choose another strategy.",
    ),
    CatalogEntry(
        "MCM-P019",
        "a loop whose trip count is assumed",
        "Data decide how often the body of a Loop or a SequenceMap runs: its count is an input\n"
        "or computed from one, or its condition may end it early. Times are computed with an\n"
        "assumed count: the constant limit of the loop, or 1. Throughput, latency and bounds\n"
        "hold for that count only, so the report does not claim that the result is optimal.\n"
        "A count from --input is the mean over the executions of the loop, rounded up.",
        example="data decide how often loops run, times assume that 'decode' runs 1 times",
        remedy="State the count with --trip-count LOOP=N, or give data that decide it with\n"
        "--input FILE.npz.",
    ),
    CatalogEntry(
        "MCM-P020",
        "memory plan does not fit",
        "Partitioning estimates the memory of each chip, and lowering then plans it with\n"
        "real addresses: weights, receive and send buffers, activations by liveness. The\n"
        "plan of at least one chip ends beyond its SRAM. This is the dynamic constraint\n"
        "H(G, f) of MCM, Eq. 5: what only later compilation shows.\n"
        "The hint names changes, each of which makes the chip fit as far as its own buffers\n"
        "go: an op in pieces on several chips, fewer tensors that are only passed on, weights\n"
        "that are streamed. Where none suffices alone it names those that help.",
        example="the memory plan of chip 3 needs 66.1 MiB, and that chip of 'mcm36' has 64.0\nMiB",
        remedy="Do what the hint lists: split an op, stream weights, another partitioner, or\n"
        "a smaller batch.",
    ),
    CatalogEntry(
        "MCM-P030",
        "no placement has a memory plan that fits",
        "No search found a partition that fits, so the memory of every placement that the rules\n"
        "allow was planned, which is done for small problems. The message tells what the least\n"
        "demanding one needs. Choose a target with more memory per chip or fewer channel slots,\n"
        "or a smaller batch or sequence.",
        example="of three ops on two chips all 4 placements were planned, and none fits",
        remedy="Choose chips with more memory or fewer channel slots, or a smaller batch or\n"
        "sequence.",
    ),
    CatalogEntry(
        "MCM-P040",
        "strategy is for another kind of package",
        "Most strategies rely on the order of the chips on a ring: they cut an order of the ops,\n"
        "or move ops to the chip beside. The devices of this target are connected otherwise.\n"
        "Leave the choice of a strategy to the level, or take one that knows all machines; the\n"
        "hint names them. A strategy of a plug-in says so with the attribute any_machine. The\n"
        "strategy stages, in turn, is for packages that are no rings.",
        example="`--partitioner dp` for a mesh",
        remedy="Leave --partitioner out, or take one that the hint names, such as stages.",
    ),
    CatalogEntry(
        "MCM-P050",
        "no such input or output for a state",
        "A state is an input of the model, the past, and the output that the next inference of\n"
        "the same sequence takes for it, the present. What `--state past=present` names must be\n"
        "an input without a default value and an output, each in one state only.",
        example="--state past_0=presnt_0, and the output is called present_0",
        remedy="Take the names from the hint; --state none switches states off.",
    ),
    CatalogEntry(
        "MCM-P051",
        "an output that cannot be the next step's input",
        "The present of one step is the past of the next one. Both need one element type and as\n"
        "many axes, with known sizes that are equal, but for one axis at most along which the\n"
        "present is longer. For states that you name this is an error; where only the customary\n"
        "names fit, it is a note, and the tensors cross the host's link like any others.",
        example="past_key_values.0.key is [1, 12, 127, 64], present.0.key [1, 128, 12, 64]",
        remedy="Bind symbolic dimensions with --dim, name the right pairs with --state, or switch\n"
        "states off with --state none.",
    ),
    CatalogEntry(
        "MCM-P052",
        "a state does not stay on a chip",
        "The ops that read the past of a state, the one that makes its present, and all ops\n"
        "between them have to run on one chip, which holds the state from one inference to the\n"
        "next. Where that cannot be, the pair is compiled like any other input and output: both\n"
        "cross the host's link in every inference, and this is in the figures.",
        example="the present is the input itself; a unit with its state exceeds every chip's\n"
        "memory; pins bind the ops to different chips",
        remedy="Take a target with more memory per chip, ask for fewer --sequences, or leave out\n"
        "the pins that part the ops.",
    ),
    CatalogEntry(
        "MCM-P053",
        "too few sequences in flight",
        "A step of a sequence waits for the step before, so that a pipeline is only busy all the\n"
        "time with as many sequences as steps are under way at once. The chips hold the states of\n"
        "fewer: their memory has no room for more beside what was placed on them, or --sequences\n"
        "asks for fewer. The throughput that is told is that of the sequences that are held.",
        example="2 sequences fit beside the weights, and 6 steps are under way in the pipeline",
        remedy="Ask for --sequences, so that placing leaves room for their states, take a target\n"
        "with more memory, or --replicas with shorter pipelines.",
    ),
    CatalogEntry(
        "MCM-P056",
        "an output leaves in pieces",
        "An output that is put together from pieces takes more memory than a chip has,\n"
        "counting the buffers in which pieces arrive and the whole leaves. So each piece goes to\n"
        "the host from the chip that makes it, over that chip's own link, and the host writes\n"
        "it to its place: `part` of the wire in manifest.json says along which axis and from\n"
        "where to where. Pieces along the first axis are one stretch of the output's memory\n"
        "each, along any other axis the write is strided. No chip and no op puts them together.\n"
        "This is a note: nothing is wrong.",
        example="no chip of 32.0 MiB has room to put the output together: it leaves in 12 pieces\n"
        "along axis 2 of [1, 128, 50257]",
        remedy="Nothing has to be done; mcmc run, check and verify put the pieces together. A\n"
        "runtime of your own writes each piece to its place.",
    ),
    CatalogEntry(
        "MCM-P057",
        "ops are divided along rows",
        "An op and its tensors take more memory than any chip has, as for MCM-P015. It is divided\n"
        "along rows of its result, such as sequences or positions, and so are the ops before\n"
        "and after it, as far as values between them are large. Tiles are ordinary ops\n"
        "that are placed on several chips; the result is equal to the bit. This is a note:\n"
        "nothing is wrong. `parallelize{tile_rows=...}` asks for tiles of at most so many rows\n"
        "also where everything fits.",
        example="48.1 MiB do not fit a chip of 32.0 MiB: 5 ops divided along 12 rows into 4 tiles",
        remedy="Nothing has to be done.",
    ),
    CatalogEntry(
        "MCM-P058",
        "an op that no chip has room for is not divided along rows",
        "An op and its tensors take more memory than any chip has, and no way to divide it along\n"
        "rows was found: no loop of it divides without partial sums, a value that has to be\n"
        "whole exceeds a chip itself, or tiles that fit have so few rows that onnxruntime sums\n"
        "them in another order. The message says which, axis by axis; MCM-P015 follows.",
        example="a Softmax along its only axis of 40,000,000 elements",
        remedy="Choose chips with more memory, or a smaller batch or sequence.",
    ),
    CatalogEntry(
        "MCM-P059",
        "sequences of a model without states",
        "A number of sequences is asked for whose states the chips are to have room for, and the\n"
        "model has no states: no pairs of an input and an output go by the customary names of\n"
        "caches, and none are named. A warning: the number changes nothing.",
        example="--sequences 8 for a network that classifies pictures",
        remedy="Name the states with --state past=present, or leave --sequences out.",
    ),
)
