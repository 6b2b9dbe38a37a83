"""Links of README and CONTRIBUTING into a page lead to one of its headings.

Those of the other pages are checked when the site is built.
"""

import re
from collections import Counter
from pathlib import Path

import pytest
from documents.pages import ROOT, name_of


def outside_code(text: str) -> str:
    """The text without its fenced blocks, where a hash is a comment."""
    return re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)


def anchors_of(page: Path) -> set[str]:
    """Anchors that links to the page may have: headings, as GitHub names them, and ids."""
    text = outside_code(page.read_text())
    seen: Counter[str] = Counter()
    found = set(re.findall(r'id="([^"]+)"', text))
    for heading in re.findall(r"^#{1,6} +(.+?) *#*$", text, re.MULTILINE):
        shown = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
        slug = re.sub(r"[^\w\- ]", "", shown.lower()).replace(" ", "-")
        found.add(f"{slug}-{seen[slug]}" if seen[slug] else slug)
        seen[slug] += 1
    return found


def dead_anchors(page: Path) -> list[str]:
    """The links of a page whose file, or whose place in it, is not there."""
    dead = []
    for link in re.findall(r"\]\(([^)\s]+)\)", outside_code(page.read_text())):
        name, _, anchor = link.partition("#")
        target = page.parent / name if name else page
        if "://" in link:
            continue
        if not target.exists() or (anchor and anchor not in anchors_of(target)):
            dead.append(link)
    return dead


@pytest.mark.parametrize("page", [ROOT / "README.md", ROOT / "CONTRIBUTING.md"], ids=name_of)
def test_every_link_into_a_page_leads_to_a_heading(page):
    assert dead_anchors(page) == []


def test_the_readme_has_such_links():
    assert "](docs/idea.md#" in (ROOT / "README.md").read_text()


def test_a_link_to_no_heading_would_be_found(tmp_path):
    other, page = tmp_path / "other.md", tmp_path / "page.md"
    other.write_text(
        "# A `first` part, [linked](x.md)\n\n## Twice\n\n## Twice\n\n```sh\n# not one\n```\n"
        '<a id="by-hand"></a>\n'
    )
    assert anchors_of(other) == {"a-first-part-linked", "twice", "twice-1", "by-hand"}
    page.write_text(
        "# Here\n\n[1](#here) [2](other.md#twice-1) [3](other.md#by-hand) [4](https://a.b/#c)\n"
        "[5](#there) [6](other.md#not-one) [7](other.md#Twice) [8](no.md) [9](no.md#here)\n"
    )
    expected = ["#there", "other.md#not-one", "other.md#Twice", "no.md", "no.md#here"]
    assert dead_anchors(page) == expected
