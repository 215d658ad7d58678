"""Everything about a recipe that can be known before a weight is loaded.

A check that cannot run is never silent: it is listed with what would make it run.
"""

from .checking import SAMPLE, Checked, Given, Skipped, check, refuse

__all__ = ["SAMPLE", "Checked", "Given", "Skipped", "check", "refuse"]
