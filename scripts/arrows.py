#!/usr/bin/env python3
"""Draws which target and which folder knows which into docs/internals/targets.md, and fails when a target knows one that stands behind it
in Package.swift, when folders of one target form a cycle that is not listed in docs/internals/tidy.md, or when a target of the library
calls the system past Platform.

    scripts/arrows.py                 writes the page
    scripts/arrows.py --check         writes nothing; fails also when the page is not up to date
    scripts/arrows.py --why A B       prints what the folder A names of the folder B: Handlers/Store Handlers/Lanes
    scripts/arrows.py --self-test     tries the rules on small sources

A folder knows another one when it names what is declared there: a type, also a nested one; a member of a type, also of an extension; a
function. What a name means is decided by the scopes, the types that are written beside variables, and the labels of a call. A name that
could mean a declaration of a third folder makes no arrow, and neither do the files that stand beside the folders.
"""
import collections
import os
import re
import sys

import swift_source
import tidy
from swift_source import TYPES, called_with, fits, is_name

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PAGE = os.path.join(ROOT, "docs", "internals", "targets.md")
# Platform, the command, and what starts and measures child processes. All of Foundation brings Glibc along; FoundationEssentials
# does not, and where there is none (Darwin) Foundation stands for it.
SYSTEM_CALLERS = ("Platform/", "PushwakeCommands/", "WorldCommands/", "pushwake/", "DashboardServer/", "pushwake-dashboard/", "pushwake-omemo/", "TestServers/Processes/",
                  "Simulation/MemoryGroup", "Simulation/ProcessMemory")
SYSTEM = {"Glibc", "Musl", "Darwin", "Foundation", "CPlatform"}
# Names of the standard library that own types have, too: on a value of unknown type they say nothing.
STANDARD = set("""
    append prefix suffix first last count isEmpty map flatMap compactMap filter reduce forEach contains sorted sort reversed reverse min
    max remove removeAll removeFirst removeLast removeValue insert index indices startIndex endIndex enumerated joined split dropFirst
    dropLast keys values key value mapValues description debugDescription hash hashValue rawValue bytes utf8 unicodeScalars next
    makeIterator withLock load store exchange wait signal start stop cancel close open read write finish yield resume run result get set
    isCancelled id name text data state error code message now seconds components zero one lowercased uppercased hasPrefix hasSuffix
    starts base string element elements span update merge union subtract intersection formUnion isSubset offset distance advanced
    magnitude isMultiple bitPattern trailingZeroBitCount leadingZeroBitCount nonzeroBitCount rounded isNaN isFinite allSatisfy
    elementsEqual lexicographicallyPrecedes swapAt popLast popFirst reserveCapacity capacity withUnsafeBytes withUnsafeBufferPointer
    withUnsafeMutableBytes baseAddress pointee initialize deinitialize deallocate allocate bindMemory size stride alignment flush content
    publisher path output version matches firstMatch wholeMatch prefixMatch replacing trimmingPrefix ranges range lowerBound upperBound
    clamped isContiguous encode decode encodeNil decodeNil container singleValueContainer unkeyedContainer userInfo codingPath intValue
    stringValue isAtEnd currentIndex allKeys node argument arguments syntax trimmed leadingTrivia trailingTrivia
""".split())
HEAD = """# Targets and folders

Drawn by `scripts/arrows.py`; `make check` fails when it is not up to date, when an arrow between targets points down, when
folders of one target form a cycle that [the list of what is not tidy yet](tidy.md) does not name, or when a target of the library
imports Glibc or Darwin past Platform. An arrow says "knows": it names a type, a nested type, a member or a function that is declared
there. `scripts/arrows.py --why Handlers/Store Handlers/Lanes` prints the names of one arrow.

"""


