#!/usr/bin/env python3
"""Checks what CONTRIBUTING.md says about the sources: lengths, dead declarations and files, comments and words.

    scripts/tidy.py                writes nothing; fails when a rule is broken at a place that docs/internals/tidy.md does not list
    scripts/tidy.py --all          also prints the listed places
    scripts/tidy.py --shorten      removes what is clean from the list, and lowers its numbers
    scripts/tidy.py --self-test    tries each rule on small sources, good and bad

docs/internals/tidy.md explains the rules and lists the places that break them today. The list may only get shorter: a listed place that
is clean fails, too, and so does an entry that the first commit of the list does not have.
"""
import collections
import itertools
import os
import re
import subprocess
import sys

import swift_source
from swift_source import TYPES, called_with, fits

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
LIST = "docs/internals/tidy.md"
WORDS = "docs/internals/words.md"
GENERATED = "docs/reference/public-api.md"
FILE_LINES = {"Sources": 400, "Tests": 500}
FUNCTION_LINES = 70
TYPE_LINES = 1000
# A line of a comment may be as long as one of code, and a break this much earlier is not a wrap.
WIDTH, EARLY = 110, 15
SWIFT = ("Sources/", "Tests/", "Benchmarks/", "Fuzz/", "Snippets/")
# Requirements of protocols of the toolchain: they are called from outside.
REQUIRED = set("""
    description debugDescription customMirror hash encode next makeIterator makeAsyncIterator index startIndex endIndex subscript rawValue
    errorDescription failureReason id write body callAsFunction enqueue asUnownedSerialExecutor asUnownedTaskExecutor isMainExecutor
    isSameExclusiveExecutionContext checkIsolated runUntil now sleep minimumResolution advanced duration codingPath userInfo allKeys
    container nestedContainer nestedUnkeyedContainer superEncoder superDecoder singleValueContainer unkeyedContainer decodeNil encodeNil
    decode decodeIfPresent encodeIfPresent encodeConditional contains currentIndex isAtEnd count intValue stringValue testDescription
    provideScope prepare appendLiteral appendInterpolation expansion providingMacros allCases diagnosticID severity message fixItID
    compare visit visitPost makeExecutor defaultExecutor mainExecutor Element Iterator Index AsyncIterator Failure Duration Instant
    ArrayLiteralElement Key Value RawValue ID Context TransferRepresentation isRecursive comments resolveMacro main CodingKeys
""".split())
REQUIRED_LABELS = {"from", "rawValue", "stringLiteral", "integerLiteral", "arrayLiteral", "dictionaryLiteral", "unicodeScalarLiteral",
                   "extendedGraphemeClusterLiteral", "stringInterpolation", "floatLiteral", "booleanLiteral", "nilLiteral", "stringValue",
                   "intValue", "literalCapacity"}
# Enums with a raw value, and types whose variables a coder or a macro reads.
RAW = {"String", "Int", "UInt8", "UInt16", "UInt32", "Int32", "Int64", "CaseIterable", "CodingKey", "Codable", "Decodable"}
CODED = {"Codable", "Encodable", "Decodable", "Handler", "AsyncHandler", "DurableEvent"}
# What sends BEGIN, in the names of which it is no word for a start.
SQL_NAMES = {"begin", "beginReading", "beginMaking"}
# What the build finds by itself.
COMPILED = (".swift", ".modulemap", ".h", ".c")
ITEM = re.compile(r"[-*] |\d+\. ")
# What comments hold for tools.
NO_SENTENCES = ("snippet.", "#", "MARK:", "swift-")
SQL = re.compile(r"\b(?:CREATE|ALTER|SELECT|INSERT|UPDATE|DELETE|WITH|BEGIN)\b")

Fault = collections.namedtuple("Fault", "rule place number text")


