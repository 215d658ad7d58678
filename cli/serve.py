"""``arm serve``: placeholder, replaced at once."""
