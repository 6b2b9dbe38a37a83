"""Settings of the site: no network, every warning an error. `make docs`."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "_ext"))

from treefold import __version__

project = "treefold"
author = "The treefold developers"
copyright = author
release = version = __version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "mathml", "records"]
exclude_patterns = ["_build"]
html_theme = "furo"
html_title = "treefold"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_copyright = False

html_math_renderer = "mathml"
myst_enable_extensions = ["dollarmath", "attrs_inline"]
myst_heading_anchors = 3

# Docstrings put names and code between single backticks.
default_role = "code"
autodoc_default_options = {
    "members": True,
    "undoc-members": True,  # constants and fields, which their names and types explain
    "no-value": True,
    "show-inheritance": True,
}
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_preserve_defaults = True
python_use_unqualified_type_names = True
toc_object_entries_show_parents = "hide"

# Links into our own pages are checked; other people's pages are not asked for.
nitpicky = True
nitpick_ignore_regex = [
    ("py:.*", r"(torch|torch_geometric|jaxtyping|numpy|pyarrow|ray|collections|pathlib|abc)\..*"),
    ("py:.*", r"(contextlib|ssl)\..*"),
    ("py:.*", r"(Tensor|Tree|P|optional|TaskRunner|((list\[)?dict|tuple)\[str)"),
    # Inner types, which nobody makes by hand.
    ("py:.*", r"treefold\.(checkpoints\.Checkpoint|distributed\.\w+\.(Chunk|Targets))"),
    ("py:.*", r"treefold\.(saving\.Saved|fold\.plan\.TreeTables)|(treefold\..*)?LawWeights"),
    ("py:.*", r"treefold\.(aggr\.per_layer\.Model|aggr\.penalties\.Step|saving\.Model)"),
    ("py:.*", r"treefold\.operators\.engine\.opaque\.OpaqueFold"),
    ("py:.*", r"treefold\.lab\..*"),
]
