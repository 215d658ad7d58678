"""Xorbs: containers of chunks that Xet clients upload, and which repositories received them."""

from __future__ import annotations

SCHEMA = ""
