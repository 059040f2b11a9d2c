"""Checks the Markdown pages: where their links lead, that docs/README.md lists each, and how long the front page is."""

import re
import subprocess
import sys
from pathlib import Path

INDEX = Path("docs/README.md")
# Words that people read on the front page.
WORDS_OF_README = 1_100


def main():
    listed = subprocess.run(["git", "ls-files", "*.md"], check=True, stdout=subprocess.PIPE, text=True).stdout
    pages = [Path(page) for page in listed.split()]
    links = [(page, link) for page in pages for link in links_of(page)]
    faults = [f"{page}: {link} leads nowhere" for page, link in links if not holds(page, link)]
    indexed = {(INDEX.parent / link.partition("#")[0]).resolve() for link in links_of(INDEX)}
    missing = {page for page in pages if page.parts[0] == "docs" and page != INDEX and page.resolve() not in indexed}
    faults += [f"{INDEX} does not list {page}" for page in sorted(missing)]
    words = words_of(Path("README.md"))
    if words > WORDS_OF_README:
        faults.append(f"README.md has {words} words, {WORDS_OF_README} at most")
    sys.exit("\n".join(faults) or 0)


def words_of(page):
    """Returns how many words a page has, with those in tables and code; numbers and signs are none."""
    return sum(1 for word in page.read_text().split() if re.search("[A-Za-z]", word))


def links_of(page):
    """Returns where a page links to within the repository."""
    links = re.findall(r"\]\(\s*([^)\s]+)\s*\)", without_code(page))
    return [link for link in links if not re.match(r"https?:|mailto:", link)]


def holds(page, link):
    path, _, anchor = link.partition("#")
    target = page.parent / path if path else page
    return target.exists() and (not anchor or target.suffix != ".md" or anchor in anchors(target))


def anchors(page):
    """Returns the anchors that GitHub gives to a page's headings, and those that it names itself."""
    found = re.findall(r'<a id="([^"]+)">', without_code(page))
    for heading in re.findall(r"^#+ (.*)", without_code(page), re.MULTILINE):
        text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).strip().lower()
        anchor = re.sub(r"[^\w\- ]", "", text).replace(" ", "-")
        found.append(f"{anchor}-{found.count(anchor)}" if anchor in found else anchor)
    return found


def without_code(page):
    return re.sub(r"^```.*?^```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)


if __name__ == "__main__":
    main()