class Tree:
    """The files of the repository, each Swift file read once."""

    def __init__(self, files):
        self.files = files
        self.sources = {name: swift_source.Source(name, text) for name, text in files.items()
                        if name.endswith(".swift") and text is not None and name.startswith(SWIFT + ("Package.swift",))}
        self._used, self._implicit, self.calls = None, None, {}

    @property
    def used(self):
        """For each name where code names it, but for the places that declare it: (file, token)."""
        if self._used is None:
            self._used = collections.defaultdict(list)
            for source in self.sources.values():
                tokens, names = source.tokens, source.names
                for index, token in enumerate(tokens):
                    if not (token[0].isalpha() or token[0] in "_`") or index in names:
                        continue
                    if index and tokens[index - 1] in ("let", "var") and tokens[index + 1:index + 2] in (["="], [":"], ["in"]):
                        continue
                    self._used[token.strip("`")].append((source, index))
                # A macro reads the path in `@Handler(…, on: "shop.till")`.
                for index, token in enumerate(tokens):
                    if token[0] == '"' and tokens[index - 2:index] == ["on", ":"]:
                        for word in re.findall(r"\w+", token):
                            self._used[word].append((source, index))
        return self._used

    def call(self, use):
        """How a name is called there, read once."""
        if use not in self.calls:
            self.calls[use] = called_with(*use)
        return self.calls[use]

    @property
    def implicit_calls(self):
        """The different calls of `.init(…)`, which may mean an initializer of any type."""
        if self._implicit is None:
            calls = [self.call(use) for use in self.used.get("init", ()) if use[0].tokens[use[1] - 1] == "."]
            self._implicit = [([*labels], closures) for labels, closures in {(tuple(one[0]), one[1]) for one in calls if one}]
        return self._implicit

    def page_uses(self):
        """For each name where the code of a page or the example of a comment names it. A catalog that lists all symbols uses none."""
        code = []
        for name, text in self.files.items():
            if name.endswith(".md") and text and ".docc/" not in name and name not in (GENERATED, LIST, WORDS):
                code += re.findall(r"```.*?```|`[^`\n]+`", text, re.S)
        for source in self.sources.values():
            fenced, example = False, []
            for _, _, text in source.comments:
                if "```" in text:
                    fenced = not fenced
                    if not fenced:
                        code.append("\n".join(example))
                        example = []
                elif fenced:
                    example.append(text.lstrip("/"))
        uses = collections.defaultdict(list)
        for text in code:
            source = swift_source.Source("", text.strip("`"))
            for index, token in enumerate(source.tokens):
                uses[token.strip("`")].append((source, index))
        return uses


def folder(name):
    """The target that a file belongs to: Sources/Handlers."""
    parts = name.split("/")
    return "/".join(parts[:2]) if len(parts) > 2 else parts[0]


# MARK: - Lengths

def long_files(tree):
    for name, source in tree.sources.items():
        limit = FILE_LINES.get(name.split("/")[0])
        lines = source.text.count("\n")
        if limit and lines > limit:
            yield Fault("file", name, lines, f"{name} has {lines} lines, and {limit} are the most")


def long_functions(tree):
    for name, source in tree.sources.items():
        for one in source.declarations:
            lines = one.end - one.line + 1
            if lines > FUNCTION_LINES and (one.kind in ("func", "init", "deinit", "subscript") or one.code):
                yield Fault("function", f"{name} {one.full}", lines,
                            f"{name}:{one.line}: {one.title} has {lines} lines, and {FUNCTION_LINES} are the most")


