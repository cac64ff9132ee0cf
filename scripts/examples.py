#!/usr/bin/env python3
"""Type-checks the code blocks of documentation comments in Sources/.

    scripts/examples.py          fails when a block does not compile, or when there are no blocks

A block stands between "/// ```swift" and "/// ```"; a block in another language names that language (```text, ```sql). Each block
becomes a function of a Swift file in .build/examples, with an ellipsis (…) as a call of fatalError(). Extensions of a block move to
file scope, and a block that begins with a member (`@Handler`, `static`) becomes a type. scripts/examples.swift declares what
blocks use and do not declare. Blocks of public declarations are compiled as a user's own code; all others, and what follows
"For the package" in scripts/examples.swift, as code of the package. Run this after `swift build`: blocks are checked against the
built modules.
"""
import collections
import glob
import os
import re
import subprocess
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
WORK = ".build/examples"
BUILT = ".build/debug"
DECLARATIONS = "scripts/examples.swift"
FOR_PACKAGE = "// MARK: For the package"
# Not built for the target: the modules of the compiler plugin.
SKIPPED = {"HandlerExpander", "HandlerMacros"}
COMMENT = re.compile(r"^\s*/// ?")
FENCE = re.compile(r"^\s*/// ?\s*```(.*)$")
PUBLIC = re.compile(r"^\s*(?:@\S+ )*public ")
INDENTED = re.compile(r"^\s*/// {4,}\S")
# An ellipsis in the place of a statement. In strings and comments it follows or precedes a word.
OMITTED = re.compile(r"(^\s*|[{:] )…(?=\s*$| \}|\s+//)")


def read(name):
    with open(name, encoding="utf-8") as file:
        return file.read()


def blocks(name, faults):
    """The Swift blocks of a file: number of the first line, lines, and whether a public declaration has it. Columns are those of
    the file."""
    lines, at = read(name).split("\n"), 0
    while at < len(lines):
        line = lines[at]
        at += 1
        fence = FENCE.match(line)
        if not fence:
            opens = at < 2 or not COMMENT.match(lines[at - 2]) or not COMMENT.sub("", lines[at - 2]).strip()
            if INDENTED.match(line) and opens:
                faults.append(f"{name}:{at}: write this block between ```swift (or ```text for a drawing) and ```")
            continue
        start = at
        while at < len(lines) and COMMENT.match(lines[at]) and not FENCE.match(lines[at]):
            at += 1
        if fence[1] == "swift":
            code = [COMMENT.sub(lambda prefix: " " * len(prefix[0]), line).rstrip() for line in lines[start:at]]
            yield start + 1, [OMITTED.sub(r"\1fatalError()", line) for line in code], is_public(lines, at)
        elif not fence[1]:
            faults.append(f"{name}:{start}: name the language of this block, ```text for a drawing")
        at += 1


def is_public(lines, at):
    """Whether the declaration after a comment is public, or a case or requirement of a public type."""
    while COMMENT.match(lines[at]) or lines[at].lstrip().startswith(("@", "//")) and not PUBLIC.match(lines[at]):
        at += 1
    indent = len(lines[at]) - len(lines[at].lstrip())
    if PUBLIC.match(lines[at]) or indent == 0:
        return bool(PUBLIC.match(lines[at]))
    owner = next(line for line in reversed(lines[:at]) if line.strip() and len(line) - len(line.lstrip()) < indent)
    return bool(re.match(r"\s*(?:@\S+ )*public (?:indirect )?(?:enum|protocol) ", owner))


def parted(start, code):
    """The extensions of a block, and the rest, each as a number of a line and lines."""
    margin = min((len(line) - len(line.lstrip()) for line in code if line), default=0)
    extensions, rest, inside = [], [(start, [])], False
    for number, line in enumerate(code, start):
        if line[margin:].startswith("extension "):
            extensions.append((number, []))
            inside = True
        (extensions if inside else rest)[-1][1].append(line)
        if inside and (line[margin:].startswith("}") or line.endswith("}") and number == extensions[-1][0]):
            inside = False
            rest.append((number + 1, []))
    return extensions, [part for part in rest if any(part[1])]


