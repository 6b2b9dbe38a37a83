"""How graphs are divided, wherever they come from."""

SPLITS = ("train", "val", "test")
"""By name, in the order in which files and tuples have them."""
