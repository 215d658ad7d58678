"""``arm score``: placeholder, replaced at once."""