def targets():
    """The library's targets in the order of Package.swift, each with those that it depends on."""
    source = swift_source.read("Package.swift", os.path.join(ROOT, "Package.swift"))
    tokens, needs = source.tokens, {}
    for index, token in enumerate(tokens):
        if token in ("target", "executableTarget", "macro") and tokens[index - 1:index + 4] == [".", token, "(", "name", ":"]:
            name, end = tokens[index + 4][1:], source.match[index + 1]
            named = []
            for at in range(index + 5, end):
                if tokens[at:at + 3] == ["dependencies", ":", "["]:
                    named = [tokens[one][1:] for one in range(at + 3, source.match[at + 2]) if tokens[one][0] == '"']
                    break
            if name not in needs and os.path.isdir(os.path.join(ROOT, "Sources", name)):
                needs[name] = named
        elif token == "systemLibrary":
            needs.setdefault(tokens[index + 4][1:], [])
    names = list(needs)
    return [(name, sorted(set(needs[name]) & set(names), key=names.index)) for name in names]


class Library:
    """All declarations of some targets, and what their names mean."""

    def __init__(self):
        self.files = collections.defaultdict(list)
        self.members = collections.defaultdict(lambda: collections.defaultdict(list))
        self.named, self.types, self.free = (collections.defaultdict(list) for _ in range(3))
        self.supers = collections.defaultdict(set)
        self.needs, self.visible_targets = {}, {}

    def add(self, target, folder, source):
        source.target, source.folder, tokens = target, folder, source.tokens
        # Among them are the members of tuples, which are declared nowhere else.
        source.labels = {tokens[index - 1] for index in range(2, len(tokens)) if tokens[index] == ":" and tokens[index - 2] in ("(", ",")}
        self.files[target].append(source)
        for one in source.declarations:
            if one.kind in TYPES:
                self.supers[one.full].update(one.inherits)
            if one.kind == "extension" or one.local and one.kind not in TYPES:
                continue
            if one.kind in TYPES or one.kind in ("typealias", "associatedtype"):
                self.types[one.full].append(one)
            if one.path:
                self.members[one.path][one.name].append(one)
                self.named[one.name].append(one)
            elif one.kind not in TYPES:
                self.free[one.name].append(one)

    def visible(self, target):
        """The target and all that it depends on."""
        found = self.visible_targets.get(target)
        if found is None:
            found, waiting = {target}, list(self.needs.get(target, ()))
            while waiting:
                one = waiting.pop()
                if one not in found:
                    found.add(one)
                    waiting += self.needs.get(one, ())
            self.visible_targets[target] = found
        return found

    def seen(self, source, found):
        """Those of some declarations that a file can name."""
        visible = self.visible(source.target)
        return [one for one in found if one.file is source or one.access != "private" and (
            one.file.target == source.target or one.access != "internal" and one.file.target in visible)]

    def all_supers(self, path):
        found, waiting = [], [path]
        while waiting:
            one = waiting.pop()
            if one not in found:
                found.append(one)
                for above in self.supers.get(one, ()):
                    # A name in the clause may be that of a type nested in the same one.
                    waiting.append(above)
        return found

    def members_of(self, path, name, source, call, static=None):
        found = []
        for one in self.all_supers(path):
            members = self.members.get(one)
            if members and name in members:
                found += [member for member in members[name] if static is None or member.static == static or member.kind in TYPES]
        found = self.seen(source, found)
        fitting = [one for one in found if fits(one, call)]
        return fitting or found

    def type_path(self, name, scope, source):
        """The full name of the type that a name means in a scope."""
        path = scope.path
        while path:
            for around in self.all_supers(path):
                if self.seen(source, self.types.get(f"{around}.{name}", ())):
                    return f"{around}.{name}"
            path = path.rpartition(".")[0]
        return name if name in self.types or name in self.members else None


