"""Trains, evaluates and merges checkpoints as recipes declare."""