def large_types(tree):
    owners = collections.defaultdict(set)
    for name, source in tree.sources.items():
        if name.startswith("Sources/"):
            for one in source.declarations:
                if one.kind in TYPES and one.kind != "extension":
                    owners[one.full].add(folder(name))
    lines, files = collections.Counter(), collections.defaultdict(set)
    for name, source in tree.sources.items():
        if not name.startswith("Sources/"):
            continue
        for one in source.declarations:
            if one.kind in TYPES:
                own = owners.get(one.name if one.kind == "extension" else one.full, set())
                home = folder(name) if folder(name) in own else next(iter(sorted(own)), None)
                if home:
                    full = one.name if one.kind == "extension" else one.full
                    lines[home, full] += one.end - one.line + 1
                    files[home, full].add(name)
    for (home, full), count in lines.items():
        if count > TYPE_LINES:
            yield Fault("type", f"{home} {full}", count,
                        f"{full} of {home} has {count} lines in {len(files[home, full])} files, and {TYPE_LINES} are the most")


# MARK: - What nothing uses

def dead_declarations(tree):
    """Declarations that no code names but their own, and initializers that no call fits."""
    pages, used = tree.page_uses(), tree.used
    all = [one for source in tree.sources.values() if source.name.startswith(SWIFT) for one in source.declarations]
    extended = {(one.file, one.token) for one in all if one.kind == "extension"}
    overloads, conforms = collections.Counter(one.name for one in all), collections.defaultdict(set)
    requirements = {one.name for one in all if one.in_protocol}
    for one in all:
        if one.kind in TYPES:
            conforms[one.full].update(one.inherits)
    for one in all:
        if is_required(one, conforms):
            continue
        if one.kind == "init" and any(fits(one, call) for call in tree.implicit_calls):
            continue
        uses = calls_of(one, used) if one.kind == "init" else used.get(one.name, ())
        # What a protocol requires is called through the protocol, from anywhere.
        # The types of a test may only have to stand in the way of others.
        if one.name not in requirements and not (one.kind in TYPES and one.file.name.startswith("Tests/")):
            uses = (use for use in uses if is_visible(one, use[0].name))
        if one.kind in ("func", "init") and (one.kind == "init" or overloads[one.name] > 1):
            # Another declaration of the same name may be the one that is used.
            uses = (use for use in uses if fits(one, tree.call(use)))
        uses = (use for use in uses if use not in extended and not (
            use[0] is one.file and one.line <= use[0].lines[use[1]] <= one.end and one.kind in TYPES | {"func", "init"}))
        if one.access == "public" and one.kind != "init":
            uses = itertools.chain(uses, (
                use for use in pages.get(one.name, ()) if one.kind != "func" or fits(one, called_with(*use))))
        if not any(True for _ in uses):
            yield Fault("dead", f"{one.file.name} {one.title}", 1, f"{one.file.name}:{one.line}: nothing names {one.title}")


def is_required(one, conforms):
    """Whether something that is not in the sources may name a declaration: the toolchain, a coder, a macro, a page."""
    inherited = conforms[one.path]
    return (
        one.kind in ("extension", "deinit", "subscript", "associatedtype", "macro") or one.name in REQUIRED or one.name.startswith("_")
        or "override" in one.modifiers or "required" in one.modifiers or one.kind == "func" and not one.name[0].isalpha()
        or set(one.attributes) & {"main", "Test", "Suite", "Handler", "Workflow"}
        or one.kind == "case" and set(one.raw.inherits) & (RAW | CODED) or one.kind == "var" and inherited & CODED
        # The layout of a record of C.
        or one.kind == "var" and isinstance(one.type, str) and one.type[0].islower()
        or one.kind == "init" and (not one.labels or one.labels[0] in REQUIRED_LABELS)
        # The parts of this file are what the pages show.
        or one.file.name == "Snippets/PageSamples.swift" and not one.path)


def is_visible(one, name):
    """Whether a file may name a declaration. Tests may name what is internal, too."""
    if one.access == "private":
        return name == one.file.name
    return one.access != "internal" or folder(name) == folder(one.file.name) or not name.startswith("Sources/")


def calls_of(one, used):
    """Where an initializer may be called."""
    for name in (one.path.rpartition(".")[2], "Self"):
        for source, index in used.get(name, ()):
            after = source.tokens[index + 1:index + 3]
            yield (source, index + 2) if after == [".", "init"] else (source, index)


