"""Checks that links between the documents of this repository lead somewhere, headings included; prints those that don't and exits 1."""

import os
import re
import subprocess
import sys

LINK = re.compile(r"\]\(([^)\s]+)\)|^\[[^\]]+\]:\s*(\S+)", re.M)


def text_of(path):
    """A document without its code."""
    with open(path, encoding="utf-8") as file:
        return re.sub(r"^```.*?^```", "", file.read(), flags=re.S | re.M)


def anchors(path):
    """What a document's headings are called in links."""
    heads = re.findall(r"^#+ (.*)$", text_of(path), re.M)
    return {re.sub(r"[^\w\- ]", "", head.strip().lower()).replace(" ", "-") for head in heads}


def main():
    """Prints each link that leads nowhere."""
    listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", "*.md"]
    names = subprocess.run(listed, check=True, capture_output=True, text=True).stdout
    documents = [name for name in names.split("\0") if os.path.exists(name)]
    seen = wrong = 0
    for document in documents:
        for link in (one or other for one, other in LINK.findall(text_of(document))):
            if re.match(r"[a-z]+:", link):
                continue
            seen += 1
            place, _, anchor = link.partition("#")
            path = os.path.normpath(os.path.join(os.path.dirname(document), place)) if place else document
            if not os.path.exists(path) or (anchor and path.endswith(".md") and anchor not in anchors(path)):
                wrong += 1
                print(f"{document}: {link} leads nowhere")
    return 1 if wrong or seen < 50 else 0


sys.exit(main())
