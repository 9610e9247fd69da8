"""Codes MCM-I###: reading and checking an ONNX model."""

from __future__ import annotations

from mcm_compiler.diagnostic_catalog.entry import CatalogEntry

ENTRIES: tuple[CatalogEntry, ...] = (
    CatalogEntry(
        "MCM-I001",
        "model file not readable",
        "The path does not exist, is a folder, or may not be read. A model is named by\n"
        "the path of its .onnx file, or by zoo:NAME.",
    ),
    CatalogEntry(
        "MCM-I002",
        "empty model file",
        "The file has 0 bytes. As protobuf that is a valid, empty message, so most tools\n"
        "load it without complaint; it usually means that an export or a copy broke off.",
    ),
    CatalogEntry(
        "MCM-I003",
        "not an ONNX model",
        "The file is not binary protobuf, is cut short, or holds a message of another\n"
        "kind. Text formats are not read; convert them with onnx.load and onnx.save.",
    ),
    CatalogEntry(
        "MCM-I004",
        "nothing to place",
        "The graph has no node, or no node that depends on an input or makes an output.\n"
        "There is no work to distribute over chips.",
    ),
    CatalogEntry(
        "MCM-I005",
        "opset out of range",
        "Chips' models must run in stock onnxruntime, so that the opset of the default\n"
        "domain must be one that the installed onnxruntime loads. Export with another\n"
        "opset_version, or convert with onnx.version_converter.",
    ),
    CatalogEntry(
        "MCM-I006",
        "file beyond protobuf's limit",
        "A protobuf message ends at 2 GiB. Save larger models with external data\n"
        "(onnx.save(..., save_as_external_data=True)).",
    ),
    CatalogEntry(
        "MCM-I007",
        "missing or repeated opset import",
        "Nodes of a domain occur, but the model does not say which opset of it they follow, or\n"
        "names two.",
    ),
    CatalogEntry(
        "MCM-I008",
        "text that is not UTF-8",
        "A name in the file is not UTF-8. Protobuf lets such text pass; nothing that reads the\n"
        "model afterwards agrees on what it says.",
    ),
    CatalogEntry(
        "MCM-I009",
        "input or weight without a name",
        "Graph inputs and initializers are referred to by name, so that each needs one.",
    ),
    CatalogEntry(
        "MCM-I010",
        "value produced twice",
        "ONNX graphs are in single-assignment form: each value is a graph input, an\n"
        "initializer, or the output of one node.",
    ),
    CatalogEntry(
        "MCM-I011",
        "undefined value",
        "A node reads a name that no node, initializer or graph input defines. The hint\n"
        "names the nearest defined name.",
    ),
    CatalogEntry(
        "MCM-I012",
        "cycle",
        "Some nodes depend on each other in a circle, so that none can run first.\n"
        "Recurrence is written with Loop, Scan or the recurrent ops.",
    ),
    CatalogEntry(
        "MCM-I013",
        "graph output never produced",
        "A graph output names a value that nothing makes, or that onnxruntime does not hand on:\n"
        "one of the outer graph, or in the body of a Scan a state that is an input of the body,\n"
        "or a value that is given twice. An Identity node in between helps with those.",
    ),
    CatalogEntry(
        "MCM-I014",
        "subgraphs nested too deep",
        "If, Loop and Scan may nest, but protobuf readers give up at about a hundred\nmessages.",
    ),
    CatalogEntry(
        "MCM-I015",
        "recursive functions",
        "Model-local functions stand for their bodies, so that they can call neither themselves\n"
        "nor each other in a circle, and calls within calls are followed to a bounded depth.",
    ),
    CatalogEntry(
        "MCM-I016",
        "functions expand too far",
        "Layers of functions that each call the next one twice expand to millions of nodes from\n"
        "a small file. The nodes that inlining would give are counted before anything is\n"
        "inlined.",
    ),
    CatalogEntry(
        "MCM-I017",
        "node does not fit its op",
        "An attribute has the wrong type, is unknown, given twice or missing; or the node has\n"
        "more or fewer inputs and outputs than its op. onnxruntime refuses such a model.",
    ),
    CatalogEntry(
        "MCM-I018",
        "shape inference crashes",
        "The C++ code of onnx's shape inference dies on the model, mostly where an op reads a\n"
        "type that it is not made for, or it goes on and on. It runs in a child process, so that\n"
        "the compile can say so.",
    ),
    CatalogEntry(
        "MCM-I020",
        "missing external data",
        "The model keeps weights in a file beside it, and that file is not there. Copy\n"
        "the data file together with the model.",
    ),
    CatalogEntry(
        "MCM-I021",
        "external data outside the model's folder",
        "Models are untrusted: a location may not leave the folder of the model, neither\n"
        "by '..' or an absolute path nor through a symbolic or hard link.",
    ),
    CatalogEntry(
        "MCM-I022",
        "external data past the end of its file",
        "Offset and length of a tensor must lie within the data file.",
    ),
    CatalogEntry(
        "MCM-I023",
        "tensor size and shape disagree",
        "The bytes or elements that the file holds for a tensor are not what its shape\n"
        "and type call for. This is checked before any memory is taken.",
    ),
    CatalogEntry(
        "MCM-I024",
        "NaN in weights",
        "A weight holds NaN, so that outputs would mean nothing and equality could not be\n"
        "shown. Scalars are exempt, because some exporters use NaN as a sentinel.",
    ),
    CatalogEntry(
        "MCM-I025",
        "tensor without a type or shape",
        "The element type of a tensor does not exist, or a dimension is negative or beyond all\n"
        "memory.",
    ),
    CatalogEntry(
        "MCM-I026",
        "inconsistent sparse weight",
        "Sparse weights are made dense. Their values and indices must be as many as each other,\n"
        "indices must lie inside the shape and differ, and the dense weight has a bounded size.",
    ),
    CatalogEntry(
        "MCM-I030",
        "dimension without a size",
        "Chips are compiled for fixed shapes. Give a named dimension a size with --dim\n"
        "NAME=N, and an unnamed one by the whole shape of its input with --shape\n"
        "INPUT=1,128.",
    ),
    CatalogEntry(
        "MCM-I031",
        "shape contradicts the model",
        "A shape given with --shape has another rank than the input, or another size in a\n"
        "dimension that the model fixes.",
    ),
    CatalogEntry(
        "MCM-I032",
        "declared type contradicts inference",
        "A value_info or a graph output declares another element type than the op that makes\n"
        "the value gives it. onnxruntime refuses such a model.",
    ),
    CatalogEntry(
        "MCM-I033",
        "input without a type",
        "Graph inputs must declare an element type that exists; nothing else tells it.",
    ),
    CatalogEntry(
        "MCM-I034",
        "value too large",
        "A value of the graph would take gigabytes. Sizes are computed from shapes before any\n"
        "memory is taken; a mistyped dimension is the usual cause.",
    ),
    CatalogEntry(
        "MCM-I040",
        "unknown type or shape",
        "Neither inference nor a run could tell the type or shape of a value. It is\n"
        "placed and costed as if open dimensions were 1, so that times and memory may be\n"
        "too low. The message names the first such value and why the run failed; sizes that\n"
        "the model runs with, given by --shape or --dim, are the usual remedy.",
    ),
    CatalogEntry(
        "MCM-I041",
        "shapes from onnxruntime",
        "onnx's shape inference did not complete. onnxruntime's symbolic inference found some\n"
        "of the rest, which are as certain; the others were read off onnxruntime as it loaded\n"
        "and ran the model once with random inputs. Where a shape depends on data, it is the\n"
        "shape of that run.",
    ),
    CatalogEntry(
        "MCM-I042",
        "nodes sorted",
        "The standard wants nodes in topological order; this file has them otherwise, as\n"
        "some shipped models do. They were sorted.",
    ),
    CatalogEntry(
        "MCM-I043",
        "IR version lowered",
        "The model's IR version is newer than the installed onnxruntime loads. IR\n"
        "versions only add fields, so that emitted models say the newest version that\n"
        "does load.",
    ),
    CatalogEntry(
        "MCM-I044",
        "declared shapes do not hold",
        "A value_info or a graph output declares another shape than the op that makes the\n"
        "value gives it, as is left behind when a model is edited. onnxruntime only logs\n"
        "this and runs the model. The declared shapes are dropped here, because sizes,\n"
        "transfers and memory are computed from shapes.",
    ),
    CatalogEntry(
        "MCM-I045",
        "opset imports added",
        "The model uses ops of a domain without importing an opset of it. onnxruntime then\n"
        "takes the newest version that it knows of its own domains and runs the model; the\n"
        "emitted models import that version.",
    ),
    CatalogEntry(
        "MCM-I050",
        "shapes that onnxruntime contradicts",
        "The model declares, or onnx's inference finds, a static shape that nothing\n"
        "vouches for: of an op of another domain, of what data or a body decide, of STFT\n"
        "without onesided. One run of the model in onnxruntime, within limits of memory and\n"
        "work, came to another shape, and that is taken. Where it depends on data, the\n"
        "dimension is open in all emitted models and planned with the larger size; --input\n"
        "gives the run an input that is typical.",
    ),
    CatalogEntry(
        "MCM-I051",
        "array for no input",
        "The .npz file of --input holds an array whose name is none of the model's inputs.",
    ),
    CatalogEntry(
        "MCM-I052",
        "array does not fit its input",
        "An array of the .npz file of --input has another element type than the input of\n"
        "the model, or a shape that contradicts it or --shape, or the input is a sequence,\n"
        "an optional or a map, which such a file cannot hold. Inputs that the file leaves\n"
        "out are drawn at random.",
    ),
)
