#!/usr/bin/env python3
"""Runs every test, and prints how long the passes, the suites and the slowest tests took, and what failed.

    scripts/test.py [PREFIX ...]       the tests whose module or suite begins so: Handlers, XMPPCoreTests.JIDTests

A pass is one run of the test program. Its output is in .build/tests/PASS.log, its events in PASS.json, and the times of its tests in
PASS.times: test, seconds, seconds of a processor.
The exit status is 1 when a test failed, or did not run in a pass in which its suite promises it.
"""
import collections
import glob
import json
import os
import re
import subprocess
import sys
import threading
import time

import declared_tests

ROOT = declared_tests.ROOT
FOLDER = os.path.join(ROOT, ".build", "tests")
CORES = os.cpu_count()
# A test that hangs must not keep the results of the others: no pass takes half as long.
LIMIT = 35 * 60
# Suites that are not in the first pass. Those that kill processes keep the processors busy by themselves.
KILLING = r"^(PushwakeTests|OmemoTests|UploadTests)\."
# It has machines, databases and servers of its own, whose leases run by the clock.
FLEET = r"^HandlersPostgresTests\.FleetTests/"
# They fill stores to their bounds, which takes a processor for minutes.
FILLING = r"^XMPPModulesTests\.(BoundsTests|OldStoreTests)/"
# It counts the system calls of a process, which others must not disturb.
COUNTING = r"^PushwakeTests\.SystemCallKillTests/"

# The width is the number of tests at once. Most of them wait for a server or a process, so there are more than cores; without a
# limit all begin at once, and those that await something are behind a thousand others.
Pass = collections.namedtuple("Pass", "name engine only skipped width")
PASSES = [
    Pass("first", "sqlite", [], [KILLING, FLEET, FILLING], 4 * CORES),
    Pass("postgres", "postgres", [declared_tests.suites_on("postgres")], [], 4 * CORES),
    Pass("postgres-twice", "postgres-twice", [declared_tests.suites_on("postgres-twice")], [], 4 * CORES),
    Pass("filling", "sqlite", [FILLING], [], 4 * CORES),
    Pass("killing", "sqlite", [KILLING], [COUNTING], 2 * CORES),
    Pass("counting", "sqlite", [COUNTING], [], 2 * CORES),
    Pass("fleet", "sqlite", [FLEET], [], 2 * CORES),
]


# MARK: Running


