"""The head of a scalar model in a file of its own: one weight for each value of the last hidden state.

``value_head.safetensors`` holds ``v_head.summary.weight`` (1, hidden) and ``v_head.summary.bias`` (1,), which is 0: as
TRL's AutoModelForCausalLMWithValueHead and LLaMA-Factory name them. A bias would move every score by the same number,
which changes no comparison, and the heads of transformers have none.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ..schemas.errors import ArmError

if TYPE_CHECKING:
    import torch

FILE = "value_head.safetensors"
WEIGHT, BIAS = "v_head.summary.weight", "v_head.summary.bias"
IN_ADAPTER = "base_model.model.score.weight"  # where peft keeps the same of a ...ForSequenceClassification


def write(path: Path, weight: torch.Tensor) -> None:
    """Write the head ``weight`` (1, hidden) as float32, with a bias of 0."""
    import torch
    from safetensors.torch import save_file

    kept = weight.detach().to("cpu", torch.float32).contiguous()
    save_file({WEIGHT: kept, BIAS: torch.zeros(1)}, str(path), metadata={"format": "pt"})


def weight_of(path: Path, width: int) -> torch.Tensor:
    """The weight (1, ``width``) in ``path``. Raises ArmError when it is missing, of another shape or not finite, and
    for a bias that is not 0."""
    found = tensors(path)
    weight = fitting(found.get(WEIGHT), width, f"{path} {WEIGHT}")
    if BIAS in found and found[BIAS].any():
        raise ArmError(
            f"is {float(found[BIAS].flatten()[0]):g}, and a head of this layout has none", where=f"{path} {BIAS}"
        )
    return weight


def refuse_other(adapter: Path, file: Path, width: int) -> None:
    """Raise ArmError, naming both, when the adapter's head is not that in its own file."""
    import torch

    inside = fitting(tensors(adapter).get(IN_ADAPTER), width, f"{adapter} {IN_ADAPTER}")
    outside = weight_of(file, width)
    if not torch.equal(inside, outside):
        apart = float((inside - outside).abs().max())
        raise ArmError(
            f"differs by up to {apart:g} from {WEIGHT} in {file}; a checkpoint has one head",
            where=f"{adapter} {IN_ADAPTER}",
        )


def fitting(weight: torch.Tensor | None, width: int, where: str) -> torch.Tensor:
    """``weight`` as float32 when it is a head for hidden states of ``width`` values, else ArmError."""
    import torch

    if weight is None:
        raise ArmError("the head is missing: scores would be drawn by chance", where=where)
    if tuple(weight.shape) != (1, width):
        raise ArmError(f"has the shape {tuple(weight.shape)}, and the model needs (1, {width})", where=where)
    if not torch.isfinite(weight).all():
        raise ArmError("holds numbers that are not finite", where=where)
    return weight.to(torch.float32)


def tensors(path: Path) -> dict[str, torch.Tensor]:
    """What a safetensors file holds. Raises ArmError when it is missing or none."""
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        found: dict[str, torch.Tensor] = load_file(str(path))
    except FileNotFoundError as error:
        raise ArmError("is missing", where=str(path)) from error
    except (SafetensorError, OSError) as error:
        raise ArmError(f"is no safetensors file: {error}", where=str(path)) from error
    return found
