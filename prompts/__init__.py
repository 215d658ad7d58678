"""Floor 2: versioned prompts, the one renderer, the one reply parser. Knows schemas."""
