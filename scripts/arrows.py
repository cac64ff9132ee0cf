#!/usr/bin/env python3
"""Draws which target and which folder knows which into docs/internals/targets.md, and fails when a target knows one that stands behind it
in Package.swift, when folders of one target form a cycle, or when a target of the library calls the system past Platform.

    scripts/arrows.py             writes the page
    scripts/arrows.py --check     writes nothing; fails also when the page is not up to date

A folder knows another one when it names a type that is declared there. Comments and texts do not count, nor do the files that
stand beside the folders.
"""
import collections
import json
import os
import re
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PAGE = os.path.join(ROOT, "docs", "internals", "targets.md")
DECLARATION = re.compile(
    r"^(?:@\S+\s+)*(?:public |package |internal )?(?:final |indirect )*(?:struct|class|enum|protocol|actor|typealias) (\w+)", re.M)
# Platform, the command, and what starts and measures child processes. All of Foundation brings Glibc along; FoundationEssentials
# does not.
SYSTEM_CALLERS = ("Platform/", "PushwakeCommands/", "WorldCommands/", "pushwake/", "pushwake-omemo/", "TestServers/Processes/",
                  "Simulation/MemoryGroup", "Simulation/ProcessMemory")
SYSTEM_IMPORT = re.compile(r"^\s*(?:@\S+ +)*(?:\w+ +)*import +(?:\w+ +)?(Glibc|Musl|Darwin|Foundation|CPlatform)\b", re.M)
HEAD = """# Targets and folders

Drawn by `scripts/arrows.py`; `make check` fails when it is not up to date, when an arrow between targets points down, when
folders of one target form a cycle, or when a target of the library imports Glibc past Platform. An arrow says "knows".

"""


def targets():
    """The library's targets in the order of Package.swift, each with those that it depends on."""
    package = json.loads(subprocess.check_output(["swift", "package", "dump-package"], cwd=ROOT))
    own = [target for target in package["targets"] if os.path.isdir(os.path.join(ROOT, "Sources", target["name"]))]
    names = [target["name"] for target in own]
    needs = lambda target: [need["byName"][0] for need in target["dependencies"] if "byName" in need]
    return [(target["name"], sorted(set(needs(target)) & set(names), key=names.index)) for target in own]


def code(path):
    """A file's text without comments and literals."""
    text = re.sub(r'"""(?:.|\n)*?"""', '""', open(path, encoding="utf-8").read())
    return re.sub(r'"(?:[^"\\\n]|\\.)*"', '""', re.sub(r"//[^\n]*", "", text))


def folder_arrows(target):
    """For each folder of a target those that it knows, with a name that shows it."""
    base = os.path.join(ROOT, "Sources", target)
    files, homes = [], collections.defaultdict(set)
    for place, _, names in os.walk(base):
        inner = os.path.relpath(place, base).split(os.sep)[0]
        for name in sorted(names):
            if not name.endswith(".swift"):
                continue
            text = code(os.path.join(place, name))
            files.append((inner, text))
            for type in DECLARATION.findall(text):
                homes[type].add(inner)
    arrows = collections.defaultdict(dict)
    for folder, text in files:
        for name in sorted(set(re.findall(r"\b[A-Z]\w+\b", text))):
            home = homes.get(name, ())
            if len(home) == 1 and folder not in home | {"."} and home != {"."}:
                arrows[folder].setdefault(*home, name)
    return arrows


def system_imports(target):
    """The files of a target that call the system past Platform, each with the module that it imports."""
    for place, _, names in sorted(os.walk(os.path.join(ROOT, "Sources", target))):
        for name in sorted(names):
            path = os.path.join(place, name)
            place_in_sources = os.path.relpath(path, os.path.join(ROOT, "Sources"))
            if name.endswith(".swift") and not place_in_sources.startswith(SYSTEM_CALLERS):
                for module in SYSTEM_IMPORT.findall(code(path)):
                    yield os.path.relpath(path, ROOT), module


def cycle(arrows):
    """Some folders in a circle; none when there is none."""
    def walk(path):
        for next in arrows.get(path[-1], ()):
            if next in path:
                return path[path.index(next):] + [next]
            found = walk(path + [next])
            if found:
                return found
        return None
    return next(filter(None, (walk([folder]) for folder in sorted(arrows))), None)


def drawing(arrows):
    lines = [f"    {one} --> {other}" for one in arrows for other in arrows[one]]
    return "```mermaid\ngraph TD\n" + "\n".join(lines) + "\n```\n"


def main():
    faults = []
    page = HEAD
    known = targets()
    names = [name for name, _ in known]
    for name, needs in known:
        faults += [f"{name} depends on {need}, which stands behind it in Package.swift" for need in needs
                   if names.index(need) > names.index(name)]
    page += drawing({name: needs for name, needs in known})
    for name in names:
        faults += [f"{path} imports {module}; call what it needs through Platform, where a port looks for it"
                   for path, module in system_imports(name)]
        arrows = folder_arrows(name)
        circle = cycle(arrows)
        if circle:
            why = [f"{one} names {arrows[one][other]} of {other}" for one, other in zip(circle, circle[1:])]
            faults.append(f"folders of {name} form a cycle: " + ", ".join(why))
        if arrows:
            page += f"\n## {name}\n\n" + drawing({one: sorted(arrows[one]) for one in sorted(arrows)})
    if "--check" not in sys.argv:
        open(PAGE, "w", encoding="utf-8").write(page)
    elif not os.path.exists(PAGE) or open(PAGE, encoding="utf-8").read() != page:
        faults.append("docs/internals/targets.md is not up to date; run scripts/arrows.py")
    for fault in faults:
        print("arrows: " + fault, file=sys.stderr)
    sys.exit(1 if faults else 0)


main()
