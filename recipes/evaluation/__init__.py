"""Measures checkpoints on candidate sets with a reference, beside baselines on the same sets."""
