"""Formulas as MathML, written when the site is built: browsers draw it, nothing is downloaded."""

from docutils import nodes
from docutils.utils.math import MathError, latex2mathml
from sphinx.application import Sphinx
from sphinx.errors import SphinxError
from sphinx.util.typing import ExtensionMetadata
from sphinx.writers.html5 import HTML5Translator


def mathml(formula: str, *, block: bool) -> str:
    """The formula as a `<math>` element; what cannot be translated stops the build."""
    try:
        return latex2mathml.tex2mathml(formula, as_block=block)
    except MathError as error:
        raise SphinxError(f"the formula {formula!r} cannot be drawn: {error}") from None


def visit_inline(translator: HTML5Translator, node: nodes.math) -> None:
    """Write a formula that stands in a line."""
    translator.body.append(mathml(node.astext(), block=False))
    raise nodes.SkipNode


def visit_block(translator: HTML5Translator, node: nodes.math_block) -> None:
    """Write a formula on lines of its own."""
    formula = mathml(node.astext(), block=True)
    translator.body.append(f'<div class="formula">{formula}</div>\n')
    raise nodes.SkipNode


def setup(app: Sphinx) -> ExtensionMetadata:
    """Register the renderer under the name `mathml`."""
    app.add_html_math_renderer("mathml", (visit_inline, None), (visit_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
