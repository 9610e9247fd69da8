"""Codes MCM-U###: options and the command line."""

from __future__ import annotations

from mcm_compiler.diagnostics.catalog.entry import CatalogEntry

ENTRIES: tuple[CatalogEntry, ...] = (
    CatalogEntry(
        "MCM-U001",
        "malformed text of a pipeline or a name with options",
        "Pipelines, strategies and zoo models are written as name{option=value,...}, and a\n"
        "pipeline is a comma-separated list of them. Values with commas, braces, blanks or quotes\n"
        "go in double quotes. The message gives the column where reading stopped.",
        example="`--passes \"fuse{max_group=8\"`: expected '}' at column 17",
        remedy="Correct the text at that column; the form is name{option=value,...}.",
    ),
    CatalogEntry(
        "MCM-U002",
        "faulty option",
        "The thing named has no such option, got one twice, lacks a required one, or refuses the\n"
        "value; or two options contradict each other, such as --profile and --cost-model of one\n"
        "kind of device. Options of a component are the fields of its dataclass; mcmc passes,\n"
        "mcmc strategies and mcmc zoo NAME list them with their types and defaults.",
        example="`--passes \"fuse{max=8}\"`: 'fuse' has no option 'max'",
        remedy="Take an option of the hint; mcmc passes, strategies and zoo list them.",
    ),
    CatalogEntry(
        "MCM-U003",
        "unknown name",
        "No component of that kind is registered under that name. The message lists the known\n"
        "names and the nearest ones. Components come from installed distributions (mcmc passes,\n"
        "mcmc targets, mcmc strategies, mcmc zoo list them) and from --plugin files.",
        example="`--target mcm63`",
        remedy="Take a name that the message lists, or give the plug-in's file with --plugin.",
    ),
    CatalogEntry(
        "MCM-U004",
        "option out of range",
        "An option of the compile has a value outside of its range, or, from Python, an option or\n"
        "an argument is of another type. The message gives the value and what it may be.",
        example='`CompileOptions(level=-1)`, `compile_model("net.onnx", options={})`',
        remedy="Give a value such as the message says.",
    ),
    CatalogEntry(
        "MCM-U005",
        "unknown dimension or input",
        "--dim or --shape names a dimension or an input that the model does not have; with many\n"
        "models, one that none of them has. The message lists those that there are.",
        example="`--dim bach=1`: did you mean 'batch'?",
        remedy="Name a dimension or input that the message lists.",
    ),
    CatalogEntry(
        "MCM-U006",
        "pipeline writes no output folder",
        "An output folder is asked for, but no pass of the pipeline writes the chips' models. End\n"
        "--passes with split,lower,simulate,emit,verify, or use mcmc opt to run passes without an\n"
        "output folder.",
        example="`mcmc compile model.onnx --passes simplify,fuse -o out`",
        remedy="End the pipeline with split,lower,simulate,emit,verify, or use mcmc opt.",
    ),
    CatalogEntry(
        "MCM-U007",
        "old spelling",
        "An option is spelled as in an earlier release. It still works, and the hint has what to\n"
        "write from now on; the next release does not know the old spelling any more.",
        example="an option spelled as in the last release",
        remedy="Write what the hint says.",
    ),
    CatalogEntry(
        "MCM-U008",
        "level cannot be read",
        "The file given with -O cannot be opened, or is not TOML. A level is a few keys: strategy\n"
        "(required), effort_s, most_evaluations, unit_evaluations, further, judged_pipelines,\n"
        "summary; mcmc strategies lists those of each level.",
        example="`-O patient.toml` of a file without the key strategy",
        remedy="Write the keys of docs/explanation/partitioning.md, at least strategy.",
    ),
    CatalogEntry(
        "MCM-U020",
        "input arrays cannot be read",
        "The file given to --input is missing, is no .npz archive, is damaged, or holds Python\n"
        "objects, which are never loaded because loading them runs code. Write it with\n"
        "numpy.savez(path, name=array); names are those of the model's inputs.",
        example="`--input data.pickle`",
        remedy="Write the arrays with numpy.savez(path, name=array).",
    ),
    CatalogEntry(
        "MCM-U021",
        "output file exists",
        "A verb that writes a single file does not replace one that is there. Choose another\n"
        "name, or give --force. A folder is never replaced by a file. mcmc build replaces its own\n"
        "pages, and no other file.",
        example="`mcmc zoo bert-tiny -o model.onnx` a second time",
        remedy="Choose another name, or give --force.",
    ),
    CatalogEntry(
        "MCM-U022",
        "output is not an array",
        "The model has an output that is a sequence or a map. An .npz file holds arrays only; run\n"
        "without -o to see what the output is.",
        example="`mcmc run out --input x.npz -o y.npz` of a model that returns a sequence",
        remedy="Leave out -o to see types and shapes of all outputs.",
    ),
    CatalogEntry(
        "MCM-U023",
        "unknown diagnostic code",
        "The catalogue has no such code. mcmc explain without a code lists all. Codes of plug-ins\n"
        "have a prefix of their own and are documented by the plug-in.",
        example="`mcmc explain P003`",
        remedy="Take a code that `mcmc explain` lists; a plug-in documents its own.",
    ),
    CatalogEntry(
        "MCM-U030",
        "baseline cannot be used",
        "What --baseline names is missing, damaged, of another schema version, or says nothing\n"
        "about speed. For one model name its report.json or its output folder; for many models\n"
        "name the folder that an earlier compile of them wrote with -o. Where program.json lies\n"
        "beside the report it is read as well, for the time of every op.",
        example="`--baseline old` where old has no report.json",
        remedy="Name a report.json or its folder; for many models the folder that was -o\nthen.",
    ),
    CatalogEntry(
        "MCM-U031",
        "throughput fell below the baseline",
        "The compile succeeded and its output is written, but the model runs slower than in the\n"
        "baseline, by more than --max-regression allows, so that the command exits with 1. The\n"
        "message gives both rates and the likeliest cause; notes with the code MCM-U032 give\n"
        "what else differs. Undo the change, allow it, or make the new output the baseline.",
        example="throughput fell by 48.8 %, from 37,830 inferences/s to 19,367 inferences/s,\n"
        "where 3.0 % is allowed",
        remedy="Undo the change, allow it with --max-regression, or make the new report the\n"
        "baseline.",
    ),
    CatalogEntry(
        "MCM-U032",
        "difference from the baseline",
        "A note beside MCM-U031: something else that differs between the compile and its\n"
        "baseline, such as an option, the time of an op, the bottleneck, or a version.",
        example="the bottleneck is chip 0 with 207 us, chip 0 with 106 us before",
        remedy="Read it beside MCM-U031; nothing else has to be done.",
    ),
    CatalogEntry(
        "MCM-U033",
        "throughput rose above the baseline",
        "A note: the model runs faster than in the baseline. Make the new output the baseline,\n"
        "so that the gain is guarded from now on.",
        example="throughput rose by 12.0 %",
        remedy="Make the new output the baseline, so that the gain is guarded.",
    ),
    CatalogEntry(
        "MCM-U034",
        "folder without models",
        "A folder was given to compile, but no file at any depth ends in .onnx. Names that begin\n"
        "with a dot and output folders of mcmc compile are passed over.",
        example="`mcmc compile exports/` where the files end in .pb",
        remedy="Name a folder with *.onnx files.",
    ),
    CatalogEntry(
        "MCM-U035",
        "model missing from the baseline",
        "A note: the baseline has no report for this model, which is probably new. It counts as\n"
        "passed. If it was renamed or moved, its earlier report is under the old name.",
        example="a model was added since the baseline was made",
        remedy="Nothing has to be done; it is compared once this build is the baseline.",
    ),
    CatalogEntry(
        "MCM-U036",
        "output folder of a single model",
        "Many models get a folder each below -o, but -o is the output of a single model already,\n"
        "and mcmc check vouches for every file in it. Choose another folder.",
        example="`mcmc compile a.onnx b.onnx -o out`, and out is the folder of a.onnx alone",
        remedy="Choose another folder with -o, or remove this one.",
    ),
    CatalogEntry(
        "MCM-U037",
        "process died",
        "With --jobs every model is compiled in another process, and that of this model ended\n"
        "without an answer: the system killed it, mostly for lack of memory, or a library\n"
        "crashed. The other models are not affected. Compile the model alone, or use fewer jobs.",
        example="the process that compiled the model was killed by signal 9",
        remedy="Use fewer --jobs after signal 9; else compile the model alone.",
    ),
    CatalogEntry(
        "MCM-U038",
        "no throughput to compare",
        "A baseline was given, but the pipeline of this compile does not simulate the result.\n"
        "Add simulate to --passes.",
        example="`--baseline old --passes simplify,...,emit` without simulate",
        remedy="Add simulate to --passes, or leave --baseline out.",
    ),
    CatalogEntry(
        "MCM-U040",
        "process crashed",
        "Native code of a library, mostly a kernel of onnxruntime, crashed or ran out of memory,\n"
        "or the system killed the process that worked on the model. The place tells what it was\n"
        "doing. Nothing half-written is left. Passes that run the model can be left out with\n"
        "--passes; a model without the op that crashes compiles. MCMC_SUPERVISE=0 does the work\n"
        "in the first process, for a debugger.",
        example="a kernel of onnxruntime crashes on a shape",
        remedy="Leave verify out of --passes, or compile the model without that op.",
    ),
    CatalogEntry(
        "MCM-U041",
        "no folder of models",
        "mcmc init looks at the models in a folder, and writes the project file there.",
        example="`mcmc init models/net.onnx`",
        remedy="Name the folder that holds the models.",
    ),
    CatalogEntry(
        "MCM-U050",
        "output is no file",
        "The name of an output stands for a link, a device, a pipe, a socket or a folder. Nothing\n"
        "is written through it, and it is not replaced, with --force neither. For results on\n"
        "standard output there is --format json.",
        example="`-o /dev/stdout`",
        remedy="Name a new or a regular file; --format json prints results.",
    ),
    CatalogEntry(
        "MCM-U051",
        "not proven",
        "With --strict, whatever was not verified or not proven is an error of its own, one for\n"
        "each reason, and the command ends with exit code 3 if there is no other error. The\n"
        "output folder is written all the same. Add verify to --passes, give data that the model\n"
        "runs on, or leave --strict out where the reason is acceptable.",
        example="`--strict` for a model whose outputs are random",
        remedy="Add verify to --passes, give data with --input, or leave --strict out.",
    ),
    CatalogEntry(
        "MCM-U052",
        "standard stream cannot be written",
        "Standard output or standard error is closed, its reader has gone away, or its disk is\n"
        "full. The command stops at once with exit code 1, because nobody would see what it\n"
        "found. Send what is not wanted to /dev/null instead of closing it.",
        example="`mcmc report out | head -1` where the reader has gone away",
        remedy="Send what is not wanted to /dev/null.",
    ),
    CatalogEntry(
        "MCM-U053",
        "file that the system refuses",
        "The system refused to look at, read or write a file or folder that the command needs:\n"
        "for lack of permission, because its name is too long, because a disk is full or broken,\n"
        "or because too many files are open. The model and the target are not at fault.",
        example="`mcmc check /root/out` by a user who may not look into /root",
        remedy="Ask for permission, or name another place.",
    ),
    CatalogEntry(
        "MCM-U054",
        "file inside an output folder",
        "A trace, a page, a JUnit file or another output of a command would lie in an output\n"
        "folder of the compiler. mcmc check vouches for every file there, and --force replaces no\n"
        "folder that holds others. Name a place beside the folder.",
        example="`mcmc simulate out --trace out/run.pftrace`",
        remedy="Name a place beside the folder.",
    ),
    CatalogEntry(
        "MCM-U060",
        "pipeline gives no figures to compare",
        "What other hardware would bring is told in throughput, and so the pipeline has to come\n"
        "to `simulate` before it writes or verifies anything.",
        example="`--sensitivities --passes simplify,fuse,annotate_cost,partition`",
        remedy="Put split,lower,simulate behind partition,legalize, or leave --passes out.",
    ),
    CatalogEntry(
        "MCM-U061",
        "sweep cannot be read",
        "A sweep is a key of the target's description and its values: `KEY=16,32,64`, or a range\n"
        "with both ends and a step, `KEY=4..36:8`. Each key is swept once; there are at most\n"
        "4,096 combinations.",
        example="`mcmc explore model.onnx --sweep package.num_chips=36..4`",
        remedy="Write KEY=VALUE,VALUE or KEY=FIRST..LAST:STEP.",
    ),
    CatalogEntry(
        "MCM-U062",
        "nothing to explore",
        "A swept key is no key of the target's description, or none of the combinations is a\n"
        "valid target. Single combinations that are none are named in the result, and the rest\n"
        "goes on.",
        example="`mcmc explore model.onnx --sweep chip.sram_mb=16,32`",
        remedy="Take a key that `mcmc targets show TARGET` lists, with values that it may have.",
    ),
    CatalogEntry(
        "MCM-U063",
        "journal of an exploration does not fit",
        "While it works, an exploration keeps what it has found in a journal beside the file of\n"
        "--json. One that was interrupted has left its journal there: --resume goes on with it,\n"
        "where models, target, sweeps, options and versions are the same; --force begins anew.",
        example="`mcmc explore model.onnx --sweep ... --json out.json` after a kill",
        remedy="Give --resume to go on, or --force to begin anew.",
    ),
    CatalogEntry(
        "MCM-U070",
        "name cannot be that of a plug-in",
        "`mcmc new` gives a component, a package of Python and a distribution one name: small\n"
        "letters and digits in words that _ or - joins, at most 40 characters, no word of Python\n"
        "and no name of the folders that it writes.",
        example="`mcmc new pass Fuse-It!`",
        remedy="Take a name such as acme_layout.",
    ),
    CatalogEntry(
        "MCM-U071",
        "name of a plug-in is taken",
        "A component of this kind has the name already, or a module of Python that is installed\n"
        "here has: one of them would hide the other.",
        example="`mcmc new strategy greedy`",
        remedy="Take another name; a word of your own in front keeps names apart.",
    ),
    CatalogEntry(
        "MCM-U080",
        "folder that cannot be compared",
        "mcmc diff was given a folder whose report says nothing about speed or is malformed, or\n"
        "a folder of a package and one of a box: nothing that both tell could be held against\n"
        "each other. Folders of different models, targets or options can be compared.",
        example="`mcmc diff compiled placed`, where placed was written by mcmc place",
        remedy="Name two folders of mcmc compile that were simulated, or two of mcmc place.",
    ),
    CatalogEntry(
        "MCM-U090",
        "port that nothing can be served at",
        "mcmc view listens at a port of this machine. Another program listens there already, or\n"
        "the port is one of the system's, below 1024.",
        example="`mcmc view out --port 80`",
        remedy="Take another port, or leave --port out: a free one is found and printed.",
    ),
    CatalogEntry(
        "MCM-U099",
        "internal error",
        "The compiler failed in a way that it does not foresee, which is a fault of the compiler.\n"
        "Run again with the environment variable MCMC_DEBUG=1 to see the stack trace, and report\n"
        "it together with the model or the smallest model that shows it.",
        example="internal error: KeyError: 'x'",
        remedy="Run again with MCMC_DEBUG=1, and report the stack trace with the model.",
    ),
)