def unused_files(tree):
    """Swift files of which no other file names anything, and other files that no file names."""
    users = {name: {source.name for source, _ in uses} for name, uses in tree.used.items()}
    for name, source in tree.sources.items():
        declared = {one.name for one in source.declarations if one.kind != "extension" and not one.local}
        if declared and name.startswith(("Sources/", "Tests/")) and not runs(source) and all(
                users.get(one, set()) <= {name} for one in declared):
            yield Fault("unused", name, 1, f"{name}: nothing in another file uses it")
    words = collections.defaultdict(set)
    for name, text in tree.files.items():
        if text and not name.startswith("Fuzz/corpus/"):
            for word in set(re.findall(r"[\w+-]+(?:\.[\w-]+)*", text)):
                words[word].add(name)
    for name in tree.files:
        if "/" not in name or name.endswith(COMPILED) or name.startswith((".", "docs/internals/decisions/")) or ".docc/" in name:
            continue
        # A corpus is named as its target is, a module of Python and a dictionary without their suffix.
        called = name.split("/")[2] if name.startswith("Fuzz/corpus/") else os.path.basename(name)
        if not (words[called] | words[re.sub(r"\.(py|dict)$", "", called)]) - {name}:
            yield Fault("unused", name, 1, f"{name}: no other file names it")


def runs(source):
    """Whether a file works without being named: a program, tests, conformances, operators."""
    return source.name.endswith("main.swift") or any(
        set(one.attributes) & {"main", "Test", "Suite", "Handler", "Workflow"} or one.kind == "extension" and one.inherits
        or one.kind in ("init", "subscript") or not one.name[:1].isalpha() or one.name in REQUIRED for one in source.declarations)


# MARK: - Comments

def paragraphs(source):
    """The comments of a file: lines that stand below each other, as (line, column, indent, text)."""
    rows, group, last = None, [], None
    for line, column, text in source.comments:
        rows = rows or source.text.split("\n")
        parts = re.match(r"(//[/:]?)(\s*)(.*)$", text)
        alone = parts and not rows[line - 1][:column].strip()
        if not alone or last != (line - 1, column, parts[1]):
            if group:
                yield group
            group = []
        if parts:
            group.append((line, column, len(parts[2]), parts[3].rstrip()))
        last = (line, column, parts[1]) if alone else None
    if group:
        yield group


def prose(group):
    """The lines of a comment that are sentences: no code, drawing or table."""
    fenced = False
    for line, column, indent, text in group:
        if text.startswith("```"):
            fenced = not fenced
            yield line, column, indent, ""
        elif fenced or indent > 3 or re.search(r"[─▶│└╰┌]|^\||\|$|  +\S", text) or text.startswith(NO_SENTENCES):
            yield line, column, indent, ""
        else:
            yield line, column, indent, text


def broken_comments(tree):
    for name, source in tree.sources.items():
        for group in paragraphs(source):
            lines = list(prose(group))
            for one, next in zip(lines, lines[1:]):
                text, following = one[3], next[3]
                if not text or not following or ITEM.match(following) or re.search(r"[.:;!?…)]['`\")”]*$", text):
                    continue
                if one[2] != next[2] and not ITEM.match(text):
                    continue
                end = one[1] + 3 + one[2] + len(text)
                if end + 1 + len(following.split()[0]) + EARLY < WIDTH:
                    yield Fault("wrap", f"{name} {text.split()[-1]} / {following.split()[0]}", 1,
                                f"{name}:{one[0]}: the line ends early, before “{' '.join(following.split()[:3])}”")


# MARK: - Words

def word_rules(text):
    """The words in backticks of the last column of the table in words.md, with what to say instead."""
    rules = []
    for line in text.split("\n"):
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")] if line.startswith("|") else []
        if len(cells) == 3:
            rules += [(word, cells[1]) for word in re.findall(r"`([^`]+)`", cells[2])]
    return rules


