#!/usr/bin/env python3
"""Runs every test, and prints how long the passes, the suites and the slowest tests took, and what failed.

    scripts/test.py [PREFIX ...]       the tests whose module or suite begins so: Handlers, JIDTests, XMPPCoreTests.JIDTests
        --build FOLDER                 of a build in another folder than .build, which may be several times slower
        --skip PATTERN                 without the tests whose id matches; several times for several patterns

A pass is one run of the test program. Its output is in .build/tests/PASS.log, its events in PASS.json, and the times of its tests in
PASS.times: test, seconds, seconds of a processor.
The exit status is 1 when a test failed, or did not run in a pass in which its suite promises it.
"""
import argparse
import collections
import contextlib
import glob
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time

import declared_tests

ROOT = declared_tests.ROOT
FOLDER = os.path.join(ROOT, ".build", "tests")
CORES = os.cpu_count()
# A test that hangs must not keep the results of the others: no pass takes half as long, and four times that with a sanitizer.
LIMIT = 35 * 60
SLOW_LIMIT = 4 * LIMIT
# What all tests together write at most, with room to spare.
MEMORY = 4 << 30
# The suites that run with each step twice: see TestEngine.swift.
TWICE = "postgres" if os.environ.get("TEST_SCALE") == "full" else "postgres-twice"
# They have real servers, on which some tests take minutes, so they start first.
SERVERS = declared_tests.suites_with("realServers")
# Each starts processes of `pushwake` again and again.
COMMANDS = r"^PushwakeTests\."
# It counts the system calls of a process, which others must not disturb.
COUNTING = r"^PushwakeTests\.SystemCallKillTests/"

# The width is the number of tests at once. Most of them wait for a server or a process, so there are more than cores; without a
# limit all start at once, and those that await something are behind a thousand others.
Pass = collections.namedtuple("Pass", "name engine only skipped width")
# The passes of one group run side by side: what one of them waits for, another one uses.
GROUPS = [
    [
        Pass("sqlite", "sqlite", [], [SERVERS, COMMANDS], 2 * CORES),
        Pass("servers", "sqlite", [SERVERS], [], 2 * CORES),
        Pass("commands", "sqlite", [COMMANDS], [COUNTING], CORES),
        Pass("postgres", "postgres", [declared_tests.suites_on("postgres")], [], CORES),
        Pass("postgres-twice", "postgres-twice", [declared_tests.suites_on(TWICE)], [], 1),
    ],
    [Pass("counting", "sqlite", [COUNTING], [], CORES)],
]


# The status of a test program that no test was asked of.
NO_TESTS = 69

# MARK: Running