class Reader:
    """Finds what one file names of other folders of its target."""

    def __init__(self, library, source, report):
        self.library, self.source, self.report = library, source, report
        self.tokens, self.seen = source.tokens, set()
        self.resolving = set()

    def run(self):
        tokens, names = self.tokens, self.source.names
        for index, token in enumerate(tokens):
            first = token[0]
            if not (first.isalpha() or first == "_" or first == "`") or index in self.seen or index in names:
                continue
            if index and tokens[index - 1] == ".":
                self.unknown(index, token)
            else:
                self.chain(index)

    def note(self, found, name, index):
        """Draws an arrow to what is named, when it is all in one folder."""
        homes = {(one.file.target, one.file.folder) for one in found}
        if len(homes) != 1:
            return
        (target, folder), = homes
        if target == self.source.target and folder not in (".", self.source.folder):
            self.report(folder, name, self.source, self.source.lines[index])

    def chain(self, index):
        """Follows `a.b(c).d` from its first name; returns the type of the whole, or None."""
        source, library, tokens = self.source, self.library, self.tokens
        token = tokens[index]
        scope = source.scopes[index]
        self.seen.add(index)
        if not is_name(token) and token != "Self":
            return None
        name = token.strip("`")
        label = index + 1 < len(tokens) and tokens[index + 1] == ":" and tokens[index - 1] in ("(", ",")
        if label:
            return None
        type, meta = self.start(index, name, scope)
        at = index
        while True:
            at = self.after(at)
            dot = at
            while dot < len(tokens) and tokens[dot] in ("?", "!") and tokens[dot + 1:dot + 2] == ["."]:
                dot += 1
            if dot + 1 >= len(tokens) or tokens[dot] != "." or not tokens[dot + 1][0].isalpha() and tokens[dot + 1][0] not in "_`":
                return None if meta and type and tokens[at - 1] != ")" else type
            at = dot + 1
            member = tokens[at].strip("`")
            if member in ("self", "Type"):
                self.seen.add(at)
                continue
            if type is None:
                return None
            call = called_with(source, at)
            found = library.members_of(type, member, source, call, static=True if meta and member != "init" else None)
            self.seen.add(at)
            if not found:
                return None
            self.note(found, found[0].full if found[0].kind in TYPES else member, at)
            if not (meta and member == "init"):
                type, meta = self.type_of(found[0]), found[0].kind in TYPES

    def after(self, index):
        """The token after a name, its generic arguments, its call and its subscripts."""
        tokens, match, at = self.tokens, self.source.match, index + 1
        if at < len(tokens) and tokens[at] == "<" and self.source.tokens[index][0].isupper():
            depth = 0
            for end in range(at, min(at + 40, len(tokens))):
                depth += {"<": 1, ">": -1}.get(tokens[end], 0)
                if depth == 0:
                    at = end + 1
                    break
        if at < len(tokens) and tokens[at] == "(" and self.source.lines[at] == self.source.lines[at - 1]:
            at = match.get(at, at) + 1
        return at

    def start(self, index, name, scope):
        """What the first name of a chain means: the type of its value, and whether it is that type itself."""
        library, source = self.library, self.source
        if name in ("self", "super"):
            return scope.path or None, False
        if name == "Self":
            return scope.path or None, True
        around = scope
        while around:
            if name in around.locals:
                return self.value(around.locals[name], around), False
            around = around.parent
        call = called_with(source, index)
        path = scope.path
        static = None
        while path:
            found = library.members_of(path, name, source, call, static)
            if found:
                if all(one.kind in TYPES or one.kind in ("typealias", "associatedtype") for one in found):
                    self.note(found, found[0].full, index)
                    return found[0].full, True
                self.note(found, name, index)
                return self.type_of(found[0]), False
            path, static = path.rpartition(".")[0], True
        found = library.seen(source, library.types.get(name, ()))
        if found:
            own = [one for one in found if one.file.target == source.target] or found
            self.note(own, name, index)
            return name, True
        found = library.seen(source, library.free.get(name, ()))
        found = [one for one in found if fits(one, call)] or found
        if found:
            self.note(found, name, index)
            return self.type_of(found[0]), False
        return (name, True) if name in library.members else (None, False)

    def value(self, written, scope):
        """The type of a local name or member from what is written beside it."""
        if written is None:
            return None
        if isinstance(written, str):
            return self.library.type_path(written, scope, self.source)
        index, source = written
        key = (id(source), index)
        if key in self.resolving or len(self.resolving) > 6:
            return None
        self.resolving.add(key)
        reader = Reader(self.library, source, lambda *_: None)
        reader.resolving = self.resolving
        type = reader.chain(index) if is_name(source.tokens[index]) else None
        self.resolving.discard(key)
        return type

    def type_of(self, declaration):
        if declaration.kind in TYPES:
            return declaration.full
        if isinstance(declaration.type, tuple):
            return self.value(declaration.type, None)
        if declaration.kind == "init":
            return declaration.path
        if declaration.type is None:
            return None
        if declaration.kind == "case":
            return declaration.path
        scope = swift_source.Scope("type", declaration.path, None)
        return self.library.type_path(declaration.type, scope, declaration.file)

    def unknown(self, index, token):
        """A member of a value whose type is not known: it tells when only one folder of all that are visible declares it."""
        name = token.strip("`")
        if name in STANDARD or name in self.source.labels or not any(letter.isupper() for letter in name):
            return
        found = self.library.seen(self.source, self.library.named.get(name, ()))
        call = called_with(self.source, index)
        if len(found) > 1:
            found = [one for one in found if fits(one, call)] or found
        self.note(found, name, index)


