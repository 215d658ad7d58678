"""Floor 3: dataset cards rendered from a manifest. Knows schemas."""
