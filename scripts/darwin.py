#!/usr/bin/env python3
"""Type-checks the library for Apple's systems on Linux, compiles its C code and links what can be linked. docs/internals/darwin.md says
what that proves, and what it does not.

    scripts/darwin.py
"""
import concurrent.futures
import glob
import json
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
SAMPLE = os.path.join(ROOT, "Examples", "Messenger")
WORK = os.path.join(ROOT, ".build", "darwin")
SDK = os.path.join(WORK, "sdk")
INCLUDE = os.path.join(SDK, "usr", "include")
LIBSYSTEM = os.path.join(SDK, "usr", "lib", "libSystem.tbd")
SYSTEMS = {"macOS": "arm64-apple-macos15.0", "iOS": "arm64-apple-ios18.0"}
TARGET = json.loads(subprocess.run(["swiftc", "-print-target-info"], check=True, stdout=subprocess.PIPE).stdout)
SWIFT = TARGET["paths"]["runtimeResourcePath"]
TOOLS = os.path.join(os.path.dirname(os.path.dirname(SWIFT)), "bin")
# They run on the machine that builds.
MACRO_TARGETS = ("HandlerExpander", "HandlerMacros")
C_TARGETS = ("CPlatform", "CHandlerRecords")
# The tests that a Mac runs, without those of the macro, with the files that it has of each target.
TESTS = {
    "TestThreads": ["*.swift"], "TestSupport": ["RealDisk.swift", "TemporaryFolder.swift"], "PlatformTests": ["*.swift"],
    "IQTrackerTests": ["*.swift"],
}


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
    """Writes the module maps."""
    place = os.path.join(WORK, "place.txt")
    if not os.path.exists(place) or open(place, encoding="utf-8").read() != ROOT:
        # What was compiled is bound to its folder.
        for name in os.listdir(WORK):
            if os.path.isdir(os.path.join(WORK, name)) and name != "sdk":
                shutil.rmtree(os.path.join(WORK, name))
        write(place, ROOT)
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


# MARK: - Targets

def library_targets():
    """The Swift targets of the products that are libraries, in the order of Package.swift."""
    source = swift_source.read("Package.swift", os.path.join(ROOT, "Package.swift"))
    tokens, waiting, found = source.tokens, [], set()
    for index, token in enumerate(tokens):
        if tokens[index:index + 3] == [".", "library", "("]:
            waiting += [word[1:] for word in tokens[tokens.index("targets", index):source.match[index + 2]] if word[0] == '"']
    known = dict(arrows.targets())
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += known[name]
    return [name for name in known if name in found and name not in MACRO_TARGETS and sources(name)]


def sources(target):
    """The Swift files of a target, as copies for which there is no FoundationEssentials: Apple has Foundation alone. On Linux that is
    another Foundation, with much the same declarations."""
    copies, folder = [], os.path.join(ROOT, "Tests" if target in TESTS else "Sources", target)
    for path in sorted(path for pattern in TESTS.get(target, ["*.swift"]) for path in glob.glob(os.path.join(folder, "**", pattern), recursive=True)):
        copies.append(os.path.join(WORK, "sources", os.path.relpath(path, ROOT)))
        with open(path, encoding="utf-8") as file:
            write(copies[-1], file.read().replace("canImport(FoundationEssentials)", "false"))
    resources = sorted(glob.glob(os.path.join(folder, "Resources", "*")))
    if resources:
        # SwiftPM writes it, with the bytes of the files.
        names = [re.sub(r"\W", "_", os.path.basename(path)) for path in resources]
        copies.append(os.path.join(WORK, "sources", target, "PackageResources.swift"))
        write(copies[-1], "enum PackageResources {\n" + "".join(f"    static let {name}: [UInt8] = []\n" for name in names) + "}\n")
    return copies


# MARK: - Type check

SETTINGS = ["-swift-version", "6", "-enable-testing", "-enable-upcoming-feature", "ExistentialAny", "-enable-upcoming-feature", "InternalImportsByDefault"]
INTERFACE = ["-Xfrontend", "-experimental-skip-all-function-bodies", "-emit-module", "-emit-module-path"]


def check(system, module, *words):
    """Runs the compiler with Linux's standard library and Apple's declarations of C."""
    work = os.path.join(WORK, system)
    maps = [f"{SWIFT}/shims/module.modulemap", f"{INCLUDE}/module.modulemap", f"{WORK}/empty/module.modulemap", f"{WORK}/foreign/module.modulemap"]
    return run(
        f"{TOOLS}/swiftc", "-wmo", "-parse-as-library", "-package-name", "durable", "-module-name", module,
        "-Xfrontend", "-clang-target", "-Xfrontend", SYSTEMS[system], "-Xcc", "-isysroot", "-Xcc", SDK,
        "-Xcc", "-I" + os.path.join(WORK, "foreign"), *[word for path in maps for word in ("-Xcc", "-fmodule-map-file=" + path)],
        "-module-cache-path", os.path.join(WORK, "cache"), "-plugin-path", f"{SWIFT}/host/plugins/testing", "-I", work, *words, cwd=work)