class Running:
    """A pass whose program runs."""

    def __init__(self, each, prefixes):
        self.each, self.name = each, each.name
        self.start = time.monotonic()
        only = each.only
        if prefixes:
            wanted = "^(" + "|".join(re.escape(prefix) for prefix in prefixes) + ")"
            # Every pattern after --filter is one more that is enough, so both are one pattern.
            only = [f"(?={wanted}){pattern}" for pattern in only] or [wanted]
        command = [program(), "--testing-library", "swift-testing", "--event-stream-output-path", self.file("json")]
        command += [word for pattern in only for word in ("--filter", pattern)]
        command += [word for pattern in each.skipped for word in ("--skip", pattern)]
        environment = os.environ | {
            "HANDLERS_TEST_ENGINE": each.engine,
            "SWT_EXPERIMENTAL_MAXIMUM_PARALLELIZATION_WIDTH": str(each.width),
            "TEST_TIMES": self.file("times"),
        }
        self.log = open(self.file("log"), "wb")
        self.process = subprocess.Popen(
            ["timeout", "--signal=ABRT", "--kill-after=30", str(LIMIT)] + command, cwd=ROOT, env=environment,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.reader = threading.Thread(target=self.read)
        self.reader.start()

    def read(self):
        """Keeps the output, and shows at once what failed."""
        for line in self.process.stdout:
            self.log.write(line)
            if line.startswith("✘".encode()):
                print(f"{self.name}: {line.decode(errors='replace').rstrip()}", flush=True)

    def file(self, kind):
        return os.path.join(FOLDER, f"{self.name}.{kind}")

    def finish(self):
        self.status = self.process.wait()
        self.reader.join()
        self.log.close()
        self.seconds = time.monotonic() - self.start


def program():
    found = glob.glob(os.path.join(ROOT, ".build", "debug", "*PackageTests.xctest"))
    if len(found) != 1:
        sys.exit("test: there is no test program in .build/debug: run 'swift build --build-tests' first.")
    return found[0]


def processor_time():
    """Seconds that all processors together were busy, and seconds that have passed on all of them."""
    fields = [int(field) for field in open("/proc/stat").readline().split()[1:9]]
    ticks = os.sysconf("SC_CLK_TCK")
    return (sum(fields) - fields[3] - fields[4]) / ticks, sum(fields) / ticks


# MARK: What the passes left


def events(each):
    path = os.path.join(FOLDER, f"{each.name}.json")
    for line in open(path, encoding="utf-8", errors="replace") if os.path.exists(path) else []:
        # The last line of a program that died may not be whole.
        if line.endswith("\n"):
            yield json.loads(line)


def times(each):
    path = os.path.join(FOLDER, f"{each.name}.times")
    found = collections.defaultdict(lambda: [0.0, 0.0])
    for line in open(path, encoding="utf-8") if os.path.exists(path) else []:
        test, seconds, processor = line.rstrip("\n").split("\t")
        found[test][0] += float(seconds)
        found[test][1] += float(processor)
    return found


def place(test):
    """The place of a test function in the sources, by its id: module, suites, function, place."""
    found = re.match(r"([^.]+)\..*/([^/]+\.swift:\d+):\d+$", test)
    return f"{found.group(1)}/{found.group(2)}" if found else None


def print_times(passes):
    print("\npass              tests  seconds  processors busy")
    for each in passes:
        print(f"{each.name:16} {each.count:6}  {each.seconds:7.1f}  {each.busy:14.0%}")
    suites, tests = collections.defaultdict(lambda: [0.0, 0.0, 0]), []
    for each in passes:
        for test, (seconds, processor) in times(each).items():
            suite = test.split("/")[0]
            suites[suite][0] += seconds
            suites[suite][1] += processor
            suites[suite][2] += 1
            tests.append((seconds, processor, f"{test.rsplit('/', 1)[0]} ({each.name})"))
    print("\nsuite                                                 tests  seconds  of a processor in its threads")
    long = [(name, numbers) for name, numbers in suites.items() if numbers[0] >= 5]
    for name, (seconds, processor, count) in sorted(long, key=lambda item: -item[1][0]):
        print(f"{name:52} {count:6}  {seconds:7.1f}  {processor:7.1f}")
    short = [numbers for numbers in suites.values() if numbers[0] < 5]
    print(f"{len(short)} suites below 5 s".ljust(52), f"{sum(n[2] for n in short):6}  {sum(n[0] for n in short):7.1f}  {sum(n[1] for n in short):7.1f}")
    print("\nthe slowest tests")
    for seconds, processor, test in sorted(tests, reverse=True)[:10]:
        print(f"{seconds:7.1f} s, {processor:6.1f} s of a processor  {test}")


def failures(passes):
    """A sentence for each test that failed, and for each program that did not end well."""
    found = []
    for each in passes:
        issues = 0
        for event in events(each):
            payload = event["payload"]
            if payload.get("kind") != "issueRecorded" or payload.get("issue", {}).get("isKnown"):
                continue
            issues += 1
            said = " ".join(message["text"] for message in payload["messages"])
            found.append(f"{each.name}: {payload.get('testID', '')}: {said}"[:600])
        if each.status and not issues:
            log = open(os.path.join(FOLDER, f"{each.name}.log"), errors="replace").read()
            found.append(f"{each.name}: the test program ended with status {each.status}; its last output:\n{log[-1500:]}")
    return found


def missing(passes):
    """The tests that did not run in a pass of an engine on which their suite promises to run."""
    found = []
    for engine in sorted({each.engine for each in passes}):
        ran, skipped = set(), set()
        for each in passes:
            if each.engine == engine:
                for event in events(each):
                    kind, test = event["payload"].get("kind"), event["payload"].get("testID", "")
                    if kind in ("testStarted", "testSkipped"):
                        (ran if kind == "testStarted" else skipped).add(place(test))
        for test in declared_tests.all_tests():
            if engine in test.engines and test.place not in ran and test.place not in skipped:
                found.append(f"{engine}: {test.place}, of {test.suite}")
    return found


def main():
    prefixes = sys.argv[1:]
    os.makedirs(FOLDER, exist_ok=True)
    for name in glob.glob(os.path.join(FOLDER, "*")):
        os.remove(name)
    passes = []
    for each in PASSES:
        busy, all_time = processor_time()
        running = Running(each, prefixes)
        running.finish()
        later = processor_time()
        running.engine, running.busy = each.engine, (later[0] - busy) / (later[1] - all_time)
        running.count = len({event["payload"]["testID"] for event in events(running) if event["payload"].get("kind") == "testStarted" and place(event["payload"]["testID"])})
        passes.append(running)
        print(f"{running.name}: {running.count} tests, {running.seconds:.0f} s, status {running.status}", flush=True)
    print_times(passes)
    wrong = failures(passes)
    if not prefixes:
        wrong += [f"did not run: {test}" for test in missing(passes)]
    if wrong:
        print("\nWhat failed:", file=sys.stderr)
        for sentence in wrong:
            print("  " + sentence, file=sys.stderr)
        sys.exit(1)


main()