def library(needs):
    """The declarations of all targets."""
    found = Library()
    found.needs = {name: list(known) for name, known in needs}
    for target, _ in needs:
        base = os.path.join(ROOT, "Sources", target)
        for place, _, names in os.walk(base):
            inner = os.path.relpath(place, base).split(os.sep)[0]
            for name in sorted(names):
                if name.endswith(".swift"):
                    path = os.path.join(place, name)
                    found.add(target, inner, swift_source.read(os.path.relpath(path, ROOT), path))
    return found


def folder_arrows(library, target):
    """For each folder of a target those that it knows, with the names that show it and where each is."""
    arrows = collections.defaultdict(lambda: collections.defaultdict(dict))
    for source in library.files[target]:
        if source.folder != ".":
            knows = arrows[source.folder]
            Reader(library, source, lambda home, name, file, line: knows[home].setdefault(name, f"{file.name}:{line}")).run()
    return {folder: knows for folder, knows in arrows.items() if knows}


# MARK: - Cycles

def cycle(arrows):
    """Some folders in a circle; none when there is none."""
    done = set()

    def walk(path):
        for next in sorted(arrows.get(path[-1], ())):
            if next in path:
                return path[path.index(next):] + [next]
            found = None if next in done else walk(path + [next])
            if found:
                return found
        done.add(path[-1])
        return None
    return next(filter(None, (walk([folder]) for folder in sorted(arrows) if folder not in done)), None)


def reaches(arrows, start, end):
    seen, waiting = set(), [start]
    while waiting:
        one = waiting.pop()
        if one == end:
            return True
        if one not in seen:
            seen.add(one)
            waiting += arrows.get(one, ())
    return False


def without(arrows, removed):
    return {one: [other for other in knows if (one, other) not in removed] for one, knows in arrows.items()}


def listed_arrows(listed, target):
    """The arrows of a target that docs/internals/tidy.md lists, each with the number of names that it may have."""
    found = {}
    for (rule, place), number in listed.items():
        parts = re.fullmatch(r"(\w+): (\w+) → (\w+)", place)
        if rule == "cycle" and parts and parts[1] == target:
            found[parts[2], parts[3]] = number
    return found


