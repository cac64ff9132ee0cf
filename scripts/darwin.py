#!/usr/bin/env python3
"""Type-checks the library for Apple's systems on Linux, compiles its C code and links what can be linked. docs/internals/darwin.md says
what that proves.

    scripts/darwin.py
"""
import concurrent.futures
import glob
import os
import re
import shutil
import subprocess
import sys
import zipfile

import arrows
import swift_source

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
OWN = os.path.join(ROOT, "scripts", "darwin")
LOCK = os.path.join(ROOT, "scripts", "peers", "darwin.txt")
WORK = os.path.join(ROOT, ".build", "darwin")
SDK = os.path.join(WORK, "sdk")
INCLUDE = os.path.join(SDK, "usr", "include")
LIBSYSTEM = os.path.join(SDK, "usr", "lib", "libSystem.tbd")
SYSTEMS = {"macOS": "arm64-apple-macos15.0", "iOS": "arm64-apple-ios18.0"}
TOOLS = os.path.dirname(os.path.realpath(shutil.which("swift") or "swift"))
SWIFT = os.path.join(os.path.dirname(TOOLS), "lib", "swift")
# They run on the machine that builds.
MACRO_TARGETS = ("HandlerExpander", "HandlerMacros")


class Failed(Exception):
    """A command that failed, with what it printed."""


def run(*words, **options):
    done = subprocess.run(words, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **options)
    if done.returncode:
        raise Failed(done.stdout)
    return done.stdout


# MARK: - Headers

def fetch():
    """Puts Apple's headers and the list of libSystem's symbols into the work folder. Returns why that cannot be done, or nothing.

    They are under the APSL and come with the compiler Zig, of which nothing else is used."""
    stamp = os.path.join(SDK, "from.txt")
    with open(LOCK, encoding="utf-8") as file:
        lock = file.read()
    if os.path.exists(stamp) and open(stamp, encoding="utf-8").read() == lock:
        return None
    shutil.rmtree(WORK, ignore_errors=True)
    os.makedirs(WORK)
    peers = os.path.join(ROOT, ".build", "peers", "bin", "python")
    try:
        run(peers if os.path.exists(peers) else sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check",
            "--no-deps", "--only-binary", ":all:", "--require-hashes", "--requirement", LOCK, "--dest", WORK)
    except Failed as failed:
        if "DO NOT MATCH" in str(failed):
            raise
        return str(failed).strip().splitlines()[-1]
    wheel, = glob.glob(os.path.join(WORK, "*.whl"))
    places = {"ziglang/lib/libc/include/any-darwin-any/": INCLUDE + "/", "ziglang/lib/libc/darwin/libSystem.tbd": LIBSYSTEM}
    with zipfile.ZipFile(wheel) as files:
        for name in files.namelist():
            for start, place in places.items():
                if name.startswith(start) and not name.endswith("/"):
                    path = place + name[len(start):]
                    os.makedirs(os.path.dirname(path), exist_ok=True)
                    with open(path, "wb") as file:
                        file.write(files.read(name))
    os.remove(wheel)
    with open(stamp, "w", encoding="utf-8") as file:
        file.write(lock)
    return None


