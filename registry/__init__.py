"""Floor 5: registry.yaml, sources, staleness; ties the rooms below together."""
