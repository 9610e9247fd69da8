"""torch's exporter over `torch.export`: opsets 18 to 23."""

# The exporters need not be installed where the project is checked.
# pyright: basic, reportMissingImports=false
from __future__ import annotations

import contextlib
import io
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path

import torch
from exports import torch_attention, torch_networks, torch_programs
from exports.export import Export
from exports.seeded_weights import seeded
from torch.export import Dim

EXPORTER = "torch dynamo"
PACKAGES = ("torch", "onnxscript", "onnx")

BATCH = Dim("batch", min=1, max=64)
SEQUENCE = Dim("sequence", min=2, max=torch_attention.LONGEST)


def _write(
    path: Path,
    module: torch.nn.Module,
    args: Sequence[torch.Tensor],
    opset: int,
    shapes: Sequence[Mapping[int, object] | None] | None = None,
    **options: object,
) -> None:
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        torch.onnx.export(
            module,
            tuple(args),
            str(path),
            opset_version=opset,
            dynamic_shapes=None if shapes is None else tuple(shapes),
            dynamo=True,
            **{"external_data": False, "verbose": False, **options},
        )


def _float(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(7))


def _tokens(limit: int, *shape: int) -> torch.Tensor:
    return torch.randint(0, limit, shape, generator=torch.Generator().manual_seed(7))


def _resnet(path: Path) -> None:
    module = seeded("dynamo_resnet", torch_networks.ResNet)
    _write(path, module, [_float(2, 3, 32, 32)], 18, [{0: BATCH}])


def _unet(path: Path) -> None:
    module = seeded("dynamo_unet", torch_networks.UNet)
    _write(path, module, [_float(2, 1, 32, 32)], 20, [{0: BATCH}])


def _external(path: Path) -> None:
    module = seeded("dynamo_mobilenet", torch_networks.MobileNet)
    _write(path, module, [_float(2, 3, 32, 32)], 18, external_data=True)


def _encoder(path: Path) -> None:
    module = seeded("dynamo_encoder", torch_attention.Encoder)
    both = {0: BATCH, 1: SEQUENCE}
    args = [_tokens(96, 2, 10), _tokens(2, 2, 10), _tokens(2, 2, 10)]
    _write(path, module, args, 20, [both, both, both])


def _decoder(path: Path) -> None:
    module = seeded("dynamo_decoder", torch_attention.CausalDecoder)
    _write(path, module, [_tokens(96, 2, 10)], 21, [{0: BATCH, 1: SEQUENCE}])


def _translator(path: Path) -> None:
    module = seeded("dynamo_translator", torch_attention.Translator)
    _write(path, module, [_float(2, 7, 32), _float(2, 5, 32)], 18)


def _vit(path: Path) -> None:
    module = seeded("dynamo_vit", torch_attention.VisionTransformer)
    _write(path, module, [_float(2, 3, 32, 32)], 18, [{0: BATCH}])


def _rotary(path: Path) -> None:
    module = seeded("dynamo_rotary", torch_attention.RotaryDecoder)
    past = Dim("past", min=2, max=40)
    cache = {0: BATCH, 2: past}
    args = [_tokens(96, 2, 4), _float(2, 2, 6, 8), _float(2, 2, 6, 8)]
    _write(path, module, args, 23, [{0: BATCH}, cache, cache])


def _graph_network(path: Path) -> None:
    module = seeded("dynamo_graph", torch_networks.GraphNetwork)
    nodes, edges = Dim("nodes", min=2, max=99), Dim("edges", min=2, max=999)
    _write(path, module, [_float(7, 6), _tokens(7, 2, 12)], 18, [{0: nodes}, {1: edges}])


def _rnn(path: Path) -> None:
    module = seeded("dynamo_rnn", torch_networks.BidirectionalRnn)
    _write(path, module, [_float(2, 6, 8)], 18)


def _lstm(path: Path) -> None:
    module = seeded("dynamo_lstm", torch_networks.LanguageLstm)
    _write(path, module, [_tokens(64, 2, 5), _float(2, 2, 32), _float(2, 2, 32)], 18)


def _cond(path: Path) -> None:
    module = seeded("dynamo_cond", torch_programs.ConditionalExpert)
    _write(path, module, [_float(3, 8)], 18)


def _mixture(path: Path) -> None:
    module = seeded("dynamo_mixture", torch_programs.Mixture)
    _write(path, module, [_float(5, 8)], 18)


def _spectral(path: Path) -> None:
    module = seeded("dynamo_spectral", torch_programs.SpectralMixer)
    _write(path, module, [_float(2, 16, 6)], 20, [{0: BATCH}])


def _matrix_mel(path: Path) -> None:
    module = seeded("dynamo_matrix_mel", torch_programs.MatrixMelFrontEnd)
    _write(path, module, [_float(1, 640)], 18)


def _bfloat16(path: Path) -> None:
    module = seeded("dynamo_bfloat16", torch_programs.HalfWeights)
    _write(path, module, [_float(5, 8)], 18)


def _half(path: Path) -> None:
    module = seeded("dynamo_half", torch_attention.VisionTransformer).half()
    _write(path, module, [_float(1, 3, 32, 32).half()], 18)


def _recurrence(path: Path) -> None:
    module = seeded("dynamo_scan", torch_programs.ScannedRecurrence)
    _write(path, module, [_float(6, 2, 8), _float(2, 8)], 18)


def exports() -> list[Export]:
    """All models of this exporter."""
    return [
        Export("dynamo_resnet_opset18", "residual network with free batch", _resnet, {"batch": 2}),
        Export("dynamo_unet_opset20", "U-Net with GroupNormalization and Resize", _unet,
               {"batch": 1}),
        Export("dynamo_external_data", "depthwise blocks, weights in a second file", _external),
        Export("dynamo_encoder_opset20", "BERT-like encoder with free batch and sequence",
               _encoder, {"batch": 2, "sequence": 9}),
        Export("dynamo_decoder_opset21", "causal decoder with tied weights", _decoder,
               {"batch": 2, "sequence": 8}),
        Export("dynamo_translator_opset18", "torch's encoder-decoder transformer", _translator),
        Export("dynamo_vit_opset18", "vision transformer with free batch", _vit, {"batch": 2}),
        Export("dynamo_rotary_cache_opset23",
               "Llama-like step with rotary positions and a cache", _rotary,
               {"batch": 2, "past": 5}),
        Export("dynamo_graph_network_opset18", "message passing with scatter-add",
               _graph_network, {"nodes": 6, "edges": 9}, target="mcm4"),
        Export("dynamo_rnn_opset18", "plain RNN in both directions", _rnn, target="mcm4"),
        Export("dynamo_lstm_opset18", "LSTM language model", _lstm),
        Export("dynamo_cond_opset18", "torch.cond as If", _cond, target="mcm4"),
        Export("dynamo_scan_opset18", "torch's scan over time", _recurrence, target="mcm4"),
        Export("dynamo_mixture_opset18", "mixture of experts with TopK and Einsum", _mixture,
               target="mcm4"),
        Export("dynamo_spectral_opset20", "filter in the Fourier domain with DFT", _spectral,
               {"batch": 2}, target="mcm4"),
        Export("dynamo_mel_opset18", "audio front end with the transform as a convolution",
               _matrix_mel, target="mcm4"),
        Export("dynamo_bfloat16_opset18", "weights in bfloat16, products in float32", _bfloat16,
               target="mcm4", equality="float16"),
        Export("dynamo_half_opset18", "vision transformer in float16", _half,
               equality="float16"),
    ]  # fmt: skip