class Running:
    """A pass whose program runs."""

    def __init__(self, each, options, temporary):
        prefixes = options.prefixes
        self.name, self.engine, self.has_prefixes = each.name, each.engine, bool(prefixes)
        self.start = time.monotonic()
        only = each.only
        if prefixes:
            wanted = r"^([^./]+\.)?(" + "|".join(re.escape(prefix) for prefix in prefixes) + ")"
            # Every pattern after --filter is one more that is enough, so both are one pattern.
            only = [f"(?={wanted}){pattern}" for pattern in only] or [wanted]
        command = [program(options.build), "--testing-library", "swift-testing", "--event-stream-output-path", self.file("json")]
        command += [word for pattern in only for word in ("--filter", pattern)]
        command += [word for pattern in each.skipped + options.skip for word in ("--skip", pattern)]
        environment = os.environ | {
            "HANDLERS_TEST_ENGINE": each.engine,
            "SWT_EXPERIMENTAL_MAXIMUM_PARALLELIZATION_WIDTH": str(each.width),
            "TEST_TIMES": self.file("times"),
            "TMPDIR": temporary,
        }
        self.log = open(self.file("log"), "wb")
        self.process = subprocess.Popen(
            ["timeout", "--signal=ABRT", "--kill-after=30", str(options.limit)] + command, cwd=ROOT, env=environment,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.reader = threading.Thread(target=self.read)
        self.reader.start()

    def read(self):
        """Keeps the output, and shows at once what failed."""
        for line in self.process.stdout:
            self.log.write(line)
            if line.startswith(("✘".encode(), b"\x1b")) and "✘".encode() in line[:16]:
                print(f"{self.name}: {line.decode(errors='replace').rstrip()}", flush=True)

    def file(self, kind):
        return os.path.join(FOLDER, f"{self.name}.{kind}")

    def finish(self):
        _, status, usage = os.wait4(self.process.pid, 0)
        self.status = self.process.returncode = os.waitstatus_to_exitcode(status)
        self.reader.join()
        self.log.close()
        self.seconds = time.monotonic() - self.start
        # Of the program and of all processes that it started and waited for.
        self.processor = usage.ru_utime + usage.ru_stime
        self.count = len({each["payload"]["testID"] for each in events(self) if is_start_of_test(each["payload"])})
        if prefixes_leave_nothing(self):
            self.status = 0
        else:
            print(f"{self.name}: {self.count} tests, {self.seconds:.0f} s, status {self.status}", flush=True)


def program(build):
    found = glob.glob(os.path.join(ROOT, build, "debug", "*PackageTests.xctest"))
    if len(found) != 1:
        sys.exit(f"test: there is no test program in {build}/debug: run 'swift build --build-tests' first.")
    return found[0]


def processor_time():
    """Seconds that all processors together were busy, and seconds that have passed on all of them."""
    fields = [int(field) for field in open("/proc/stat").readline().split()[1:9]]
    ticks = os.sysconf("SC_CLK_TCK")
    return (sum(fields) - fields[3] - fields[4]) / ticks, sum(fields) / ticks


@contextlib.contextmanager
def temporary_folder():
    """A folder for what the tests write: in memory where that is large enough, because most of them lose no power."""
    memory = "/dev/shm"
    free = shutil.disk_usage(memory).free if os.path.isdir(memory) else 0
    # What a run has left that was killed.
    for left in glob.glob(os.path.join(memory, "tests-*-*")):
        process = os.path.basename(left).split("-")[1]
        if not os.path.exists(f"/proc/{process}"):
            shutil.rmtree(left, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix=f"tests-{os.getpid()}-", ignore_cleanup_errors=True, dir=memory if free >= MEMORY else None) as folder:
        # Servers and some tests run as other users.
        os.chmod(folder, 0o755)
        yield folder


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


def prefixes_leave_nothing(running):
    return running.has_prefixes and running.status == NO_TESTS


def is_start_of_test(payload):
    return payload.get("kind") == "testStarted" and place(payload["testID"]) is not None


def print_times(passes):
    print("\npass              tests  seconds  of a processor")
    for each in passes:
        print(f"{each.name:16} {each.count:6}  {each.seconds:7.1f}  {each.processor:14.1f}")
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


def missing(passes, left_out):
    """The tests that did not run in a pass of an engine on which their suite promises to run.

    left_out has patterns of ids."""
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
            if any(re.search(pattern, test.suite + "/") for pattern in left_out):
                continue
            if engine in test.engines and test.place not in ran and test.place not in skipped:
                found.append(f"{engine}: {test.place}, of {test.suite}")
    return found


def read_options():
    parser = argparse.ArgumentParser()
    parser.add_argument("prefixes", nargs="*")
    parser.add_argument("--build", default=".build")
    parser.add_argument("--skip", action="append", default=[])
    options = parser.parse_args()
    options.limit = LIMIT if options.build == ".build" else SLOW_LIMIT
    return options


def main():
    options = read_options()
    prefixes = options.prefixes
    os.makedirs(FOLDER, exist_ok=True)
    for name in glob.glob(os.path.join(FOLDER, "*")):
        os.remove(name)
    passes, start, before = [], time.monotonic(), processor_time()
    with temporary_folder() as temporary:
        for group in GROUPS:
            running = [Running(each, options, temporary) for each in group]
            waiting = [threading.Thread(target=each.finish) for each in running]
            for thread in waiting:
                thread.start()
            for thread in waiting:
                thread.join()
            passes += running
    after = processor_time()
    busy = (after[0] - before[0]) / (after[1] - before[1])
    print(f"\nAll passes took {time.monotonic() - start:.0f} s, in which the processors were busy for {busy:.0%}.")
    print_times(passes)
    wrong = failures(passes)
    if not prefixes:
        wrong += [f"did not run: {test}" for test in missing(passes, options.skip)]
    elif not any(each.count for each in passes):
        wrong.append("no module or suite begins with " + " or ".join(prefixes))
    if wrong:
        print("\nWhat failed:", file=sys.stderr)
        for sentence in wrong:
            print("  " + sentence, file=sys.stderr)
        sys.exit(1)


main()
