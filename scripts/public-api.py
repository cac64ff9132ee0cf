#!/usr/bin/env python3
"""Prints the public declarations of the library products, from symbol graphs.

    scripts/public-api.py GRAPHS MODULE ... > docs/reference/public-api.md

GRAPHS is the folder that `swift package dump-symbol-graph` wrote. `make docs` runs this.
"""

import json
import pathlib
import re
import sys

# The measure of the redesign's goal, a quarter fewer than at commit fac550f for the same features; what NEWER names came after it.
PUBLIC = re.compile(r"^\s*(?:@\S+ )*public (?!import|extension)", re.M)
BASE = 1895
NEWER = {
    "Timestamps": "Timestamps", "Upload": "Upload", "keys and signals": "Handlers/Keys", "results and joins": "Handlers/Results",
    "calendars": "Handlers/Calendars", "lanes": "Handlers/Lanes", "chains": "Handlers/Chains", "workflows": "Handlers/Workflows",
    "hosts": "XMPPAccount/Host",
}

KINDS = {
    "Structure": "types", "Class": "types", "Enumeration": "types", "Protocol": "types", "Actor": "types",
    "Type Alias": "types", "Associated Type": "types", "Macro": "types", "Extended Structure": None,
    "Extended Class": None, "Extended Enumeration": None, "Extended Protocol": None, "Extended Module": None,
}


def declaration(symbol):
    """The declaration on one line, without attributes."""
    text = "".join(part["spelling"] for part in symbol.get("declarationFragments", []))
    words = [line.strip() for line in text.splitlines()]
    line = " ".join(words)
    while line.startswith("@"):
        line = line.split(" ", 1)[1]
    return line


def read(graphs, module):
    """The symbols of a module, and of what it adds to others, by the path of their type."""
    types, members, extended = {}, {}, {}
    for path in sorted(graphs.glob(f"{module}.symbols.json")) + sorted(graphs.glob(f"{module}@*.symbols.json")):
        other = path.name.removesuffix(".symbols.json").partition("@")[2]
        for symbol in json.loads(path.read_text())["symbols"]:
            kind = KINDS.get(symbol["kind"]["displayName"], "members")
            if kind is None:
                continue
            components = symbol["pathComponents"]
            if kind == "types" and not other:
                types[tuple(components)] = declaration(symbol)
            elif other:
                extended.setdefault(tuple(components[:-1]), set()).add(declaration(symbol))
            else:
                members.setdefault(tuple(components[:-1]), set()).add(declaration(symbol))
    return types, members, extended


def section(title, own, lines):
    print(f"\n### {title}\n\n```swift")
    if own:
        print(own)
    for line in sorted(lines):
        print(("    " if own else "") + line)
    print("```")


def lines(folder):
    """The number of lines of the sources in a folder that declare something public."""
    return sum(len(PUBLIC.findall(path.read_text())) for path in pathlib.Path("Sources", folder).rglob("*.swift"))


def measure(modules):
    newer = {name: lines(folder) for name, folder in NEWER.items()}
    count = sum(lines(module) for module in modules) - sum(newer.values())
    newer = ", ".join(f"{count} of {name}" for name, count in newer.items())
    print(f"""
## Size

A line of the sources counts if it starts with `public`, attributes aside, and is neither an import nor an extension.

| | Lines |
|---|---|
| At commit `fac550f` | {BASE:,} |
| Now, for the same features | {count:,} ({(BASE - count) * 100 / BASE:.1f} % fewer) |
| New features since | {newer} |""")


def main():
    graphs, modules = pathlib.Path(sys.argv[1]), sys.argv[2:]
    surfaces = {module: read(graphs, module) for module in modules}
    print("# Public declarations\n")
    print("`make docs` writes this page from the compiler's symbol graphs. A change of it is a change of the API.\n")
    print("| Module | Types | Members |\n|---|---|---|")
    totals = [0, 0]
    for module, (types, members, extended) in surfaces.items():
        count = sum(map(len, members.values())) + sum(map(len, extended.values()))
        totals = [totals[0] + len(types), totals[1] + count]
        print(f"| [{module}](#{module.lower()}) | {len(types)} | {count} |")
    print(f"| all | {totals[0]} | {totals[1]} |")
    measure(modules)
    for module, (types, members, extended) in surfaces.items():
        print(f"\n## {module}")
        for path in sorted(types):
            section(".".join(path), types[path], members.get(path, ()))
        for path in sorted(set(members) - set(types)):
            section(".".join(path) or "Functions", None, members[path])
        for path in sorted(extended):
            section(f"{'.'.join(path)} (of another module)", None, extended[path])


main()
