"""Xet storage: chunks that clients send once, files rebuilt from them."""