def cycle_faults(target, arrows, listed):
    """What is wrong with the cycles of a target, given the arrows that close those of today."""
    left = without(arrows, listed)
    circle = cycle(left)
    if circle:
        why = [f"{one} names {' and '.join(sorted(arrows[one][other])[:2])} of {other}" for one, other in zip(circle, circle[1:])]
        yield f"folders of {target} form a cycle: " + ", ".join(why)
    for (one, other), number in listed.items():
        names = arrows.get(one, {}).get(other, ())
        if not reaches(left, other, one) or not names:
            yield f"{target}: {one} → {other} closes no cycle any more; remove it from {tidy.LIST}"
        elif len(names) > number:
            yield f"{target}: {one} knows {len(names)} names of {other}, and {tidy.LIST} allows {number}: {', '.join(sorted(names))}"


def drawing(arrows):
    lines = [f"    {one} --> {other}" for one in arrows for other in arrows[one]]
    return "```mermaid\ngraph TD\n" + "\n".join(lines) + "\n```\n"


def cycle_table(target, arrows, listed):
    """The arrows that close cycles, with what they name."""
    circles = {one for one, other in listed} | {other for one, other in listed}
    inside = sorted({folder for folder in arrows if any(
        reaches(arrows, folder, one) and reaches(arrows, one, folder) and folder != one for one in circles)})
    if not inside:
        return ""
    lines = [f"\n{', '.join(inside)} know each other in cycles. Without these arrows there is none:\n", "| Arrow | Names |", "|---|---|"]
    for one, other in sorted(listed):
        names = sorted(arrows.get(one, {}).get(other, ()))
        lines.append(f"| {one} → {other} | {', '.join(f'`{name}`' for name in names)} |")
    return "\n".join(lines) + "\n"


def system_imports(library, target):
    """The files of a target that call the system past Platform, each with the module that it imports."""
    for source in library.files[target]:
        if not source.name.removeprefix("Sources/").startswith(SYSTEM_CALLERS):
            tokens = source.tokens
            for index, token in enumerate(tokens[:-1]):
                if token == "import" and index in source.names:
                    at = index + 2 if tokens[index + 1] in ("struct", "class", "enum", "func", "var", "typealias", "protocol") else index + 1
                    if tokens[at] in SYSTEM and not (tokens[at] == "Foundation" and is_substitute(tokens, index)):
                        yield source.name, tokens[at]


def is_substitute(tokens, index):
    """Whether an import stands where FoundationEssentials cannot be imported."""
    while index and tokens[index - 1] in swift_source.ACCESS:
        index -= 1
    return tokens[max(0, index - 3):index] == ["import", "FoundationEssentials", "#else"]


# MARK: - Self-test