def located(name, parts):
    return [text for number, code in parts for text in (f'#sourceLocation(file: "{name}", line: {number})', *code, "#sourceLocation()")]


def wrapped(name, start, code, scopes, number):
    """A block as declarations of a Swift file."""
    extensions, rest = parted(start, code)
    owners = [os.path.basename(name)[:-6], name.split("/")[1]]
    scope = next((scope for owner in owners if (scope := "Example_" + re.sub(r"\W", "_", owner)) in scopes), "Example")
    first = next((line.strip() for line in code if line.strip() and not line.strip().startswith("//")), "")
    is_member = first.startswith(("@Handler", "@Workflow", "@Test", "static "))
    opening = f"struct Block{number} {{" if is_member else f"static func block{number}() async throws {{"
    body = [f"extension {scope} {{ {opening}", *located(name, rest), "} }"] if rest else []
    return located(name, extensions) + body


def flags():
    """What the compiler needs to find the modules of the package, those in C too."""
    found = ["-I", f"{BUILT}/Modules"]
    for path in glob.glob("Sources/C*/module.modulemap") + glob.glob(f"{BUILT}/C*.build/module.modulemap"):
        found += ["-Xcc", f"-fmodule-map-file={path}"]
    for path in glob.glob("Sources/C*/include"):
        found += ["-Xcc", "-I", "-Xcc", path]
    libraries = re.findall(r'pkgConfig: "([^"]+)"', read("Package.swift"))
    found += subprocess.check_output(["pkg-config", "--cflags-only-I", *libraries], text=True).split()
    return found + ["-load-plugin-executable", f"{BUILT}/HandlerMacros-tool#HandlerMacros"]


def declarations(for_public):
    """The declarations of blocks, for a user only those that a user can write."""
    text = read(DECLARATIONS)
    if not for_public:
        return text
    return re.sub(r"@testable (?=import)", "", text.partition(FOR_PACKAGE)[0])


def compile(kind, for_public, found):
    """Compiles blocks, each a file's name, its first line and its lines; returns whether that worked."""
    work = f"{WORK}/{kind}"
    os.makedirs(work, exist_ok=True)
    for old in glob.glob(f"{work}/*.swift"):
        os.remove(old)
    declared = declarations(for_public)
    scopes = set(re.findall(r"^enum (Example_\w+)", declared, re.M))
    imports = [line for line in declared.split("\n") if re.match(r"(@\w+ )?import ", line)]
    files = collections.defaultdict(lambda: list(imports))
    for number, (name, start, code) in enumerate(found):
        files[name.split("/")[1]] += wrapped(name, start, code, scopes, number)
    files["Declared"] = [f'#sourceLocation(file: "{DECLARATIONS}", line: 1)', declared]
    for folder, lines in files.items():
        with open(f"{work}/{folder}Examples.swift", "w", encoding="utf-8") as file:
            file.write("\n".join(lines) + "\n")
    arguments = ["swiftc", "-typecheck", "-wmo", "-diagnostic-style=llvm", "-parse-as-library", "-suppress-warnings", "-swift-version", "6",
                 "-module-name", "Examples", "-enable-upcoming-feature", "ExistentialAny",
                 "-enable-upcoming-feature", "InternalImportsByDefault", "-module-cache-path", f"{BUILT}/ModuleCache", "-j2"]
    arguments += [] if for_public else ["-package-name", "main"]
    return subprocess.run([*arguments, *flags(), *glob.glob(f"{work}/*.swift")]).returncode == 0


def main():
    os.chdir(ROOT)
    began, faults, found = time.time(), [], {True: [], False: []}
    for name in sorted(glob.glob("Sources/**/*.swift", recursive=True)):
        for start, code, for_public in blocks(name, faults):
            if name.split("/")[1] not in SKIPPED:
                found[for_public].append((name, start, code))
    if not found[True] or not found[False]:
        faults.append("No code block was found in the documentation comments of Sources.")
    print("\n".join(faults), end="\n" if faults else "", file=sys.stderr)
    compiled = [compile("public", True, found[True]), compile("package", False, found[False])]
    if faults or not all(compiled):
        sys.exit(1)
    print(f"All examples compile: {len(found[True])} as a user's code, {len(found[False])} as the package's ({time.time() - began:.0f} s).")


main()