def check_library(system, targets, newer):
    """Checks all targets. Returns what is wrong."""
    work, faults = os.path.join(WORK, system), []
    os.makedirs(work, exist_ok=True)
    check(system, "Darwin", "-swift-version", "5", "-import-underlying-module", "-enable-experimental-feature", "Extern", *INTERFACE,
          os.path.join(work, "Darwin.swiftmodule"), os.path.join(OWN, "Darwin.swift"))
    faults += try_checks(system, newer)
    for name in targets:
        try:
            # Those that depend on it need its declarations alone.
            check(system, name, *SETTINGS, *INTERFACE, os.path.join(work, name + ".swiftmodule"), *sources(name))
            faults += [f"{name} calls {what}, which {system} has only since a later version" for what in body_check(system, name, sources(name), newer)]
        except Failed as failed:
            faults.append(f"{name} is not right for {system}:\n{failed}")
    return faults + check_sample(system)


def check_sample(system):
    """Checks the sample of an app: the part that needs nothing but the library in full, the others, which need SwiftUI, by the parser. Returns what
    is wrong."""
    try:
        core = sorted(glob.glob(os.path.join(SAMPLE, "Core", "*.swift")))
        check(system, "MessengerCore", "-swift-version", "6", "-typecheck", *core)
        run(f"{TOOLS}/swiftc", "-parse", "-parse-as-library", "-swift-version", "6",
            *sorted(glob.glob(os.path.join(SAMPLE, "App", "*.swift")) + glob.glob(os.path.join(SAMPLE, "NotificationService", "*.swift"))))
    except Failed as failed:
        return [f"the sample of an app is not right for {system}:\n{failed}"]
    return []


def body_check(system, name, files, newer):
    """Checks everything in a target. Returns what it calls that its oldest system does not have."""
    index = os.path.join(WORK, system, "index", name)
    shutil.rmtree(index, ignore_errors=True)
    check(system, name, *SETTINGS, "-typecheck", "-index-store-path", index, "-index-ignore-system-modules", *files)
    # A record of the index names everything that a file refers to, by identifiers that a search finds.
    found = set()
    for path in glob.glob(os.path.join(index, "v5", "records", "*", "*.swift-*")):
        with open(path, "rb") as file:
            record = file.read()
        found |= {title for identifier, title in newer.items() if identifier.encode() in record}
    return sorted(found)


def newer_declarations():
    """The declarations of Swift's own modules that are newer than the oldest systems, by their identifiers."""
    version = TARGET["compilerVersion"].split("(")[1].split(")")[0]
    kept = os.path.join(WORK, f"newer-{version}.json")
    if os.path.exists(kept):
        with open(kept, encoding="utf-8") as file:
            return json.load(file)
    graphs = os.path.join(WORK, "graphs")
    os.makedirs(graphs, exist_ok=True)
    for module in ("Swift", "_Concurrency", "Synchronization"):
        run(f"{TOOLS}/swift-symbolgraph-extract", "-module-name", module, "-output-dir", graphs,
            "-target", TARGET["target"]["triple"])
    oldest, found = {"macOS": (15, 0), "iOS": (18, 0)}, {}
    for path in glob.glob(os.path.join(graphs, "*.json")):
        with open(path, encoding="utf-8") as file:
            symbols = json.load(file)["symbols"]
        for symbol in symbols:
            since = [(one["domain"], one["introduced"]) for one in symbol.get("availability", ()) if one.get("domain") in oldest and "introduced" in one]
            if any((version["major"], version.get("minor", 0)) > oldest[domain] for domain, version in since):
                found[symbol["identifier"]["precise"].partition("::SYNTHESIZED::")[0]] = ".".join(symbol["pathComponents"])
    shutil.rmtree(graphs)
    write(kept, json.dumps(found))
    return found


def try_checks(system, newer):
    """Tries the checks on sources with known faults. Returns which of them were not found."""
    place, missed = os.path.join(WORK, system, "faults"), []
    samples = {
        "NewerSwift": "func newer(_ numbers: [Int]) -> Int { numbers.span.count }\n",
        "CallOfLinux": "import Darwin\nfunc linux() -> Int32 { accept4(0, nil, nil, 0) }\n",
        "TypeOfLinux": "import Darwin\nfunc linux() -> Int32 { Int32(SOCK_STREAM.rawValue) }\n",
    }
    for name, text in samples.items():
        write(os.path.join(place, name + ".swift"), text)
        try:
            is_found = bool(body_check(system, name, [os.path.join(place, name + ".swift")], newer))
        except Failed:
            is_found = name != "NewerSwift"
        if not is_found:
            missed.append(f"the check for {system} does not find the fault in this source: {text}")
    return missed


# MARK: - C code and programs

def compile_c(target, folder, *files):
    """Compiles files of C, which may call nothing that their oldest system does not have. Returns the objects."""
    os.makedirs(folder, exist_ok=True)
    objects = []
    for path in files:
        objects.append(os.path.join(folder, os.path.basename(path) + ".o"))
        run(f"{TOOLS}/clang", "-c", "-O", "-target", target, "-isysroot", SDK, "-Wall", "-Wextra", "-Werror",
            *["-I" + os.path.join(ROOT, "Sources", name, "include") for name in C_TARGETS], path, "-o", objects[-1])
    return objects


