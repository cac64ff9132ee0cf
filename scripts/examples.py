#!/usr/bin/env python3
"""Type-checks the code blocks of documentation comments in Sources/.

    scripts/examples.py          fails when a block does not compile, or when there are no blocks

A block stands between "/// ```swift" and "/// ```"; a block in another language names that language (```text, ```sql). Each block
becomes a function of a Swift file in .build/examples, with an ellipsis (…) as a call of fatalError(). Extensions of a block move to
file scope, and a block that begins with a member (`@Handler`, `static`) becomes a type. scripts/examples.swift declares what
blocks use and do not declare. Run this after `swift build`: blocks are checked against the built modules.
"""
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
# Not built for the target: the modules of the compiler plugin.
SKIPPED = {"HandlerExpander", "HandlerMacros"}
COMMENT = re.compile(r"^\s*/// ?")
FENCE = re.compile(r"^\s*/// ?\s*```(.*)$")
INDENTED = re.compile(r"^\s*/// {4,}\S")
# An ellipsis in the place of a statement. In strings and comments it follows or precedes a word.
OMITTED = re.compile(r"(^\s*|[{:] )…(?=\s*$| \}|\s+//)")


def read(name):
    with open(name, encoding="utf-8") as file:
        return file.read()


def blocks(name, faults):
    """The Swift blocks of a file, each as the number of its first line and its lines. Columns are those of the file."""
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
            yield start + 1, [OMITTED.sub(r"\1fatalError()", line) for line in code]
        elif not fence[1]:
            faults.append(f"{name}:{start}: name the language of this block, ```text for a drawing")
        at += 1


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
    is_member = first.startswith(("@Handler", "@Test", "static "))
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


def main():
    os.chdir(ROOT)
    began, faults, files, count = time.time(), [], [DECLARATIONS], 0
    scopes = set(re.findall(r"^enum (Example_\w+)", read(DECLARATIONS), re.M))
    imports = [line for line in read(DECLARATIONS).split("\n") if re.match(r"(@\w+ )?import ", line)]
    os.makedirs(WORK, exist_ok=True)
    for old in glob.glob(f"{WORK}/*.swift"):
        os.remove(old)
    for folder in sorted(os.listdir("Sources")):
        generated = list(imports)
        for name in sorted(glob.glob(f"Sources/{folder}/**/*.swift", recursive=True)):
            for start, code in blocks(name, faults):
                if folder not in SKIPPED:
                    count += 1
                    generated += wrapped(name, start, code, scopes, count)
        if len(generated) > len(imports):
            files.append(f"{WORK}/{folder}Examples.swift")
            with open(files[-1], "w", encoding="utf-8") as file:
                file.write("\n".join(generated) + "\n")
    if count == 0:
        faults.append("No code block was found in the documentation comments of Sources.")
    print("\n".join(faults), end="\n" if faults else "", file=sys.stderr)
    arguments = ["swiftc", "-typecheck", "-wmo", "-diagnostic-style=llvm", "-parse-as-library", "-suppress-warnings", "-swift-version", "6", "-package-name", "main",
                 "-module-name", "Examples", "-enable-upcoming-feature", "ExistentialAny",
                 "-enable-upcoming-feature", "InternalImportsByDefault", "-module-cache-path", f"{BUILT}/ModuleCache", "-j2"]
    status = subprocess.run([*arguments, *flags(), *files]).returncode
    if faults or status:
        sys.exit(1)
    print(f"All {count} examples compile ({time.time() - began:.0f} s).")


main()