def replaced_words(tree):
    rules = dict(word_rules(tree.files.get(WORDS) or ""))
    if not rules:
        return
    # All in capitals it is a word of SQL.
    words = ["[" + word[0].upper() + word[0] + "]" + re.escape(word[1:]).replace(r"\ ", r"\s+")
             for word in sorted(rules, key=len, reverse=True)]
    pattern = re.compile(r"(?<![\w.`-])(" + "|".join(words) + r")(?![\w`(-])")
    for name, source in tree.sources.items():
        for group in paragraphs(source):
            lines = [line for line in prose(group) if line[3]]
            yield from words_in("\n".join(line[3] for line in lines), name, [line[0] for line in lines], pattern, rules)
        for line, text in texts(source):
            yield from words_in(text, name, [line], pattern, rules)
        for one in source.declarations:
            if one.kind not in ("extension", "init") and one.name not in SQL_NAMES:
                words = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", one.name).lower()
                yield from words_in(words, name, [one.line], pattern, rules)
    for name, text in tree.files.items():
        if name.endswith(".md") and text and name not in (WORDS, LIST, GENERATED) and "/decisions/" not in name:
            yield from words_in(text, name, range(1, text.count("\n") + 2), pattern, rules)


def texts(source):
    """The messages of a file and the names of its tests, as (line, text on one line)."""
    tokens = source.tokens
    for index, token in enumerate(tokens):
        if token[0] == '"' and " " in token and (source.name.startswith("Sources/") or tokens[index - 2:index] == ["@Test", "("]):
            text = re.sub(r"\\#*\((?:[^()]|\([^()]*\))*\)", "`", token[1:])
            if not SQL.search(text):
                yield source.lines[index], text.replace("\n", " ")


def words_in(text, name, lines, pattern, rules):
    """The faults of a text, in which code, parameters and quotations do not count."""
    text = re.sub(r"```.*?```|`[^`\n]*`|- Parameter \w+:|^ *- \w+:", lambda code: re.sub(r"[^\n]", "`", code[0]), text, flags=re.S | re.M)
    for found in pattern.finditer(text):
        word = re.sub(r"\s+", " ", found[1].lower())
        yield Fault("word", folder(name), 1, f"{name}:{lines[text.count(chr(10), 0, found.start())]}: “{word}”; say {rules[word]}")


RULES = (long_files, long_functions, large_types, dead_declarations, unused_files, broken_comments, replaced_words)


# MARK: - The list

ROW = re.compile(r"^\| (\w+) \| `([^`]+)` \| (\d+) \|", re.M)


def read_list(text):
    """The listed places: (rule, place) with the number that is allowed there."""
    return {(rule, place): int(number) for rule, place, number in ROW.findall(text or "")}


def compare(faults, listed):
    """What is wrong with the places that break a rule, given those that are listed."""
    found = collections.defaultdict(list)
    for fault in faults:
        found[fault.rule, fault.place].append(fault)
    for key, group in found.items():
        number = max(fault.number for fault in group) if len(group) == 1 else sum(fault.number for fault in group)
        if key not in listed:
            yield from (f"{fault.rule}: {fault.text}" for fault in group)
        elif number > listed[key]:
            yield f"{key[0]}: {key[1]} has {number}, and {LIST} allows {listed[key]}"
            yield from (f"  {fault.text}" for fault in group)
    for key in listed:
        if key[0] != "cycle" and key not in found:
            yield f"{key[0]}: {key[1]} is clean; scripts/tidy.py --shorten removes it from {LIST}"


def grown(listed, first):
    """The entries that the first version of the list lacks. A file may have moved since."""
    plain = lambda key: (key[0], re.sub(r"[^ /]+/", "", key[1]))
    known = {plain(key) for key in first}
    return [f"{key[0]}: {key[1]} was added to {LIST}, which may only get shorter" for key in listed if plain(key) not in known]