def write(path, text):
    """Writes a file; one that has the text keeps its date, and what was compiled from it stays valid."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    if not os.path.exists(path) or open(path, encoding="utf-8").read() != text:
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)


def copy(source, path):
    with open(source, encoding="utf-8") as file:
        write(path, file.read())


# Where the headers of other libraries are: each is linked into a folder of its own, because theirs also has the headers of Linux.
FOREIGN = {
    "CSQLite": ["sqlite3.h"], "CXML2": ["libxml2/libxml"], "COpenSSL": ["openssl/*.h"], "CAres": ["ares*.h"], "CCurl": ["curl"],
    "CPostgres": ["postgresql/*.h"], "COmemo": ["omemo/*.h"],
}


def link_foreign(folder):
    """Returns the systemLibrary targets whose headers this machine has."""
    found = []
    for module, patterns in FOREIGN.items():
        paths = [path for pattern in patterns for path in glob.glob("/usr/include/" + pattern) + glob.glob("/usr/include/*-linux-*/" + pattern)]
        for path in paths:
            link = os.path.join(folder, "openssl" if module == "COpenSSL" else "", os.path.basename(path))
            os.makedirs(os.path.dirname(link), exist_ok=True)
            if not os.path.lexists(link):
                os.symlink(path, link)
        if paths:
            found.append(module)
    return found


def prepare():
    """Writes the module maps. Returns the modules of C."""
    for name in ("Darwin.h", "notify.h"):
        copy(os.path.join(OWN, name), os.path.join(INCLUDE, name))
    write(os.path.join(INCLUDE, "module.modulemap"), 'module Darwin [system] { header "Darwin.h" export * }\n')
    # Linux's own Synchronization asks for it. Nothing of it is used.
    write(os.path.join(WORK, "empty", "module.modulemap"), "module SwiftGlibc [system] { export * }\n")
    foreign = os.path.join(WORK, "foreign")
    modules = link_foreign(foreign)
    maps = [f'module {name} [system] {{ header "{ROOT}/Sources/{name}/shim.h" export * }}' for name in modules]
    own = [name for name in os.listdir(os.path.join(ROOT, "Sources")) if os.path.isdir(os.path.join(ROOT, "Sources", name, "include"))]
    maps += [f'module {name} {{ header "{ROOT}/Sources/{name}/include/{name}.h" export * }}' for name in own]
    write(os.path.join(foreign, "module.modulemap"), "\n".join(maps) + "\n")
    return modules + own


# MARK: - Targets

def library_targets():
    """The Swift targets of the products that are libraries, with what each depends on, in the order of Package.swift."""
    source = swift_source.read("Package.swift", os.path.join(ROOT, "Package.swift"))
    tokens, wanted = source.tokens, []
    for index, token in enumerate(tokens):
        if tokens[index:index + 3] == [".", "library", "("]:
            wanted += [word[1:] for word in tokens[tokens.index("targets", index):source.match[index + 2]] if word[0] == '"']
    known = dict(arrows.targets())
    waiting, found = list(wanted), set()
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += known[name]
    return [(name, needs) for name, needs in known.items() if name in found and name not in MACRO_TARGETS]


def sources(target):
    return sorted(glob.glob(os.path.join(ROOT, "Sources", target, "**", "*.swift"), recursive=True))


# MARK: - Type check

def check(system, target_name, *words):
    """Runs the compiler with Linux's standard library and Apple's declarations of C."""
    work = os.path.join(WORK, system)
    os.makedirs(work, exist_ok=True)
    maps = [f"{SWIFT}/shims/module.modulemap", f"{INCLUDE}/module.modulemap", f"{WORK}/empty/module.modulemap", f"{WORK}/foreign/module.modulemap"]
    return run(
        f"{TOOLS}/swiftc", "-wmo", "-parse-as-library", "-package-name", "durable", "-module-name", target_name,
        "-Xfrontend", "-clang-target", "-Xfrontend", SYSTEMS[system], "-Xcc", "-isysroot", "-Xcc", SDK,
        "-Xcc", "-I" + os.path.join(WORK, "foreign"), *[word for path in maps for word in ("-Xcc", "-fmodule-map-file=" + path)],
        "-module-cache-path", os.path.join(WORK, "cache"), "-I", work, *words, cwd=work)


SETTINGS = ["-swift-version", "6", "-enable-upcoming-feature", "ExistentialAny", "-enable-upcoming-feature", "InternalImportsByDefault"]
INTERFACE = ["-Xfrontend", "-experimental-skip-all-function-bodies", "-emit-module", "-emit-module-path"]


def check_library(system, targets):
    """Yields what is wrong in the targets."""
    work = os.path.join(WORK, system)
    os.makedirs(work, exist_ok=True)
    check(system, "Darwin", "-swift-version", "5", "-import-underlying-module", *INTERFACE, os.path.join(work, "Darwin.swiftmodule"),
          os.path.join(OWN, "Darwin.swift"))
    faults = []
    for name, _ in targets:
        try:
            check(system, name, *SETTINGS, *INTERFACE, os.path.join(work, name + ".swiftmodule"), *sources(name))
            check(system, name, *SETTINGS, "-typecheck", *sources(name))
            print(f"darwin: {system}: {name}")
        except Failed as failed:
            print(f"FAIL {system} {name}\n", "\n".join([l for l in str(failed).splitlines() if "error:" in l][:12]))
    return faults


def main():
    reason = fetch()
    if reason:
        print(f"darwin: Apple's headers cannot be fetched, so nothing was checked for Apple's systems: {reason}")
        return
    prepare()
    targets = library_targets()
    for system in sys.argv[1:] or SYSTEMS:
        check_library(system, targets)


main()
