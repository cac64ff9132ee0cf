#!/usr/bin/env python3
"""Turns the pages of docs/guide into the articles of a documentation catalog: scripts/guide-articles.py FOLDER.

The pages are the only source. Links between them become DocC links, pictures become resources, and a link to a file that the
documentation does not contain becomes its text with the file's path.
"""
import os
import re
import shutil
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
GUIDE = os.path.join(ROOT, "docs", "guide")
# The reading order: that of the table in README.md.
ROOT_PAGE = "README.md"


def article(name):
    return "Guide" if name == ROOT_PAGE else "".join(part.capitalize() for part in name[:-3].split("-"))


def link(match, page, folder):
    picture, text, url = match[1], match[2], match[3]
    if re.match(r"[a-z]+:", url):
        return match[0]
    path, _, anchor = url.partition("#")
    target = os.path.normpath(os.path.join("docs/guide", path)) if path else f"docs/guide/{page}"
    if picture:
        shutil.copy(os.path.join(ROOT, target), folder)
        return f"![{text}]({os.path.basename(target)})"
    if os.path.dirname(target) == "docs/guide" and target.endswith(".md"):
        heading = headings(os.path.basename(target)).get(anchor)
        name = article(os.path.basename(target))
        return f"[{text}](<doc:{name}{'#' + heading if heading else ''}>)"
    return text if target in text else f"{text} (`{target}`)"


def headings(page):
    """DocC's names of a page's headings, by GitHub's."""
    found = {}
    with open(os.path.join(GUIDE, page), encoding="utf-8") as file:
        for line in file:
            heading = re.match(r"##+ (.*)", line)
            if heading:
                slug = re.sub(r"[^\w\- ]", "", heading[1].lower()).replace(" ", "-")
                found[slug] = re.sub(r"[^\w\-]", "", heading[1].replace(" ", "-"))
    return found


def convert(page, folder):
    with open(os.path.join(GUIDE, page), encoding="utf-8") as file:
        text = file.read()
    pieces = re.split(r"(^```.*?^```$)", text, flags=re.M | re.S)
    for at in range(0, len(pieces), 2):
        piece = re.sub(r"^<!-- .*? -->\n", "", pieces[at], flags=re.M)
        piece = re.sub(r"(!?)\[([^\]]*)\]\(([^)\s]+)\)", lambda match: link(match, page, folder), piece)
        pieces[at] = piece
    text = "".join(pieces)
    if page == ROOT_PAGE:
        order = re.findall(r"^\| \[[^\]]*\]\(([\w-]+\.md)\)", open(os.path.join(GUIDE, page), encoding="utf-8").read(), flags=re.M)
        text = text.replace("\n\n", "\n\n@Metadata {\n    @TechnologyRoot\n}\n\n", 1)
        text += "\n## Topics\n\n### Pages in reading order\n\n" + "".join(f"- <doc:{article(name)}>\n" for name in order)
    with open(os.path.join(folder, article(page) + ".md"), "w", encoding="utf-8") as file:
        file.write(text)


def main():
    folder = sys.argv[1]
    os.makedirs(folder, exist_ok=True)
    for page in sorted(os.listdir(GUIDE)):
        if page.endswith(".md"):
            convert(page, folder)


main()