def shortened(text, faults):
    """The list without what is clean, and with the numbers of today where they are lower."""
    now = collections.Counter()
    for fault in faults:
        now[fault.rule, fault.place] += fault.number
    lines = []
    for line in text.split("\n"):
        row = ROW.match(line)
        if row and row[1] != "cycle":
            number = now[row[1], row[2]]
            if not number:
                continue
            if number < int(row[3]):
                line = line[:row.start(3)] + str(number) + line[row.end(3):]
        lines.append(line)
    return "\n".join(lines)


def git(*arguments):
    return subprocess.check_output(["git", *arguments], cwd=ROOT, text=True)


def first_list():
    """The list as it was committed first; None where there is no history."""
    commits = git("log", "--diff-filter=A", "--format=%H", "--", LIST).split()
    return read_list(git("show", f"{commits[-1]}:{LIST}")) if commits else None


def repository():
    names = [name for name in git("ls-files", "-z", "--cached", "--others", "--exclude-standard").split("\0") if name]
    files = {}
    for name in sorted(set(names)):
        path = os.path.join(ROOT, name)
        if os.path.isfile(path):
            try:
                with open(path, encoding="utf-8") as file:
                    files[name] = file.read()
            except UnicodeDecodeError:
                files[name] = None
    return Tree(files)


# MARK: - Self-test

def many(count, line="    let x = 1\n"):
    return line * count


