"""torch's legacy exporter: tracing and scripting, opsets 7 to 17."""

# The exporters need not be installed where the project is checked.
# pyright: basic, reportMissingImports=false
from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path

import onnx
import torch
from exports import torch_attention, torch_networks, torch_programs
from exports.export import Export
from exports.seeded_weights import seeded

EXPORTER = "torch legacy"
PACKAGES = ("torch", "onnx")

Axes = Mapping[str, Mapping[int, str]]


def _write(
    path: Path,
    module: torch.nn.Module,
    args: Sequence[torch.Tensor],
    opset: int,
    inputs: Sequence[str],
    outputs: Sequence[str],
    axes: Axes | None = None,
    **options: object,
) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            module,
            tuple(args),
            str(path),
            opset_version=opset,
            input_names=list(inputs),
            output_names=list(outputs),
            dynamic_axes={name: dict(dims) for name, dims in (axes or {}).items()},
            dynamo=False,
            **options,
        )


def _float(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(7))


def _tokens(limit: int, *shape: int) -> torch.Tensor:
    return torch.randint(0, limit, shape, generator=torch.Generator().manual_seed(7))


def _lenet(path: Path) -> None:
    module = seeded("lenet", torch_networks.LeNet)
    _write(path, module, [_float(1, 1, 28, 28)], 7, ["image"], ["scores"])


def _resnet(path: Path) -> None:
    module = seeded("resnet", torch_networks.ResNet)
    _write(path, module, [_float(1, 3, 32, 32)], 9, ["image"], ["scores"],
           keep_initializers_as_inputs=True)  # fmt: skip
    model = onnx.load(path)
    model.ir_version = 3
    onnx.save(model, path)


def _resnet_training_form(path: Path) -> None:
    module = seeded("resnet", torch_networks.ResNet)
    _write(path, module, [_float(2, 3, 32, 32)], 12, ["image"], ["scores"],
           {"image": {0: "batch"}, "scores": {0: "batch"}},
           training=torch.onnx.TrainingMode.PRESERVE, do_constant_folding=False)  # fmt: skip


def _mobilenet(path: Path) -> None:
    module = seeded("mobilenet", torch_networks.MobileNet)
    _write(path, module, [_float(1, 3, 32, 32)], 11, ["image"], ["scores"],
           {"image": {0: "batch"}})  # fmt: skip


def _unet(path: Path) -> None:
    module = seeded("unet", torch_networks.UNet)
    _write(path, module, [_float(1, 1, 32, 32)], 13, ["image"], ["mask"],
           {"image": {0: "batch"}})  # fmt: skip


def _generator(path: Path) -> None:
    module = seeded("generator", torch_networks.Generator)
    _write(path, module, [_float(1, 16)], 9, ["noise"], ["image"])


def _super_resolution(path: Path) -> None:
    module = seeded("super_resolution", torch_networks.SuperResolution)
    _write(path, module, [_float(1, 1, 16, 16)], 11, ["image"], ["larger"],
           {"image": {0: "batch", 2: "height", 3: "width"}})  # fmt: skip


def _lstm(path: Path) -> None:
    module = seeded("lstm", torch_networks.LanguageLstm)
    batch = {0: "batch", 1: "time"}
    _write(path, module, [_tokens(64, 2, 5), _float(2, 2, 32), _float(2, 2, 32)], 9,
           ["tokens", "hidden", "cell"], ["logits", "next_hidden", "next_cell"],
           {"tokens": batch, "hidden": {1: "batch"}, "cell": {1: "batch"}})  # fmt: skip


def _gru(path: Path) -> None:
    module = seeded("gru", torch_networks.BidirectionalGru)
    _write(path, module, [_float(6, 2, 12)], 11, ["frames"], ["tags", "state"],
           {"frames": {0: "time", 1: "batch"}})  # fmt: skip


def _encoder(path: Path) -> None:
    module = seeded("encoder", torch_attention.Encoder)
    both = {0: "batch", 1: "sequence"}
    names = ["tokens", "mask", "types"]
    _write(path, module, [_tokens(96, 2, 10), _tokens(2, 2, 10), _tokens(2, 2, 10)], 12,
           names, ["hidden", "pooled"], dict.fromkeys(names, both))  # fmt: skip


def _decoder(path: Path) -> None:
    module = seeded("decoder", torch_attention.CausalDecoder)
    _write(path, module, [_tokens(96, 2, 10)], 14, ["tokens"], ["logits"],
           {"tokens": {0: "batch", 1: "sequence"}})  # fmt: skip


def _translator(path: Path) -> None:
    module = seeded("translator", torch_attention.Translator)
    _write(path, module, [_float(1, 7, 32), _float(1, 5, 32)], 14, ["source", "target"],
           ["words"])  # fmt: skip