# The files of a target with folders, and the arrows that they show.
SAMPLES = [
    ({"A/A.swift": "struct A { struct Inner {} }", "B/B.swift": "let b = A.Inner()"}, "B-A"),
    # A nested type of a type that stands in no folder.
    ({"R.swift": "struct R {}", "A/A.swift": "extension R { struct Inner {} }", "B/B.swift": "let b: R.Inner? = nil"}, "B-A"),
    ({"R.swift": "struct R {}", "A/A.swift": "extension R { struct Inner {} }", "B/B.swift": "extension R { func b() { _ = Inner() } }"}, "B-A"),
    # Members that an extension adds: of the type itself, of a parameter, of a variable, at the end of a chain, in a text.
    ({"R.swift": "struct R {}", "A/A.swift": "extension R { func a() {} }", "B/B.swift": "extension R { func b() { a() } }"}, "B-A"),
    ({"R.swift": "struct R {}", "A/A.swift": "extension R { func a() {} }", "B/B.swift": "func b(r: R) { r.a() }"}, "B-A"),
    ({"R.swift": "struct R {}", "A/A.swift": "extension R { var a: Int { 1 } }", "B/B.swift": "struct B { let r: R\n func b() { print(self.r.a) } }"}, "B-A"),
    ({"R.swift": "struct R { var next: R? }", "A/A.swift": "extension R { func a() {} }", "B/B.swift": "func b() { let r = R()\n r.next?.a() }"}, "B-A"),
    ({"R.swift": "struct R { func make() -> R { self } }", "A/A.swift": "extension R { func a() {} }", "B/B.swift": 'func b(r: R) { print("\\(r.make().a())") }'}, "B-A"),
    ({"R.swift": "protocol P {}\nstruct R: P {}", "A/A.swift": "extension P { func a() {} }", "B/B.swift": "func b(r: R) { r.a() }"}, "B-A"),
    ({"A/A.swift": "func leaveLane() {}", "B/B.swift": "func b() { leaveLane() }"}, "B-A"),
    # The type of the value is not known, and one folder alone has the name.
    ({"R.swift": "struct R {}", "A/A.swift": "extension R { func leaveLane() {} }", "B/B.swift": "func b() { all.map { $0.leaveLane() } }"}, "B-A"),
    # Labels choose.
    ({"R.swift": "struct R {}", "A/A.swift": "extension R { func a(of: Int) {} }", "C/C.swift": "extension R { func a(in: Int) {} }",
      "B/B.swift": "func b(r: R) { r.a(of: 1) }"}, "B-A"),
    # No arrow: another type has that member, a local variable hides it, it is a label, a comment, a text, private, a member of a
    # tuple, or of the standard library.
    ({"R.swift": "struct R {}\nstruct S { func a() {} }", "A/A.swift": "extension R { func a() {} }", "B/B.swift": "func b(s: S) { s.a() }"}, ""),
    ({"A/A.swift": "func a() {}", "B/B.swift": "func b(a: () -> Void) { a() }"}, ""),
    ({"A/A.swift": "func a() {}", "B/B.swift": "func b(c: Int, a: Int) {}\nfunc c() { b(c: 1, a: 2) }"}, ""),
    ({"A/A.swift": "func a() {}\nstruct A {}", "B/B.swift": '// a() A\nlet b = "a() A"  /* A() */'}, ""),
    ({"A/A.swift": "private func a() {}", "B/B.swift": "func b() { a() }"}, ""),
    ({"A/A.swift": "struct A { var isDue: Bool }", "B/B.swift": "func b() { let x = all.map { (isDue: $0, 1) }\n print(x.isDue) }"}, ""),
    ({"A/A.swift": "struct A { func removeAll() {} }", "B/B.swift": "func b() { list.removeAll() }"}, ""),
    ({"A/A.swift": "struct A { func leaveLane() {} }", "C/C.swift": "struct C { func leaveLane() {} }", "B/B.swift": "func b() { x.leaveLane() }"}, ""),
    ({"A/A.swift": "struct A { struct Inner {} }", "C/C.swift": "extension A.Inner { static func make() {} }",
      "B/B.swift": "func b() { A.Inner.make() }"}, "B-A B-C C-A"),
    # In no branch of #if a brace is lost, or counted twice.
    ({"A/A.swift": "#if X\nfunc a() {\n#else\nfunc a(c: Int) {\n#endif\n}\nfunc c() {}", "B/B.swift": "func b() { c() }"}, "B-A"),
    ({"R.swift": "struct R {}", "A/A.swift": "extension R { func a(of: Any, to: Int) {} }", "C/C.swift": "extension R { func a(of: Any) {} }",
      "B/B.swift": "func b(r: R) { r.a(of: {\n#if X\n}\n#else\n}\n#endif\n, to: 1) }"}, "B-A"),
    ({"A/A.swift": "struct A {}", "B/B.swift": "#if X\nfunc b() {\n#else\nfunc b(c: Int) {\n#endif\n}\nlet c = A()"}, "B-A"),
]


def sample(files):
    found = Library()
    for name, text in files.items():
        found.add("T", name.split("/")[0] if "/" in name else ".", swift_source.Source(name, text))
    return folder_arrows(found, "T")