# A rule, a tree, and how many places break the rule there.
SAMPLES = [
    (long_files, {"Sources/A/A.swift": many(401, "// x\n")}, 1),
    (long_files, {"Sources/A/A.swift": many(400, "// x\n"), "Tests/A/A.swift": many(500, "// x\n")}, 0),
    (long_files, {"Tests/A/A.swift": many(501, "// x\n")}, 1),
    (long_functions, {"Sources/A/A.swift": "func a() {\n" + many(69) + "}\n"}, 1),
    (long_functions, {"Sources/A/A.swift": "func a() {\n" + many(68) + "}\n"}, 0),
    (long_functions, {"Sources/A/A.swift": "struct A {\n    var a: Int {\n" + many(69) + "    }\n}\n"}, 1),
    (long_functions, {"Sources/A/A.swift": "struct A {\n    init(a: Int = { 1 }()) {\n" + many(69) + "    }\n}\n"}, 1),
    (long_functions, {"Sources/A/A.swift": "class A {\n    deinit {\n" + many(69) + "    }\n}\n"}, 1),
    (long_functions, {"Sources/A/A.swift": "struct A {\n    subscript(a: Int) -> Int {\n" + many(69) + "    }\n}\n"}, 1),
    # A brace in a text, in code within a text, and in a comment ends no function.
    (long_functions, {"Sources/A/A.swift": 'func a() {\n    let a = "}\\("}")"  // }\n' + many(68) + "}\n"}, 1),
    (long_functions, {"Sources/A/A.swift": "#if A\nfunc a() {\n#else\nfunc b() {\n#endif\n" + many(40) + "}\nfunc c() {\n" + many(40) + "}\n"}, 0),
    (large_types, {"Sources/A/A.swift": "struct A {\n" + many(600) + "}\n", "Sources/A/B.swift": "extension A {\n" + many(400) + "}\n"}, 1),
    (large_types, {"Sources/A/A.swift": "struct A {\n" + many(600) + "}\n", "Sources/B/B.swift": "extension A {\n" + many(400) + "}\n"}, 1),
    (large_types, {"Sources/A/A.swift": "struct A {\n" + many(600) + "}\n", "Sources/B/A.swift": "struct A {\n" + many(600) + "}\n"}, 0),
    (dead_declarations, {"Sources/A/A.swift": "private func a() {}\n"}, 1),
    (dead_declarations, {"Sources/A/A.swift": "private func a() { a() }\n"}, 1),
    (dead_declarations, {"Sources/A/A.swift": "// a()\nprivate func a() {}\nlet b = \"a()\"\n", "Tests/A/A.swift": "print(b)\n"}, 1),
    (dead_declarations, {"Sources/A/A.swift": "func a() {}\n", "Sources/A/B.swift": 'print("\\(a())")\n'}, 0),
    (dead_declarations, {"Sources/A/A.swift": "private func a() {}\n", "Sources/A/B.swift": "a()\n"}, 1),
    (dead_declarations, {"Sources/A/A.swift": "func a() {}\n", "Sources/B/B.swift": "a()\n"}, 1),
    (dead_declarations, {"Sources/A/A.swift": "package protocol P { func a() }\npackage struct A: P { func a() {} }\n",
                         "Sources/B/B.swift": "let b: any P = A()\nb.a()\nprint(b)\n"}, 0),
    (dead_declarations, {"Sources/A/A.swift": "struct A {}\nextension A {}\n"}, 1),
    (dead_declarations, {"Sources/A/A.swift": "func a(of b: Int) {}\nfunc a(in b: Int) {}\n", "Tests/A/A.swift": "a(in: 1)\n"}, 1),
    (dead_declarations, {"Sources/A/A.swift": "func a(of b: Int = 1) {}\nfunc a(in b: Int) {}\n", "Tests/A/A.swift": "a(in: 1)\na()\n"}, 0),
    (dead_declarations, {"Sources/A/A.swift": "struct A { init(a: Int) {}\n init(b: Int) {} }\n", "Tests/A/A.swift": "A(b: 1)\n"}, 1),
    (dead_declarations, {"Sources/A/A.swift": "enum A { case b, c }\n", "Tests/A/A.swift": "let a = A.b\nprint(a)\n"}, 1),
    (dead_declarations, {"Sources/A/A.swift": "enum A: String { case b, c }\n", "Tests/A/A.swift": "let a = A.b\nprint(a)\n"}, 0),
    (dead_declarations, {"Sources/A/A.swift": "public func a(_ b: Int) {}\n"}, 1),
    (dead_declarations, {"Sources/A/A.swift": "public func a(_ b: Int) {}\n", "pages/a.md": "Call `a(1)`.\n"}, 0),
    (dead_declarations, {"Sources/A/A.swift": "public func a(_ b: Int) {}\n", "pages/a.md": "This is a text, and `a()` is another.\n"}, 1),
    (dead_declarations, {"Sources/A/A.swift": "package func a(_ b: Int) {}\n", "pages/a.md": "Call `a(1)`.\n"}, 1),
    (dead_declarations, {"Sources/A/A.swift": "/// ```swift\n/// a(1)\n/// ```\npublic func a(_ b: Int) {}\n"}, 0),
    (unused_files, {"Sources/A/A.swift": "struct A {}\n", "Sources/A/B.swift": "struct B {}\n", "Tests/A/A.swift": "@Test func a() { A() }\n"}, 1),
    (unused_files, {"Sources/A/A.swift": "extension Int: @retroactive Error { var a: Int { 1 } }\n"}, 0),
    (unused_files, {"scripts/a.py": "", "scripts/b.sh": "", "Makefile": "a:\n\tscripts/a.py\n"}, 1),
    (unused_files, {"pages/a.md": "[b](b.md)", "pages/b.md": "[a](a.md) [c](images/c.svg)", "pages/images/c.svg": "", "pages/images/d.png": None}, 1),
    (broken_comments, {"Sources/A/A.swift": "/// This sentence\n/// ends early.\n"}, 1),
    (broken_comments, {"Sources/A/A.swift": "/// This is a line that ends where lines of this width end, which is seen by the next word, a rather long\n/// runs\n/// on.\n"}, 1),
    (broken_comments, {"Sources/A/A.swift": "/// This sentence ends.\n/// This one, too.\n"}, 0),
    (broken_comments, {"Sources/A/A.swift": "/// ```swift\n/// let a = b\n/// let c = d\n/// ```\n"}, 0),
    (broken_comments, {"Sources/A/A.swift": "/// - one thing\n/// - another thing\n"}, 0),
    (broken_comments, {"Sources/A/A.swift": "let a = 1  // beside code\nlet b = 1  // beside more\n"}, 0),
    (replaced_words, {WORDS: "| to start | start | `begin`, end |", "Sources/A/A.swift": "// Now begin.\nlet begin = 1\n// `begin` and BEGIN\n"}, 1),
    (replaced_words, {WORDS: "| to start | start | `begin`, `live time` |", "Sources/A/A.swift": 'let a = "we \\(begin) to begin"\nlet b = "SELECT begin FROM c"\n'}, 1),
    (replaced_words, {WORDS: "| to start | start | `begin` |", "Tests/A/A.swift": '@Test("it begin now") func a() { check("they begin so") }\n'}, 1),
    (replaced_words, {WORDS: "| to start | start | `begin`, `live time` |", "Sources/A/A.swift": "let liveTime = 1\nfunc begin() {}\n"}, 1),
    (replaced_words, {WORDS: "| a | b | `live time` |", "pages/a.md": "This is live\ntime. `live time`\n```\nlive time\n```\n"}, 1),
    (replaced_words, {WORDS: "| to start | start | `begin`, end |", "pages/a.md": "It starts, beginning at the end.\n"}, 0),
]


