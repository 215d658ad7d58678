"""The Hub's API: what clients call."""
