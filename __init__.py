"""Declarative registry for the data and checkpoints of action reward models for web agents."""

__version__ = "0.1.0"
