"""The cases that docs/format/foreign.md lists: what the tests leave out must be listed there, and what is listed must be so."""

import os
import re

from written import ROOT

with open(os.path.join(ROOT, "docs", "format", "foreign.md"), encoding="utf-8") as page:
    CASES = re.findall(r"^\| `([a-z0-9-]+)` \|", page.read(), re.M)


def excepted(case):
    """True, if the page lists this case."""
    if case not in CASES:
        raise AssertionError(f"docs/format/foreign.md does not list {case}")
    return True
