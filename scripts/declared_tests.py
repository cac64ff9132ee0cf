"""The tests in the sources: their suites, and the engines on which these promise to run (`.engines`, Tests/TestSupport/TestEngine.swift)."""
import collections
import glob
import os
import re

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
ENGINES = {"sqlite": "sqlite", "postgres": "postgres", "postgresTwice": "postgres-twice"}
# Traits of a single test that leave engines out of those of its suite.
LEFT_OUT = {
    "sqliteOnly": {"postgres", "postgres-twice"},
    "effectsInMemory": {"postgres", "postgres-twice"},
    "countsInMemory": {"postgres-twice"},
}
TYPE = re.compile(r"^(\s*)(?:(?:package|public|private|fileprivate|final|@\w+(?:\(.*\))?)\s+)*(?:struct|enum|class|actor|extension)\s+([\w.]+)")

# `place` is "module/file.swift:line" of the attribute, as in the id of a test; `suite` has the names of the types around it.
Test = collections.namedtuple("Test", "place suite engines")


def source_files():
    for path in sorted(glob.glob(os.path.join(ROOT, "Tests", "**", "*.swift"), recursive=True)):
        yield os.path.relpath(path, os.path.join(ROOT, "Tests")).split(os.sep)[0], path
    for path in sorted(glob.glob(os.path.join(ROOT, "Fuzz", "Sources", "Replay", "*.swift"))):
        yield "FuzzTests", path


def attribute(lines, index):
    """The text from an attribute to the declaration that it belongs to."""
    text = []
    for line in lines[index:index + 40]:
        text.append(line)
        if re.search(r"\b(func|struct|enum|class|actor)\s+\w", line.split("//")[0]):
            break
    return " ".join(text)


def engines_of(text):
    found = re.search(r"\.engines\(([^)]*)\)", text)
    return {ENGINES[name] for name in re.findall(r"\.(\w+)", found.group(1))} if found else None


def all_tests():
    """Every test of the package."""
    found, promised = [], {}
    for module, path in source_files():
        lines = open(path, encoding="utf-8").read().split("\n")
        around = []
        for index, line in enumerate(lines):
            stripped = line.lstrip()
            indent = len(line) - len(stripped)
            if stripped.startswith("@Suite"):
                text = attribute(lines, index)
                name = re.search(r"\b(?:struct|enum|class|actor)\s+(\w+)", text)
                engines = engines_of(text)
                if name and engines:
                    promised[(module, name.group(1))] = engines
            kind = TYPE.match(line)
            if kind and stripped:
                while around and around[-1][0] >= indent:
                    around.pop()
                around.append((indent, kind.group(2)))
            if re.match(r"@Test\b", stripped):
                suite = ".".join(name for depth, name in around if depth < indent)
                left_out = set().union(*(LEFT_OUT[name] for name in LEFT_OUT if f".{name}" in attribute(lines, index)))
                found.append((f"{module}/{os.path.basename(path)}:{index + 1}", module, suite, left_out))
    tests = []
    for place, module, suite, left_out in found:
        engines = next((promised[(module, name)] for name in suite.split(".") if (module, name) in promised), {"sqlite"})
        tests.append(Test(place, f"{module}.{suite}", frozenset(engines - left_out)))
    return tests


def suites_on(engine):
    """The outermost suites that promise to run on that engine, as a regular expression for --filter."""
    return pattern({".".join(test.suite.split(".")[:2]) for test in all_tests() if engine in test.engines})


def suites_with(trait):
    """The suites with a trait, as a regular expression for --filter."""
    names = set()
    for module, path in source_files():
        lines = open(path, encoding="utf-8").read().split("\n")
        for index, line in enumerate(lines):
            text = attribute(lines, index) if line.startswith("@Suite") else ""
            if re.search(rf"\.{trait}\b", text):
                names.add(f"{module}." + re.search(r"\b(?:struct|enum|class|actor)\s+(\w+)", text).group(1))
    return pattern(names)


def pattern(suites):
    return "^(" + "|".join(re.escape(name) for name in sorted(suites)) + ")[./]"
