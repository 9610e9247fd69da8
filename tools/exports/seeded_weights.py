"""Random weights for torch modules, the same in every run.

The default initialisation leaves normalisations at one and many biases at zero, where a wrong
split would go unnoticed.
"""

# The exporters need not be installed where the project is checked.
# pyright: basic, reportMissingImports=false
from __future__ import annotations

import zlib
from typing import TypeVar

import torch

Module = TypeVar("Module", bound=torch.nn.Module)


def seeded(name: str, make: type[Module], *args: object) -> Module:
    """A module in inference mode whose weights and statistics depend on `name` alone."""
    generator = torch.Generator().manual_seed(zlib.crc32(name.encode()))
    torch.manual_seed(0)
    module = make(*args).eval()
    with torch.no_grad():
        for key, tensor in [*module.named_parameters(), *module.named_buffers()]:
            if not tensor.is_floating_point() or key.endswith("fixed"):
                continue
            noise = torch.randn(tensor.shape, generator=generator)
            if key.endswith("running_var"):
                tensor.copy_(0.5 + noise.abs())
            elif tensor.ndim < 2:
                tensor.copy_(tensor.mean() + 0.1 * noise)
            else:
                fan_in = tensor[0].numel()
                tensor.copy_(noise / fan_in**0.5)
    return module