def _vit(path: Path) -> None:
    module = seeded("vit", torch_attention.VisionTransformer)
    _write(path, module, [_float(2, 3, 32, 32)], 17, ["image"], ["scores"],
           {"image": {0: "batch"}})  # fmt: skip


def _detector(path: Path) -> None:
    module = seeded("detector", torch_programs.Detector)
    _write(path, module, [_float(1, 3, 32, 32)], 11, ["image"], ["boxes", "scores", "labels"],
           {name: {0: "kept"} for name in ("boxes", "scores", "labels")})  # fmt: skip


def _mel(path: Path) -> None:
    module = seeded("mel", torch_programs.MelFrontEnd)
    _write(path, module, [_float(1, 1600)], 17, ["audio"], ["features"])


def _embedding_bag(path: Path) -> None:
    module = seeded("embedding_bag", torch_programs.EmbeddingBag)
    _write(path, module, [_tokens(50, 3, 5), _float(3, 5)], 11, ["words", "weights"], ["scores"])


def _branches(path: Path) -> None:
    module = torch.jit.script(seeded("branches", torch_programs.BranchingClassifier))
    _write(path, module, [_float(2, 8)], 13, ["x"], ["y"])


def _loop(path: Path) -> None:
    module = torch.jit.script(seeded("loop", torch_programs.NewtonIteration))
    _write(path, module, [_float(3, 6), torch.tensor(3)], 13, ["x", "steps"], ["y"])


def _sequence_loop(path: Path) -> None:
    module = torch.jit.script(seeded("sequence_loop", torch_programs.SequenceRecurrence))
    _write(path, module, [_float(5, 2, 10)], 13, ["frames"], ["y"], {"frames": {0: "time"}})


def _split_sequence(path: Path) -> None:
    module = torch.jit.script(seeded("split_sequence", torch_programs.ChunkedMlp))
    _write(path, module, [_float(2, 12)], 13, ["x"], ["y"], {"x": {1: "width"}})


def _half(path: Path) -> None:
    module = seeded("half", torch_networks.MobileNet).half()
    _write(path, module, [_float(1, 3, 32, 32).half()], 13, ["image"], ["scores"])


def exports() -> list[Export]:
    """All models of this exporter."""
    return [
        Export("torch_lenet_opset7", "CNN with max pooling", _lenet, target="mcm4"),
        Export("torch_resnet_ir3", "residual network, weights among the inputs", _resnet),
        Export("torch_resnet_unfolded", "residual network with its batch normalisations",
               _resnet_training_form, {"batch": 2}),
        Export("torch_mobilenet_opset11", "depthwise blocks with squeeze and excitation",
               _mobilenet, {"batch": 2}),
        Export("torch_unet_opset13", "U-Net with skip connections, GroupNorm and Resize", _unet,
               {"batch": 1}),
        Export("torch_gan_opset9", "DCGAN generator with transposed convolutions", _generator),
        Export("torch_super_resolution_opset11", "PixelShuffle network with free image size",
               _super_resolution, {"batch": 1, "height": 12, "width": 16}, target="mcm4"),
        Export("torch_lstm_opset9", "LSTM language model with free batch and time", _lstm,
               {"batch": 2, "time": 6}),
        Export("torch_gru_opset11", "bidirectional two-layer GRU tagger", _gru,
               {"batch": 2, "time": 5}),
        Export("torch_encoder_opset12", "BERT-like encoder, one mask chain read by all layers",
               _encoder, {"batch": 2, "sequence": 9}),
        Export("torch_decoder_tied_opset14", "causal decoder with tied embedding and projection",
               _decoder, {"batch": 2, "sequence": 8}),
        Export("torch_translator_opset14", "torch's encoder-decoder transformer", _translator),
        Export("torch_vit_opset17", "vision transformer with a class token", _vit, {"batch": 2}),
        Export("torch_detector_opset11", "single-shot head with NonMaxSuppression", _detector),
        Export("torch_mel_opset17", "audio front end with the STFT op", _mel, target="mcm4"),
        Export("torch_embedding_bag_opset11", "weighted embedding bag", _embedding_bag,
               target="mcm4"),
        Export("torch_if_opset13", "scripted branches, If nested in If", _branches, target="mcm4"),
        Export("torch_loop_opset13", "scripted loop with a trip count from the input", _loop,
               target="mcm4"),
        Export("torch_sequence_loop_opset13", "scripted recurrence that grows a sequence",
               _sequence_loop, {"time": 5}, target="mcm4"),
        Export("torch_split_sequence_opset13", "scripted split into a sequence and back",
               _split_sequence, {"width": 12}, target="mcm4"),
        Export("torch_half_opset13", "depthwise blocks in float16", _half, equality="float16"),
    ]  # fmt: skip
