"""Floor 1: record schemas, validation, Arrow types, ids and digests, images, actions. Knows nothing of ours."""
