"""The tables that `treefold report` writes, as a page of the site: anchors in the site's words."""

import re

from sphinx.application import Sphinx
from sphinx.util.typing import ExtensionMetadata

PAGE = "results/table"


def with_targets(text: str) -> str:
    """`<a id="x"></a>` as a target that links of the page can be checked against."""
    return re.sub(r'<a id="([\w-]+)"></a>([^:]*):', r"[\2]{#\1}:", text)


def read(_app: Sphinx, page: str, source: list[str]) -> None:
    """Change that page as it is read, and no other."""
    if page == PAGE:
        source[0] = with_targets(source[0])


def setup(app: Sphinx) -> ExtensionMetadata:
    """Look at every page as it is read."""
    app.connect("source-read", read)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
