"""Codes MCM-V###: proving that the chips compute what the model computes."""

from __future__ import annotations

from mcm_compiler.diagnostics.catalog.entry import CatalogEntry

ENTRIES: tuple[CatalogEntry, ...] = (
    CatalogEntry(
        "MCM-V001",
        "onnxruntime refuses a model",
        "Stock onnxruntime is the functional reference: the source model and every chip's\n"
        "model must load in it. Its own reason is in the message.",
        example="a model of an opset that onnxruntime only knows in part",
        remedy="Export with an opset that the installed onnxruntime runs.",
    ),
    CatalogEntry(
        "MCM-V002",
        "onnxruntime fails while running",
        "The model loads but does not run on the given or random inputs. Its own reason\n"
        "is in the message; indices out of range in random inputs are a common one.",
        example="a Gather gets a random index beyond its table",
        remedy="Give real data with --input, or leave verify out and try the chips with mcmc\nrun.",
    ),
    CatalogEntry(
        "MCM-V003",
        "tensor missing on a wire",
        "A wire takes a tensor from a chip that does not make it, or a graph output\n"
        "reaches no host wire. The folder was changed, or the compiler is at fault.",
        example="the manifest has no host wire for the output 'logits'",
        remedy="Compile again.",
    ),
    CatalogEntry(
        "MCM-V004",
        "too large to verify",
        "Inputs and activations of a run, estimated from shapes before anything is allocated,\n"
        "pass a fixed limit. The model can be compiled without the pass verify.",
        example="running the model on 2 inputs takes 40 GiB",
        remedy="Compile for smaller inputs, or leave verify out of --passes.",
    ),
    CatalogEntry(
        "MCM-V005",
        "result not reproducible",
        "An output differs from run to run of the same model on the same input, because a kernel\n"
        "of onnxruntime returns memory that it has not written. Nothing can be compared with it.",
        example="a pooling op returns other numbers in each run of the same input",
        remedy="Leave verify out of --passes, or replace the op; another version of\n"
        "onnxruntime may be sound.",
    ),
    CatalogEntry(
        "MCM-V010",
        "wrong inputs for a run",
        "mcmc run needs one array for each graph input, of the shape and type that the\n"
        "model was compiled for.",
        example="`mcmc run out --input x.npz` without the array 'attention_mask'",
        remedy="Give one array for each input, of its type and shape.",
    ),
    CatalogEntry(
        "MCM-V011",
        "test data not usable",
        "A data set in ONNX's layout is a folder test_data_set_N with input_K.pb and\n"
        "output_K.pb, counted in the order of the model's inputs (weights left out) and\n"
        "outputs. Each file is one serialised tensor, sequence, optional or map.",
        example="test_data_set_0 holds input_0.npy",
        remedy="Lay the data out as test_data_set_0/input_0.pb, output_0.pb.",
    ),
    CatalogEntry(
        "MCM-V020",
        "chips and model differ",
        "The chain of chips gives another result than the source model on the same input,\n"
        "with graph optimisations off in both. Equal bits are required; a tolerance\n"
        "applies only where 16-bit floats cross a wire.",
        example="the chips' result differs by up to 0.31, 0.0 is allowed",
        remedy="Compile again; if a pass of a plug-in changes the graph, mend it; else report\n"
        "it with the model.",
    ),
    CatalogEntry(
        "MCM-V021",
        "equality not checked",
        "The weights are placeholders (a shape-only model), so that equal outputs would\n"
        "prove nothing; or the model itself does not run on random inputs, because some\n"
        "input has to mean something (a shape, an encoded image), and then mcmc check takes\n"
        "your data by --input or --test-data; or onnxruntime lacks an op of a foreign domain,\n"
        "or every output depends on random numbers. All other checks were made. `mcmc check\n"
        "--strict` fails in all these cases.",
        example="a shape-only model: equality was not checked: its weights are placeholders",
        remedy="Compile with real weights, or give data with --input or --test-data.",
    ),
    CatalogEntry(
        "MCM-V022",
        "outputs differ from the expected ones",
        "The chips compute to the bit what the model computes in onnxruntime, or the check\n"
        "would have said so, but the test data expect something else. They were written by\n"
        "another runtime or for another version of the model, or allow less than the usual\n"
        "relative tolerance of 0.001.",
        example="the expected outputs were written by another framework",
        remedy="Write the test data anew with onnxruntime from this model.",
    ),
    CatalogEntry(
        "MCM-V023",
        "random outputs not compared",
        "Ops that draw random numbers without a seed give other results in every run, so\n"
        "that outputs behind them are computed but not compared.",
        example="an export in training mode with Dropout",
        remedy="Give the ops a seed, or export the model in inference mode.",
    ),
    CatalogEntry(
        "MCM-V024",
        "test data beside the model not compared",
        "Folders test_data_set_N beside a model's file are compared when it is compiled.\n"
        "They are left out where more models lie in the folder, because nothing says whose\n"
        "they are; where they are many or large; and where the model is compiled for other\n"
        "sizes than those of the data.",
        example="three models and one test_data_set_0 in a folder",
        remedy="Compare them with mcmc check FOLDER --test-data DATA.",
    ),
    CatalogEntry(
        "MCM-V025",
        "chips do not run under stock session options",
        "The chips were compared with the model with graph optimisations off. mcmc check\n"
        "compares them once more under onnxruntime's own session options, with your file if\n"
        "--model names it: each chip has to load and run there if the model does. Numbers may\n"
        "differ, as optimisations round otherwise in a part than in the whole; the step says\n"
        "by how much.",
        example="an optimisation of onnxruntime fails on a chip's model and not on the whole one",
        remedy="Run the chips with graph optimisations off, and report the model.",
    ),
    CatalogEntry(
        "MCM-V026",
        "onnxruntime ends under stock session options",
        "mcmc check runs your file, or annotated.onnx, and the chips once under onnxruntime's own\n"
        "session options, in a process of their own. onnxruntime crashed there, or took more\n"
        "time or memory than a run may take, so that nothing was compared under these options.\n"
        "It counts as unproven; all other steps were made.",
        example="a training BatchNormalization that leaves an output out, which ends onnxruntime",
        remedy="Report the file to onnxruntime; annotated.onnx was compared with graph\n"
        "optimisations off.",
    ),
    CatalogEntry(
        "MCM-V030",
        "simulation differs from the report",
        "Simulating the folder's program again gives another period than report.json\nsays.",
        example="the simulated period is 3.2e-05 s, the report says 2.9e-05 s",
        remedy="Compile again; the report was changed.",
    ),
    CatalogEntry(
        "MCM-V040",
        "buffers overlap",
        "Two buffers of a chip's memory plan share an address while both hold data.",
        example="buffers 'x' and 'y' overlap",
        remedy="Compile again; if a plug-in plans memory, mend it.",
    ),
    CatalogEntry(
        "MCM-V041",
        "buffer outside SRAM",
        "A buffer ends beyond the chip's SRAM.",
        example="buffer 'x' ends at 67,200,000 of 67,108,864 bytes",
        remedy="Compile again; if a plug-in plans memory, mend it.",
    ),
    CatalogEntry(
        "MCM-V042",
        "program does not belong to the chips",
        "Lowering the chips' models for the folder's target gives another program than\n"
        "the one that is stored.",
        example="target.toml was given a faster link after the compile",
        remedy="Compile again for the changed target.",
    ),
    CatalogEntry(
        "MCM-V050",
        "constraint broken",
        "The wires between chips break one of the ring's rules: dataflow runs one way, no\n"
        "chip is skipped, and (under the strict rule) no direct wire runs beside a longer\n"
        "path.",
        example="the manifest sends a tensor from chip 4 to chip 2",
        remedy="Compile again.",
    ),
    CatalogEntry(
        "MCM-V051",
        "op is not marked as the target wants it",
        """\
An op that the target's chips cannot run lacks the mark that it runs on the host
(`metadata_props["mcm.runs_on"]`, and stage 0 of the configuration mcm_host), or an op that they can
run has it. Whoever runs the folder would start the op in the wrong place. A chip's model or the
target's description was changed, or the folder was made by another release.""",
        example="the mark of a Softmax that was deleted from chip_00.onnx",
        remedy="Compile the model again.",
    ),
    CatalogEntry(
        "MCM-V052",
        "type or shape is not what the op makes",
        """\
A model of the folder declares another type or shape of a weight, an input or a result than it has.
Times and memory are counted by declared shapes, and onnxruntime only warns of wrong ones within a
model, so that mcmc check drops them and finds them anew, as an import does. A model was changed, or
the folder was made by another release.""",
        example="a MatMul of 128 rows whose result is declared with one row",
        remedy="Compile or place the model again.",
    ),
    CatalogEntry(
        "MCM-V053",
        "mark of an op is not so",
        """\
An op of annotated.onnx, or of a chip's model, is marked with another chip, fusion group, cost,
stage or number of pipelines than the chips' models and the target's cost model give. Whoever opens
the model in a viewer, or reads its multi-device fields, would be told something false.""",
        example="mcm.cost_s of a MatMul was changed in annotated.onnx",
        remedy="Compile again; a model or the target was changed.",
    ),
    CatalogEntry(
        "MCM-V060",
        "op is not the model's",
        "The proof by structure numbers every value of the model and every value of the\n"
        "chips, by the op that makes it, its attributes, the content of its weights and what\n"
        "it reads. An op of a chip computes what no op of the model computes: its type, an\n"
        "attribute, a weight or an edge is another one, and no built-in rewrite explains it.\n"
        "In a folder this is tampering, unless its report records the op as unproven\n"
        "(MCM-V063). See docs/explanation/verification.md.",
        example="op 'Conv_3' of chip 1 has strides [2, 2], and the model [1, 1]",
        remedy="Re-run mcmc compile.",
    ),
    CatalogEntry(
        "MCM-V061",
        "output is not the model's",
        "Every op of the chips is one of the model, but what the wires bring to the host as a\n"
        "graph output is another value than the model's, or nothing.",
        example="what arrives as output 'logits' is not what the model computes for it",
        remedy="Re-run mcmc compile.",
    ),
    CatalogEntry(
        "MCM-V062",
        "annotated model is not the original",
        "annotated.onnx, the folder's copy of the model, computes something else than the\n"
        "file or zoo model that was named with --model: an op, an attribute, a weight or an\n"
        "edge differs.",
        example="`mcmc check out --model model.onnx` after a retraining: a weight differs",
        remedy="Compile the present model, or name the one that the folder was made from.",
    ),
    CatalogEntry(
        "MCM-V063",
        "ops unproven by structure",
        "A pass that is not built in changed ops in ways for which the proof by structure has\n"
        "no rule, or apply_plan divided ops of types that have none, or the proof does not\n"
        "follow what a built-in pass did. Runs in onnxruntime compare their results; nothing else\n"
        "does. The share of such ops is in the report and in the output of mcmc check.",
        example="3 ops of 120 unproven by structure; runs compare them",
        remedy="Nothing has to be done; --strict refuses it, and passes that are built in\n"
        "have rules.",
    ),
    CatalogEntry(
        "MCM-V064",
        "comparison that says nothing",
        "An output is empty, NaN, infinite or one number in all its elements, in every run.\n"
        "Equal bits of such outputs would agree with many a wrong result. Inputs of other\n"
        "sizes were drawn as well and did not help. Give data that the model was made for:\n"
        "mcmc check FOLDER --input x.npz, or test_data_set_N folders beside the model.",
        example="a classifier gives NaN for random inputs",
        remedy="Give inputs that the model was made for: mcmc check FOLDER --input x.npz.",
    ),
    CatalogEntry(
        "MCM-V066",
        "another model than the one compiled",
        "The hash of the model named with --model is not the one in the manifest. The file\n"
        "was changed since, or it is another one; the hash covers external data.",
        example="`mcmc check out --model other.onnx`",
        remedy="Name the model that the folder was compiled from, or compile again.",
    ),
    CatalogEntry(
        "MCM-V067",
        "ends are not the model's",
        "The inputs or outputs in the manifest, with names, types and shapes, are not those\n"
        "that the model named with --model has for the recorded sizes of its dimensions.",
        example="the manifest says that 'x' is [1, 64], and the model says [1, 128]",
        remedy="Compile again.",
    ),
    CatalogEntry(
        "MCM-V068",
        "too many ops to compare",
        "Functions that call functions expand to more ops than the proof by structure looks\nat.",
        example="functions that expand to ten million ops",
        remedy="Inline the functions of the model, or export it without them.",
    ),
    CatalogEntry(
        "MCM-V070",
        "certificate is not about the models",
        "mcmc check joins the chips' models, takes out copies and ops that only pass tensors on,\n"
        "asks the target's cost model about every op, and builds the placement problem again.\n"
        "The certificate's problem, placement or period is another one: the field and both\n"
        "values are named.",
        example="certificate.json says that 'Conv_3' takes 10 us, and the target's cost model\n"
        "says 12 us",
        remedy="Compile again; the certificate or a model was changed.",
    ),
    CatalogEntry(
        "MCM-V071",
        "bound does not hold as claimed",
        "The kind of proof that the certificate names does not rule out every shorter period\n"
        "when it is carried out again, or the claims contradict each other or the placement.",
        example="a bound of 40 us was changed to 50 us, which total_work does not give",
        remedy="Compile again; the certificate was changed.",
    ),
    CatalogEntry(
        "MCM-V072",
        "bound is not re-proved",
        "Nothing contradicts the bound, and nothing shows it: it is taken from a solver that\n"
        "gives no proof, the problem is too large for the check, or no checker for this kind of\n"
        "proof is installed (entry points mcm_compiler.proof_checkers). It counts as unproven.",
        example="a bound that CP-SAT alone has shown",
        remedy="Nothing has to be done; another --partitioner may give a bound whose proof\n"
        "can be followed.",
    ),
    CatalogEntry(
        "MCM-V073",
        "figure of the report is not so",
        "mcmc check derives every figure of report.json from the other files of the folder:\n"
        "manifest, chips' models, program, target, certificate, and a simulation. This one is\n"
        "another. docs/reference/output-folder.md lists the fields that a folder cannot tell.",
        example="throughput_per_s was changed in report.json",
        remedy="Compile again; the report was changed.",
    ),
    CatalogEntry(
        "MCM-V074",
        "text of the report is another",
        "report.md is rendered from report.json, which is spelled in one way. One of the files\n"
        "says something else, or says it otherwise.",
        example="a line was added to report.md",
        remedy="Compile again; the file was changed.",
    ),
)
