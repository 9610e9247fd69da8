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
        "missing opset import",
        "Nodes of the default domain occur, but the model does not say which opset they\nfollow.",
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
        "A graph output names a value that nothing makes.",
    ),
    CatalogEntry(
        "MCM-I014",
        "subgraphs nested too deep",
        "If, Loop and Scan may nest, but protobuf readers give up at about a hundred\nmessages.",
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
        "MCM-I040",
        "unknown type or shape",
        "Neither inference nor a run could tell the type or shape of a value. It is\n"
        "placed and costed as if open dimensions were 1, so that times and memory may be\n"
        "too low.",
    ),
    CatalogEntry(
        "MCM-I041",
        "shapes from a run",
        "onnx's shape inference did not complete, and the rest was read off one run in\n"
        "onnxruntime with random inputs. Where a shape depends on data, it is the shape\n"
        "of that run.",
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
)