def self_test():
    """Tries each rule, and the list, on small sources."""
    wrong = []
    for rule, files, count in SAMPLES:
        found = list(rule(Tree(files)))
        if len(found) != count:
            wrong.append(f"{rule.__name__} finds {len(found)} places instead of {count} in {files}: {found}")
    for rule in RULES:
        counts = [bool(count) for tried, _, count in SAMPLES if tried is rule]
        if set(counts) != {True, False}:
            wrong.append(f"{rule.__name__} has no sample that breaks it, or none that does not")
    fault, key = Fault("file", "Sources/A.swift", 450, "too long"), ("file", "Sources/A.swift")
    text = "| file | `Sources/A.swift` | 460 | why |\n| file | `B.swift` | 500 | why |\n| cycle | `C` | 1 | why |\n"
    wrong += [f"the list: {what}" for what, holds in {
        "a place that is not listed": len(list(compare([fault], {}))) == 1,
        "a listed place": not list(compare([fault], {key: 450})),
        "a listed place that grew": len(list(compare([fault], {key: 449}))) == 2,
        "a listed place that is clean": len(list(compare([], {key: 450}))) == 1,
        "a new entry": len(grown({key: 1}, {})) == 1,
        "an entry that moved": not grown({("file", "Sources/B/A.swift"): 1}, {key: 1}),
        "rows are read": read_list(text) == {key: 460, ("file", "B.swift"): 500, ("cycle", "C"): 1},
        "shorter": shortened(text, [fault]) == "| file | `Sources/A.swift` | 450 | why |\n| cycle | `C` | 1 | why |\n",
    }.items() if not holds]
    return wrong


def main():
    if "--self-test" in sys.argv:
        faults = self_test()
    else:
        tree = repository()
        found = [fault for rule in RULES for fault in rule(tree)]
        text = tree.files.get(LIST) or ""
        if "--shorten" in sys.argv:
            text = shortened(text, found)
            with open(os.path.join(ROOT, LIST), "w", encoding="utf-8") as file:
                file.write(text)
        if "--all" in sys.argv:
            print("\n".join(f"{fault.rule}: {fault.text}" for fault in found))
        listed, first = read_list(text), first_list()
        faults = list(compare(found, listed)) + (grown(listed, first) if first is not None else [])
        if not word_rules(tree.files.get(WORDS) or ""):
            faults.append(f"{WORDS} has no table of words")
    for fault in faults:
        print("tidy: " + fault, file=sys.stderr)
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