def c_files():
    return [path for name in C_TARGETS for path in sorted(glob.glob(os.path.join(ROOT, "Sources", name, "*.c")))]


def compile_embedded(target, module, path, *files):
    """Compiles Swift without its runtime library, which the toolchain has for Apple's processors alone."""
    run(f"{TOOLS}/swiftc", "-c", "-O", "-wmo", "-parse-as-library", "-swift-version", "6", "-target", target, "-sdk", SDK,
        "-enable-experimental-feature", "Embedded", "-enable-experimental-feature", "Extern", "-package-name", "durable", "-module-name", module,
        "-module-cache-path", os.path.join(WORK, "cache"), "-Xcc", f"-fmodule-map-file={WORK}/foreign/module.modulemap", *files, "-o", path)
    return path


def link(path, *objects):
    """Links a program for macOS. Unused code goes, as in a release."""
    root = os.path.join(WORK, "root")
    with open(LIBSYSTEM, encoding="utf-8") as file:
        # Processors that this linker does not know.
        symbols = re.sub(r",\s*arm64e\.x1-\w+|arm64e\.x1-\w+(,\s*)?", "", file.read())
    write(os.path.join(root, "usr", "lib", "libSystem.tbd"), symbols)
    run(f"{TOOLS}/ld64.lld", "-arch", "arm64", "-platform_version", "macos", "15.0", "15.0", "-syslibroot", root, "-lSystem", "-dead_strip",
        *objects, "-o", path)
    return path


def make_programs():
    """Compiles Platform for iOS and links it for macOS, and links a program with the records of two handlers. Returns what is wrong."""
    platform = [*sources("Platform"), os.path.join(OWN, "Darwin.swift"), *sorted(glob.glob(os.path.join(OWN, "embedded", "*.swift")))]
    variadic = os.path.join(OWN, "Variadic.c")
    for system, target in SYSTEMS.items():
        compile_c(target, os.path.join(WORK, system), *c_files())
    # Unlike the type check, this looks at the versions of the calls in C.
    compile_embedded(SYSTEMS["iOS"], "Platform", os.path.join(WORK, "iOS", "Platform.o"), *platform)
    # The toolchain's linker takes no objects that name one of Apple's systems.
    plain, programs = "arm64-apple-none-macho", os.path.join(WORK, "programs")
    objects = compile_c(plain, programs, *c_files(), variadic)
    code = compile_embedded(plain, "Platform", os.path.join(programs, "Platform.o"), *platform)
    link(os.path.join(programs, "platform"), *objects, code, f"{SWIFT}/embedded/{plain}/libswiftUnicodeDataTables.a")
    records = os.path.join(programs, "Records.swift")
    write(records, "".join(record_source(name) for name in ("one", "other")))
    call = os.path.join(programs, "main.c")
    write(call, '#include "CHandlerRecords.h"\nint main(void) { return dh_handler_record_count() != 2; }\n')
    code = compile_embedded(plain, "Records", os.path.join(programs, "Records.o"), records)
    program = link(os.path.join(programs, "records"), *objects, *compile_c(plain, programs, call), code)
    size = re.search(r"^ *\d+ dh_handlers +([0-9a-f]+) ", run(f"{TOOLS}/llvm-objdump", "-h", program), re.M)
    if not size or int(size[1], 16) != 2 * 8:
        return ["a linked program does not have the section dh_handlers with its two records"]
    return []


def record_source(name):
    """The record of a handler, with the attributes that @Handler writes before it."""
    with open(os.path.join(ROOT, "Sources", "HandlerExpander", "HandlerExpansion.swift"), encoding="utf-8") as file:
        attributes = re.search(r"^ *#if objectFormat\(ELF\)\n.*?^ *#endif\n", file.read(), re.M | re.S)[0]
    return f"enum {name} {{\n{attributes}private nonisolated static let record: @convention(c) (UnsafeRawPointer) -> Void = {{ _ in }}\n}}\n"


# MARK: - All of it

def main():
    try:
        reason = fetch()
    except Failed as failed:
        sys.exit(f"darwin: the headers are not the ones of {LOCK}:\n{failed}")
    if reason:
        print(f"darwin: Apple's headers cannot be fetched, so nothing was checked for Apple's systems: {reason}")
        return
    prepare()
    targets, newer = library_targets(), newer_declarations()
    with concurrent.futures.ThreadPoolExecutor() as pool:
        parts = [pool.submit(check_library, system, targets + list(TESTS) if system == "macOS" else targets, newer) for system in SYSTEMS] + [pool.submit(make_programs)]
        faults = []
        for part in parts:
            try:
                faults += part.result()
            except Failed as failed:
                faults.append(str(failed))
    for fault in faults:
        print("darwin: " + fault, file=sys.stderr)
    if not faults:
        print(f"darwin: {len(targets)} targets of the library are right for {' and '.join(SYSTEMS.values())}")
    sys.exit(1 if faults else 0)


main()
