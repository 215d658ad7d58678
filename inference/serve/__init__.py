"""`arm serve`: a checkpoint behind HTTP, for agents in any language."""
