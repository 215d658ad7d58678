"""Floor 3: cards of datasets and checkpoints, rendered from a manifest. Knows schemas."""
