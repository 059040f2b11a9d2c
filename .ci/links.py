"""Checks the links of the Markdown pages to each other: the file exists, and has the heading."""

import re
import subprocess
import sys
from pathlib import Path


def main():
    pages = subprocess.run(["git", "ls-files", "*.md"], check=True, stdout=subprocess.PIPE, text=True).stdout.split()
    links = [(Path(page), link) for page in pages for link in links_of(Path(page))]
    broken = [f"{page}: {link}" for page, link in links if not holds(page, link)]
    sys.exit("links that lead nowhere:\n" + "\n".join(broken) if broken else 0)


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
