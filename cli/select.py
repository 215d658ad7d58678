"""``arm select``: placeholder, replaced at once."""
