"""Loads checkpoints of action reward models and runs them on states and candidates."""
