"""Pages for a browser. Nothing in them runs, and nothing is loaded from elsewhere."""
