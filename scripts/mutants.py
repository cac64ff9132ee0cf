#!/usr/bin/env python3
"""Proves that the tests can fail: builds the package once with many small faults in it, each behind a switch, and runs, for
each fault, the tests that name what it breaks. One that they do not notice survives, and needs a test.

    scripts/mutants.py [ID-PREFIX ...]     all of Tests/mutants.txt, or those whose id begins so
    scripts/mutants.py --check             only looks whether every fault still fits its source

The exit status is 1 when one survived, 2 when the list does not fit the sources.
"""
import os
import re
import shutil
import subprocess
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
WORK = os.path.join(ROOT, ".build", "mutants")
LIST = os.path.join(ROOT, "Tests", "mutants.txt")
# Longer than any of the suites takes; a fault may also make one hang, which is noticed.
LIMIT = 300
SWITCH = """import Glibc

private let active = getenv("MUTANT").map { String(cString: $0) }

/// Whether the fault of that name is switched on.
func mutant(_ id: String) -> Bool { active == id }
"""


def fail(text):
    print("mutants: " + text, file=sys.stderr)
    sys.exit(2)


def read_list():
    mutants = []
    for block in open(LIST, encoding="utf-8").read().split("\n\n"):
        lines = [line for line in block.split("\n") if line and not line.startswith("#")]
        if not lines:
            continue
        fields = dict(line.split(" ", 1) for line in lines if line[0] not in "-+")
        old = "\n".join(line[2:] for line in lines if line[0] == "-")
        new = "\n".join(line[2:] for line in lines if line[0] == "+")
        if set(fields) != {"id", "suite", "file"} or not old or not new:
            fail("a block is not of the form id, suite, file, '- old', '+ new':\n" + block)
        mutants.append(fields | {"old": old, "new": new})
    ids = [mutant["id"] for mutant in mutants]
    twice = {id for id in ids if ids.count(id) > 1}
    if twice:
        fail("these ids stand there twice: " + ", ".join(sorted(twice)))
    return mutants


def mutated(mutants):
    """The content of each file with its faults, by path."""
    contents = {}
    for mutant in mutants:
        path = mutant["file"]
        text = contents.get(path) or open(os.path.join(ROOT, path), encoding="utf-8").read()
        count = text.count(mutant["old"])
        if count != 1:
            fail(f"'{mutant['id']}' finds its text {count} times in {path}; bring Tests/mutants.txt up to date")
        contents[path] = text.replace(mutant["old"], mutant["new"].replace("MUTANT", f'mutant("{mutant["id"]}")'))
    for target in {"/".join(path.split("/")[:2]) for path in contents}:
        contents[target + "/MutantSwitch.swift"] = SWITCH
    return contents


def copy(contents):
    """Brings the copy of the package up to date; what is the same keeps its time, so that little is built again."""
    files = subprocess.check_output(["git", "ls-files", "-z"], cwd=ROOT).decode().split("\0")
    wanted = {path for path in files if path and os.path.isfile(os.path.join(ROOT, path))} | set(contents)
    source = os.path.join(WORK, "source")
    for folder, folders, names in os.walk(source):
        folders[:] = [name for name in folders if name != ".build"]
        for name in names:
            path = os.path.relpath(os.path.join(folder, name), source)
            if path not in wanted:
                os.remove(os.path.join(source, path))
    for path in wanted:
        target = os.path.join(source, path)
        data = contents[path].encode() if path in contents else open(os.path.join(ROOT, path), "rb").read()
        if os.path.isfile(target) and open(target, "rb").read() == data:
            continue
        os.makedirs(os.path.dirname(target), exist_ok=True)
        with open(target, "wb") as file:
            file.write(data)
        shutil.copymode(os.path.join(ROOT, path) if os.path.exists(os.path.join(ROOT, path)) else LIST, target)
    os.makedirs(os.path.join(source, ".build"), exist_ok=True)
    peers = os.path.join(source, ".build", "peers")
    if not os.path.lexists(peers):
        os.symlink(os.path.join(ROOT, ".build", "peers"), peers)
    return source


def run(source, suites, id):
    """Runs suites with a fault: whether they passed, how many tests ran, and what was said."""
    command = ["swift", "test", "--skip-build", "--disable-xctest", "--filter", suites]
    environment = os.environ | {"MUTANT": id, "SWT_EXPERIMENTAL_MAXIMUM_PARALLELIZATION_WIDTH": "8", "SWIFT_BACKTRACE": "enable=no"}
    process = subprocess.Popen(
        command, cwd=source, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        text=True, errors="replace", start_new_session=True)
    try:
        said, _ = process.communicate(timeout=LIMIT)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, 9)
        said, _ = process.communicate()
        return False, 1, said + "\nit did not end"
    count = re.search(r"Test run with (\d+) test", said)
    return process.returncode == 0, int(count.group(1)) if count else 0, said


def reason(said):
    found = re.search(r'✘ Test "?(.*?)"? (?:recorded|failed|with)', said)
    if found:
        return found.group(1)
    return "it did not end" if said.endswith("it did not end") else "the process died"


def main():
    mutants = read_list()
    if "--check" in sys.argv:
        mutated(mutants)
        print(f"{len(mutants)} faults fit their sources.")
        return
    prefixes = tuple(sys.argv[1:]) or ("",)
    chosen = [mutant for mutant in mutants if mutant["id"].startswith(prefixes)]
    if not chosen:
        fail("no fault's id begins with " + " or ".join(f"'{prefix}'" for prefix in prefixes))
    source = copy(mutated(mutants))
    subprocess.run(["swift", "build", "--quiet", "--build-tests"], cwd=source, check=True)
    suites = "|".join(sorted({f"({mutant['suite']})" for mutant in chosen}))
    passed, count, said = run(source, suites, "none")
    if not passed or count == 0:
        print(said)
        fail("without a fault the tests do not pass")
    survivors = []
    for mutant in chosen:
        begin = time.monotonic()
        passed, count, said = run(source, mutant["suite"], mutant["id"])
        if passed and count == 0:
            fail(f"'{mutant['id']}' names no test: {mutant['suite']}")
        seconds = time.monotonic() - begin
        print(f"{'SURVIVED' if passed else 'caught  '} {mutant['id']:<34} {seconds:5.1f} s  {'' if passed else reason(said)}", flush=True)
        if passed:
            survivors.append(mutant["id"])
    print(f"{len(chosen) - len(survivors)} of {len(chosen)} faults were caught.")
    if survivors:
        print("These survived; their suites need a test: " + ", ".join(survivors), file=sys.stderr)
        sys.exit(1)


main()
