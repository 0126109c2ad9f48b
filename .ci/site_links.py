"""For `make site`: links of pages that lead out of docs/ become links into the repository, where those files are read.

In: a page's Markdown. Out: the same, with such links rewritten; a link to nothing is left as it is, and is an error.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parents[1] / "docs"
_LINK = re.compile(r"(?<=\]\()(\.\./[^)#\s]+)((?:#[^)]*)?)(?=\))")


def on_page_markdown(markdown: str, *, page: Any, config: Any, files: Any) -> str:
    """The page with its links as the site needs them."""
    here = (DOCS / page.file.src_uri).parent

    def led(link: re.Match[str]) -> str:
        goal = (here / link[1]).resolve()
        if DOCS in goal.parents or not goal.exists():
            return link[0]
        return f"{config['repo_url']}/blob/main/{goal.relative_to(DOCS.parent).as_posix()}{link[2]}"

    return _LINK.sub(led, markdown)
