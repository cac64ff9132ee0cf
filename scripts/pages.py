#!/usr/bin/env python3
"""Writes the code of Snippets/ into the pages, and checks the pages.

    scripts/pages.py             writes each code block that names a snippet
    scripts/pages.py --check     writes nothing; fails when a block differs from its snippet, when a Swift block names none, when
                                 a link leads to no file or no heading, or when a source names a page that does not exist

A block names its snippet in the line before it: `<!-- snippet: EchoBot -->` is the whole file, `<!-- snippet: EchoBot.received -->`
the lines between `// snippet.received` and `// snippet.end` in Snippets/EchoBot.swift. The pages are all Markdown files of the
repository, those in the documentation catalogs included. docs/reference/public-api.md is generated and holds no samples.
"""
import os
import re
import subprocess
import sys
import textwrap

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
GENERATED = "docs/reference/public-api.md"
MARKER = re.compile(r"^\s*// snippet\.(\w+)\s*$")
NAME = re.compile(r"^<!-- snippet: (\w+)(?:\.(\w+))? -->$")
# A block that is no Swift of a module, with the test that reads it.
MANIFEST = "<!-- manifest -->"
LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")
PAGE_IN_SOURCE = re.compile(r"(?<![\w/.])docs/[\w/-]+\.md")


def files(*patterns):
    listed = subprocess.check_output(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", *patterns], cwd=ROOT, text=True)
    return sorted(name for name in set(listed.split("\n")) if name and os.path.isfile(os.path.join(ROOT, name)))


def read(name):
    with open(os.path.join(ROOT, name), encoding="utf-8") as file:
        return file.read()


class Snippet:
    """A program of Snippets/: its whole text, and its named parts."""

    def __init__(self, name):
        self.whole, self.parts, part = [], {}, None
        for line in read(name).split("\n"):
            marker = MARKER.match(line)
            if marker:
                part = None if marker[1] == "end" else marker[1]
                if part:
                    self.parts[part] = []
                continue
            self.whole.append(line)
            if part:
                self.parts[part].append(line)

    def text(self, part):
        lines = self.parts.get(part) if part else self.whole
        return None if lines is None else textwrap.dedent("\n".join(lines)).strip("\n").split("\n")


class Pages:
    def __init__(self):
        self.faults = []
        self.snippets = {os.path.basename(name)[:-6]: Snippet(name) for name in files("Snippets/*.swift")}
        self.texts = {name: read(name) for name in files("*.md")}
        # As scripts/guide-articles.py names them.
        self.articles = {os.path.basename(name)[:-3].replace("-", "") for name in files("docs/guide/*.md")}

    def fault(self, name, line, text):
        self.faults.append(f"{name}:{line}: {text}")

    def filled(self, name):
        """The page with the blocks that its snippets say; what is wrong with its blocks goes to the faults."""
        lines, result, at = self.texts[name].split("\n"), [], 0
        while at < len(lines):
            line = lines[at]
            result.append(line)
            at += 1
            if not line.lstrip().startswith("```"):
                continue
            end = at
            while end < len(lines) and lines[end].strip() != "```":
                end += 1
            code = lines[at:end]
            before = result[-2] if len(result) > 1 else ""
            named = NAME.match(before)
            if named:
                snippet = self.snippets.get(named[1])
                text = snippet.text(named[2]) if snippet else None
                if text is None:
                    self.fault(name, at, f"no snippet {before[14:-4]}")
                elif text != code:
                    different = next((pair for pair in zip(code, text) if pair[0] != pair[1]), None)
                    detail = f": “{different[0].strip()}” is “{different[1].strip()}” there" if different else ": it ends elsewhere"
                    self.fault(name, at, f"the block differs from the snippet {before[14:-4]}{detail}")
                    code = text
            elif line.strip() == "```swift" and before != MANIFEST:
                self.fault(name, at, f"a Swift block without its snippet: {code[0] if code else ''}")
            result += code + lines[end:end + 1]
            at = end + 1
        return "\n".join(result)

    def anchors(self, name):
        """The headings of a page as GitHub names them."""
        found, code = set(), False
        for line in self.texts[name].split("\n"):
            code ^= line.startswith("```")
            heading = None if code else re.match(r"#+ (.*)", line)
            if heading:
                text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading[1]).strip().lower()
                slug = re.sub(r"[^\w\- ]", "", text).replace(" ", "-")
                number = 1
                unique = slug
                while unique in found:
                    unique, number = f"{slug}-{number}", number + 1
                found.add(unique)
        return found

    def check_links(self, name):
        code = False
        for number, line in enumerate(self.texts[name].split("\n"), 1):
            code ^= line.lstrip().startswith("```")
            for url in [] if code else LINK.findall(re.sub(r"`[^`]*`", "``", line)):
                if re.match(r"[a-z]+:", url):
                    continue
                if url.startswith("/documentation/guide/"):
                    if url.rsplit("/", 1)[1] not in self.articles:
                        self.fault(name, number, f"the link {url} leads to no page of the guide")
                    continue
                path, _, anchor = url.partition("#")
                target = os.path.normpath(os.path.join(os.path.dirname(name), path)) if path else name
                if not os.path.exists(os.path.join(ROOT, target)):
                    self.fault(name, number, f"the link {url} leads to no file")
                elif anchor and target.endswith(".md") and anchor not in self.anchors(target):
                    self.fault(name, number, f"the link {url} leads to no heading of {target}")

    def check_sources(self):
        for name in files("Sources", "Tests", "Snippets", "Benchmarks", "Fuzz", "scripts", "Makefile", "Package.swift", "*.md"):
            if name == GENERATED or name == "scripts/pages.py":
                continue
            try:
                text = read(name)
            except UnicodeDecodeError:
                continue
            for number, line in enumerate(text.split("\n"), 1):
                for page in PAGE_IN_SOURCE.findall(line):
                    if not os.path.exists(os.path.join(ROOT, page)):
                        self.fault(name, number, f"there is no page {page}")


def main():
    pages = Pages()
    for name in pages.texts:
        if name == GENERATED:
            continue
        text = pages.filled(name)
        if "--check" not in sys.argv and text != pages.texts[name]:
            with open(os.path.join(ROOT, name), "w", encoding="utf-8") as file:
                file.write(text)
            print(f"wrote {name}")
        pages.check_links(name)
    pages.check_sources()
    if "--check" not in sys.argv:
        pages.faults = [fault for fault in pages.faults if "differs from the snippet" not in fault]
    print("\n".join(pages.faults) or "The pages are right.")
    sys.exit(1 if pages.faults else 0)


main()
