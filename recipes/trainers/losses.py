"""What a scalar model learns besides Bradley-Terry, which is TRL's own, as functions of its scores alone."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch.nn import functional as f


def soft_bradley_terry(chosen: torch.Tensor, rejected: torch.Tensor, margins: torch.Tensor, k: float) -> torch.Tensor:
    """Mean cross-entropy of sigmoid(chosen - rejected) against sigmoid(k * margin); all (B,), margins in [0, 1]."""
    return f.binary_cross_entropy_with_logits(chosen - rejected, torch.sigmoid(k * margins))


def listwise(scores: torch.Tensor, sizes: Sequence[int]) -> torch.Tensor:
    """Mean of -log softmax of the first score of each list. scores: (sum of sizes,), the chosen one of a list first."""
    parts = torch.split(scores, list(sizes))
    return torch.stack([torch.logsumexp(part, 0) - part[0] for part in parts]).mean()


def pointwise(scores: torch.Tensor, targets: torch.Tensor, delta: float) -> torch.Tensor:
    """Mean Huber loss of sigmoid(score) against the target in [0, 1]; both (B,)."""
    return f.huber_loss(torch.sigmoid(scores), targets, delta=delta)
