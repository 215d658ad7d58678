"""Floor 3: one file per table, importers, splits, pair rules and the runner. Knows schemas and prompts."""