def self_test():
    wrong = []
    for files, expected in SAMPLES:
        shown = " ".join(sorted(f"{one}-{other}" for one, knows in sample(files).items() for other in knows))
        if shown != expected:
            wrong.append(f"the arrows are “{shown}” instead of “{expected}” for {files}")
    circle = {"A": {"B": {"b": ""}}, "B": {"C": {"c": ""}}, "C": {"A": {"a": ""}}}
    wrong += [f"cycles: {what}" for what, holds in {
        "one that is not listed": len(list(cycle_faults("T", circle, {}))) == 1,
        "one that is listed": not list(cycle_faults("T", circle, {("C", "A"): 1})),
        "one with more names than are listed": len(list(cycle_faults("T", circle, {("C", "A"): 0}))) == 1,
        "one that is no more": len(list(cycle_faults("T", {"A": {"B": {"b": ""}}}, {("B", "A"): 1}))) == 1,
        "one that another entry opens already": len(list(cycle_faults("T", circle, {("C", "A"): 1, ("A", "B"): 1}))) == 2,
        "none": not list(cycle_faults("T", {"A": {"B": {"b": ""}, "C": {"c": ""}}, "B": {"C": {"c": ""}}}, {})),
        "an entry is read": listed_arrows({("cycle", "T: A → B"): 2, ("cycle", "U: A → C"): 1}, "T") == {("A", "B"): 2},
    }.items() if not holds]
    found = Library()
    found.add("T", ".", swift_source.Source("Sources/T/T.swift", "// import Glibc\npublic import Foundation\nimport struct Glibc.stat\nimport FoundationEssentials\n"))
    found.add("T", ".", swift_source.Source(
        "Sources/T/U.swift", "#if canImport(FoundationEssentials)\npublic import FoundationEssentials\n#else\npublic import Foundation\n#endif\nimport Darwin\n"))
    if list(system_imports(found, "T")) != [("Sources/T/T.swift", "Foundation"), ("Sources/T/T.swift", "Glibc"), ("Sources/T/U.swift", "Darwin")]:
        wrong.append("imports of the system: " + str(list(system_imports(found, "T"))))
    return wrong


def main():
    if "--self-test" in sys.argv:
        faults = self_test()
        for fault in faults:
            print("arrows: " + fault, file=sys.stderr)
        sys.exit(1 if faults else 0)
    faults = []
    page = HEAD
    known = targets()
    all = library(known)
    names = [name for name, _ in known]
    if "--why" in sys.argv:
        (target, one), (_, other) = (place.split("/") for place in sys.argv[sys.argv.index("--why") + 1:][:2])
        for name, place in folder_arrows(all, target).get(one, {}).get(other, {}).items():
            print(f"{place}: {name}")
        return
    with open(os.path.join(ROOT, tidy.LIST), encoding="utf-8") as file:
        listed = tidy.read_list(file.read())
    for name, needs in known:
        faults += [f"{name} depends on {need}, which stands behind it in Package.swift" for need in needs
                   if names.index(need) > names.index(name)]
    page += drawing({name: needs for name, needs in known})
    for name in names:
        faults += [f"{path} imports {module}; call what it needs through Platform, where a port looks for it"
                   for path, module in system_imports(all, name)]
        arrows, closing = folder_arrows(all, name), listed_arrows(listed, name)
        faults += cycle_faults(name, arrows, closing)
        if arrows:
            page += f"\n## {name}\n\n" + drawing({one: sorted(arrows[one]) for one in sorted(arrows)})
            page += cycle_table(name, arrows, closing)
    if "--check" not in sys.argv:
        with open(PAGE, "w", encoding="utf-8") as file:
            file.write(page)
    elif not os.path.exists(PAGE) or open(PAGE, encoding="utf-8").read() != page:
        faults.append("docs/internals/targets.md is not up to date; run scripts/arrows.py")
    for fault in faults:
        print("arrows: " + fault, file=sys.stderr)
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
