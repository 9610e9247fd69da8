"""Kinds of files, by their first bytes, where a file is not what its name says."""

from __future__ import annotations

HEAD_BYTES = 1024
"""How much of a file is looked at."""

LFS_POINTER = "a Git LFS pointer"

_BEGINNINGS = (
    (b"version https://git-lfs.github.com/spec/", LFS_POINTER),
    (b"PK\x03\x04", "a zip archive"),
    (b"PK\x05\x06", "an empty zip archive"),
    (b"\x1f\x8b", "a gzip archive"),
    (b"BZh", "a bzip2 archive"),
    (b"\xfd7zXZ\x00", "an xz archive"),
    (b"\x28\xb5\x2f\xfd", "a Zstandard archive"),
    (b"7z\xbc\xaf\x27\x1c", "a 7z archive"),
    (b"GGUF", "a GGUF file of llama.cpp"),
    (b"\x89HDF\r\n\x1a\n", "an HDF5 file, as Keras writes them"),
    (b"\x93NUMPY", "a NumPy array (.npy)"),
    (b"\x7fELF", "a program or library"),
    (b"\x89PNG", "a PNG image"),
    (b"\xff\xd8\xff", "a JPEG image"),
    (b"%PDF", "a PDF document"),
)

_FLATBUFFERS = {b"ORTM": "a model in onnxruntime's own format (.ort)", b"TFL3": "a TFLite model"}
"""By the identifier behind the first four bytes."""

_TEXTS = (
    ("<!doctype html", "an HTML page"),
    ("<html", "an HTML page"),
    ("<?xml", "an XML document"),
    ("ir_version", "an ONNX model as protobuf text"),
    ("{", "a JSON text"),
)

_HINTS = {
    LFS_POINTER: "the data were not downloaded: git lfs pull",
    "a zip archive": "unpack it; of a PyTorch checkpoint, export the model with torch.onnx.export",
    "a JSON text": "it may be the answer of a server; download the model again",
    "an HTML page": "it is a page, not the file that it links to; download the model again",
    "an ONNX model as text": "parse it with onnx.parser and write it with onnx.save",
    "an ONNX model as protobuf text": "read it with onnx.load(path, format='textproto') and write "
    "it with onnx.save",
    _FLATBUFFERS[b"ORTM"]: "name the .onnx file that it was made from",
}


def kind_of(head: bytes) -> tuple[str, str | None] | None:
    """A kind of file and what to do about it, or None for one that is not known.

    Args:
        head: the first `HEAD_BYTES` of the file, or all of it.
    """
    kind = next((kind for start, kind in _BEGINNINGS if head.startswith(start)), None)
    kind = kind or _FLATBUFFERS.get(head[4:8]) or _structured(head) or _text(head)
    if kind is None:
        return None
    archive = "unpack it" if kind.endswith("archive") else None
    return kind, _HINTS.get(kind, archive)


def _structured(head: bytes) -> str | None:
    if head[257:262] == b"ustar":
        return "a tar archive"
    if head[8:9] == b"{" and 2 <= int.from_bytes(head[:8], "little") <= 100_000_000:
        return "a safetensors file, which holds weights and no graph"
    if head[:1] == b"\x80" and head[1:2] in (b"\x02", b"\x03", b"\x04", b"\x05"):
        return "a Python pickle"
    return None


def _text(head: bytes) -> str | None:
    try:
        text = head.decode("utf-8-sig", "strict" if len(head) < HEAD_BYTES else "ignore")
    except UnicodeDecodeError:
        return None
    if not text.strip() or any(not c.isprintable() and not c.isspace() for c in text):
        return None
    plain = text.lstrip().lower()
    if plain.startswith("<") and "ir_version" in plain:
        return "an ONNX model as text"
    return next((kind for start, kind in _TEXTS if plain.startswith(start)), "a text file")
