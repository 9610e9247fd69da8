"""Codes MCM-I###: reading and checking an ONNX model."""

from __future__ import annotations

from mcm_compiler.diagnostics.catalog.entry import CatalogEntry

ENTRIES: tuple[CatalogEntry, ...] = (
    CatalogEntry(
        "MCM-I001",
        "model file not readable",
        "The path does not exist, is a folder, or may not be read. A model is named by\n"
        "the path of its .onnx file, or by zoo:NAME.",
        example="`mcmc compile modle.onnx`: the model file does not exist",
        remedy="Correct the path, or name a zoo model as zoo:NAME.",
    ),
    CatalogEntry(
        "MCM-I002",
        "empty model file",
        "The file has 0 bytes. As protobuf that is a valid, empty message, so most tools\n"
        "load it without complaint; it usually means that an export or a copy broke off.",
        example="a file of 0 bytes that a broken download left",
        remedy="Export or copy the model again.",
    ),
    CatalogEntry(
        "MCM-I003",
        "not an ONNX model",
        "The file is not binary protobuf, is cut short, or holds a message of another\n"
        "kind. Text formats are not read; convert them with onnx.load and onnx.save. Of a model\n"
        "in memory: a node reads a value of another graph, which a copy cannot hold.",
        example="a PyTorch file was renamed to model.onnx",
        remedy="Export with torch.onnx.export, or rewrite text formats with onnx.load and\n"
        "onnx.save.",
    ),
    CatalogEntry(
        "MCM-I004",
        "nothing to place",
        "The graph has no node, or no node that depends on an input or makes an output.\n"
        "There is no work to distribute over chips.",
        example="an export in which every output was folded into a constant",
        remedy="Check that the export wrote the model that you meant, with its inputs.",
    ),
    CatalogEntry(
        "MCM-I005",
        "opset out of range",
        "Chips' models must run in stock onnxruntime, so that the opset of the default\n"
        "domain must be one that the installed onnxruntime loads. A newer one is\n"
        "converted down where onnx's version converter can (MCM-I048). This one it does\n"
        "not know, or an op that changed since has no older form, or needs another one in\n"
        "a function or a body of control flow, where the converter does not look.",
        example="opset 28 with SwiGLU, which no older opset has",
        remedy="Export with another opset_version, or install a newer onnxruntime.",
    ),
    CatalogEntry(
        "MCM-I006",
        "file beyond protobuf's limit",
        "A protobuf message ends at 2 GiB. Save larger models with external data\n"
        "(onnx.save(..., save_as_external_data=True)).",
        example="a single file of 3 GB",
        remedy="Save it with onnx.save(model, path, save_as_external_data=True).",
    ),
    CatalogEntry(
        "MCM-I007",
        "missing or repeated opset import",
        "Nodes of a domain occur, but the model does not say which opset of it they follow, or\n"
        "names two.",
        example="nodes of the domain ai.onnx.ml, and opset_import names ai.onnx alone",
        remedy="Export again, or add the opset to opset_import.",
    ),
    CatalogEntry(
        "MCM-I008",
        "text that is not UTF-8",
        "A name in the file is not UTF-8. Protobuf lets such text pass; nothing that reads the\n"
        "model afterwards agrees on what it says.",
        example="a node name of the bytes ff fe",
        remedy="Export again, with a tool that writes UTF-8.",
    ),
    CatalogEntry(
        "MCM-I009",
        "input or weight without a name",
        "Graph inputs and initializers are referred to by name, so that each needs one.",
        example="an initializer whose name is empty",
        remedy="Export again; give every input and weight a name.",
    ),
    CatalogEntry(
        "MCM-I010",
        "value produced twice",
        "ONNX graphs are in single-assignment form: each value is a graph input, an\n"
        "initializer, or the output of one node.",
        example="two Relu nodes write the value 'x': the value 'x' is produced twice",
        remedy="Rename one of the outputs.",
    ),
    CatalogEntry(
        "MCM-I011",
        "undefined value",
        "A node reads a name that no node, initializer or graph input defines. The hint\n"
        "names the nearest defined name.",
        example="an Add reads 'hiden', and the graph makes 'hidden'",
        remedy="Correct the name as in the hint, or export again.",
    ),
    CatalogEntry(
        "MCM-I012",
        "cycle",
        "Some nodes depend on each other in a circle, so that none can run first.\n"
        "Recurrence is written with Loop, Scan or the recurrent ops.",
        example="two Add nodes read each other: 2 nodes form a cycle",
        remedy="Write recurrence with Loop, Scan or a recurrent op.",
    ),
    CatalogEntry(
        "MCM-I013",
        "graph output never produced",
        "A graph output names a value that nothing makes, or that onnxruntime does not hand on:\n"
        "one of the outer graph, or in the body of a Scan a state that is an input of the body,\n"
        "or a value that is given twice. An Identity node in between helps with those.",
        example="the graph output 'logits' is never produced",
        remedy="Remove the output, add the node that makes it, or put an Identity node\nbetween.",
    ),
    CatalogEntry(
        "MCM-I014",
        "subgraphs nested too deep",
        "If, Loop and Scan may nest, but protobuf readers give up at about a hundred\nmessages.",
        example="an If within an If, 120 deep",
        remedy="Inline or merge the inner branches.",
    ),
    CatalogEntry(
        "MCM-I015",
        "recursive functions",
        "Model-local functions stand for their bodies, so that they can call neither themselves\n"
        "nor each other in a circle, and calls within calls are followed to a bounded depth.",
        example="function A calls B, and B calls A",
        remedy="Inline the functions with onnx.inliner, or write the recursion as a Loop or\nScan.",
    ),
    CatalogEntry(
        "MCM-I016",
        "functions expand too far",
        "Layers of functions that each call the next one twice expand to millions of nodes from\n"
        "a small file. The nodes that inlining would give are counted before anything is\n"
        "inlined.",
        example="thirty functions that each call the next one twice",
        remedy="Export the model in parts, or with loops in place of nested functions.",
    ),
    CatalogEntry(
        "MCM-I017",
        "node does not fit its op",
        "An attribute has the wrong type, is unknown, given twice or missing; or the node has\n"
        "more or fewer inputs and outputs than its op. onnxruntime refuses such a model.",
        example="a Gemm with an attribute alpa",
        remedy="Correct the node as the definition of its op says, or export again.",
    ),
    CatalogEntry(
        "MCM-I018",
        "shape inference crashes",
        "The C++ code of onnx's shape inference dies on the model, mostly where an op reads a\n"
        "type that it is not made for, or it goes on and on. It runs in a child process, so that\n"
        "the compile can say so.",
        example="a SequenceAt on a tensor: onnx's shape inference crashes",
        remedy="Look for an op whose inputs have types that it does not take; the model would\n"
        "crash onnxruntime as well.",
    ),
    CatalogEntry(
        "MCM-I020",
        "missing external data",
        "The model keeps weights in a file beside it, and that file is not there. Copy\n"
        "the data file together with the model.",
        example="model.onnx was copied without weights.bin",
        remedy="Copy the data file beside the model.",
    ),
    CatalogEntry(
        "MCM-I021",
        "external data outside the model's folder",
        "Models are untrusted: a location may not leave the folder of the model, neither\n"
        "by '..' or an absolute path nor through a symbolic link. Where the model's file is\n"
        "a link itself, as in caches of model hubs, data may be in the folder of the file\n"
        "that it leads to. That is the rule of onnxruntime, too.",
        example="a tensor with the location ../../etc/passwd",
        remedy="Keep external data in the model's folder, and name it by a relative path;\n"
        "replace links by copies.",
    ),
    CatalogEntry(
        "MCM-I022",
        "external data past the end of its file",
        "Offset and length of a tensor must lie within the data file.",
        example="bytes 4096 to 8192 are past the end of 'weights.bin', which has 5000 bytes",
        remedy="Copy or export the data file again; it is cut short or another model's.",
    ),
    CatalogEntry(
        "MCM-I023",
        "tensor size and shape disagree",
        "The bytes or elements that the file holds for a tensor are not what its shape\n"
        "and type call for. This is checked before any memory is taken.",
        example="the shape [64, 64] calls for 16384 bytes, the file holds 4096",
        remedy="Export the model again.",
    ),
    CatalogEntry(
        "MCM-I024",
        "NaN in weights",
        "A weight holds NaN, so that outputs would mean nothing and equality could not be\n"
        "shown. Scalars are exempt, because some exporters use NaN as a sentinel.",
        example="12 of 4096 elements of fc.weight are NaN",
        remedy="Repair the weights: the training diverged, or the export failed.",
    ),
    CatalogEntry(
        "MCM-I025",
        "tensor without a type or shape",
        "The element type of a tensor does not exist, or a dimension is negative or beyond all\n"
        "memory.",
        example="a weight with the dimension -3",
        remedy="Export the model again.",
    ),
    CatalogEntry(
        "MCM-I026",
        "inconsistent sparse weight",
        "Sparse weights are made dense. Their values and indices must be as many as each other,\n"
        "indices must lie inside the shape and differ, and the dense weight has a bounded size.",
        example="a sparse weight with 10 values and 8 indices",
        remedy="Store the weight dense, or export it again.",
    ),
    CatalogEntry(
        "MCM-I030",
        "dimension without a size",
        "Chips are compiled for fixed shapes. Give a named dimension a size with --dim\n"
        "NAME=N, and an unnamed one by the whole shape of its input with --shape\n"
        "INPUT=1,128. The hint of the last one can be copied: it gives all of them a size that\n"
        "dimensions of such names usually have.",
        example="an input of the shape [batch, 128]: the dimension 'batch' has no size",
        remedy="Give it a size, such as --dim batch=1, or the whole shape with --shape\n"
        "INPUT=1,128. For a folder of models mcmc init finds sizes, and says where from.",
    ),
    CatalogEntry(
        "MCM-I031",
        "shape contradicts the model",
        "A shape given with --shape has another rank than the input, or another size in a\n"
        "dimension that the model fixes. Or sizes given with --dim do not fit together: a\n"
        "dimension whose name is a formula of others, such as 2*batch or past + sequence, has\n"
        "the size that follows from theirs, and another one is given for it, or none follows.",
        example="`--shape x=1,64` where the model says [1, 128]",
        remedy="Give the sizes that the model fixes, or export it with dynamic axes. Leave out\n"
        "sizes that follow from others.",
    ),
    CatalogEntry(
        "MCM-I032",
        "declared type contradicts inference",
        "A value_info or a graph output declares another element type than the op that makes\n"
        "the value gives it. onnxruntime refuses such a model.",
        example="a value_info says int64 of what an Add of floats makes",
        remedy="Correct or remove the value_info, or run onnx.shape_inference anew.",
    ),
    CatalogEntry(
        "MCM-I033",
        "input without a type",
        "Graph inputs must declare an element type that exists; nothing else tells it.",
        example="a graph input without an element type",
        remedy="Declare the type that the model was exported with.",
    ),
    CatalogEntry(
        "MCM-I034",
        "value too large",
        "A value of the graph would take gigabytes. Sizes are computed from shapes before any\n"
        "memory is taken; a mistyped dimension is the usual cause.",
        example="`--dim seq=1000000`: the shape (1, 12, 1000000, 1000000) calls for 48 TB",
        remedy="Check the sizes that you gave, or compile for smaller inputs.",
    ),
    CatalogEntry(
        "MCM-I040",
        "unknown type or shape",
        "Neither inference nor a run found the type or shape of a value. It is placed and\n"
        "costed as if open dimensions were 1, so that times and memory may be too low. The\n"
        "message names the first such value and why the run failed; sizes that the model runs\n"
        "with, given by --shape or --dim, are the usual remedy. Where no run was tried because\n"
        "it would take too much memory, this is an error: no figure would mean anything.",
        example="what a custom op makes has no shape",
        remedy="Give sizes that the model runs with by --shape or --dim, or add a value_info\n"
        "with type and shape.",
    ),
    CatalogEntry(
        "MCM-I041",
        "shapes from onnxruntime",
        "onnx's shape inference did not complete. onnxruntime's symbolic inference found some\n"
        "of the rest, which are as certain; the others were read off onnxruntime as it loaded\n"
        "and ran the model once with random inputs. Where a shape depends on data, it is the\n"
        "shape of that run.",
        example="a NonZero makes as many rows as its data say",
        remedy="Nothing has to be done; --input gives the run data that are typical.",
    ),
    CatalogEntry(
        "MCM-I042",
        "nodes sorted",
        "The standard wants nodes in topological order; this file has them otherwise, as\n"
        "some shipped models do. They were sorted.",
        example="a file that lists the last layer first",
        remedy="Nothing has to be done.",
    ),
    CatalogEntry(
        "MCM-I043",
        "IR version lowered",
        "The model's IR version is newer than the installed onnxruntime loads. IR\n"
        "versions only add fields, so that emitted models say the newest version that\n"
        "does load.",
        example="IR version 14 is newer than the installed onnxruntime loads; emitted models\n"
        "say 13",
        remedy="Nothing has to be done; a newer onnxruntime loads newer versions.",
    ),
    CatalogEntry(
        "MCM-I048",
        "opset converted",
        "The model's opset is newer than the installed onnxruntime loads. Where none of its\n"
        "ops changed since, only the number of the opset is lowered; else onnx's version\n"
        "converter rewrites those ops. What is proven and compared is the converted model,\n"
        "which check --model makes again from the file. report.json keeps this note.",
        example="the model's opset 28 was converted to 26",
        remedy="Nothing has to be done; a newer onnxruntime loads newer opsets.",
    ),
    CatalogEntry(
        "MCM-I044",
        "declared shapes do not hold",
        "A value_info or a graph output declares another shape than the op that makes the\n"
        "value gives it, as is left behind when a model is edited. onnxruntime only logs\n"
        "this and runs the model. Shapes are inferred here without those that a file declares,\n"
        "because sizes, transfers and memory are computed from them.",
        example="a model that was cut after its export and still declares the old shapes",
        remedy="Nothing has to be done; onnx.shape_inference corrects the file.",
    ),
    CatalogEntry(
        "MCM-I045",
        "opset imports added",
        "The model uses ops of a domain without importing an opset of it. onnxruntime then\n"
        "takes the newest version that it knows of its own domains and runs the model; the\n"
        "emitted models import that version.",
        example="ops of com.microsoft, and no opset of that domain is imported",
        remedy="Nothing has to be done; set opset_import so that other tools read the model\n"
        "as well.",
    ),
    CatalogEntry(
        "MCM-I050",
        "shapes that onnxruntime contradicts",
        "The model declares, or onnx's inference finds, a static shape that nothing\n"
        "vouches for: of an op of another domain, of what data or a body decide, of a pool\n"
        "that rounds up, of a size that is scaled, or of any op where inference contradicts\n"
        "itself. One run of the model in onnxruntime, within limits of memory and work, found\n"
        "another shape, and that is taken. Where it depends on data, the\n"
        "dimension is open in all emitted models and planned with the larger size; --input\n"
        "gives the run an input that is typical.",
        example="'frames' is [1, 513, 2] in onnxruntime and not [1, 257, 2] as declared",
        remedy="Give an input that is typical with --input if the shape depends on data.",
    ),
    CatalogEntry(
        "MCM-I059",
        "one name, several sizes",
        "Names of dimensions are claims of the file, which onnxruntime does not enforce: some\n"
        'exporters give unrelated dimensions one name, or call all of them "?". A whole shape\n'
        "given for an input, by --shape or --input, counts for that input alone.",
        example="`--shape frame=4,8 --shape state=1,1` where both are declared as [rows, cols]",
        remedy="Nothing has to be done if the model runs with these sizes.",
    ),
    CatalogEntry(
        "MCM-I057",
        "sizes that stay open",
        "onnxruntime runs the file, but refuses it with the sizes that are given, or that a run\n"
        "found, in place of open dimensions: its inference follows them into a branch that data\n"
        "decide, where they make no sense. The dimensions stay open in all emitted models, and\n"
        "costs and memory are planned for these sizes.",
        example="an If on an input squeezes an axis of size 2 in the branch for size 1",
        remedy="Nothing has to be done; fixed sizes need an export without the branch.",
    ),
    CatalogEntry(
        "MCM-I058",
        "sizes that no data run with",
        "onnxruntime refuses the model with the given sizes, or stops at an op that fails for\n"
        "the sizes of what it reads, which are the same for all data. Figures would describe an\n"
        "inference that cannot run.",
        example="`--shape x=1,7` for a MatMul with a weight of 8 rows",
        remedy="Give the sizes that the model was exported or trained with; mcmc init finds sizes\n"
        "that a model runs with.",
    ),
    CatalogEntry(
        "MCM-I051",
        "array for no input",
        "The .npz file of --input holds an array whose name is none of the model's inputs.",
        example="`--input x.npz` with an array 'tokens', and the model has 'input_ids'",
        remedy="Name the arrays as the inputs are named; the hint lists them.",
    ),
    CatalogEntry(
        "MCM-I052",
        "array does not fit its input",
        "An array of the .npz file of --input has another element type than the input of\n"
        "the model, or a shape that contradicts it or --shape, or the input is a sequence,\n"
        "an optional or a map, which such a file cannot hold. Inputs that the file leaves\n"
        "out are drawn at random.",
        example="float64 numbers for an input of 32-bit floats",
        remedy="Save each array with the type and shape of its input.",
    ),
    CatalogEntry(
        "MCM-I053",
        "function with the name of an op",
        "A model-local function has the domain and name of an op that onnxruntime has in\n"
        "the imported opset. ONNX leaves to the runtime which of the two a node means;\n"
        "onnxruntime takes its own op, whatever the overload of the function is. So does\n"
        "the compiler: the function is left out, and the chips run the op.",
        example="a function Gelu of the domain com.microsoft, written into the file for other\n"
        "runtimes",
        remedy="Nothing has to be done if the op is what is meant; else give the function a\n"
        "domain of its own.",
    ),
    CatalogEntry(
        "MCM-I054",
        "running statistics written over",
        "A BatchNormalization in training makes a new running mean and variance. Unless they\n"
        "are outputs of the graph, onnxruntime writes them over the old ones, also where\n"
        "other ops read these, or where they are weights or inputs. Of weights that others\n"
        "read the op gets a copy, with a note. Otherwise results depend on the order in\n"
        "which ops run, or change from run to run, so that no division onto chips can equal\n"
        "them, and the model is refused.",
        example="the running mean is an input of the model, and another op reads it as well",
        remedy="Make the new running mean and variance outputs of the graph.",
    ),
    CatalogEntry(
        "MCM-I056",
        "a trip count of no loop",
        "--trip-count names a loop that the model does not have. Loops go by the names of\n"
        "their ops, nested ones by paths such as outer/inner; an op without a name goes by\n"
        "its type.",
        example="the model has no loop 'decoder'",
        remedy="Take a name from the hint of the message.",
    ),
)
