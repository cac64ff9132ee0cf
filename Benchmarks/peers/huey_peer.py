"""The step of the benchmarks as a program with huey makes it: one task runs, adds to a counter and leaves the next.

    huey_peer.py rate FOLDER SECONDS   prints how many tasks a second end, one after the other
    huey_peer.py fill FOLDER COUNT     leaves tasks that wait
    huey_peer.py one FOLDER            runs one of them and prints the most memory it had, in KiB
    huey_peer.py workflows FOLDER N    leaves N chains of three tasks at once, and prints how many a second end

Queue and counter are SQLite files in WAL mode; each commit waits for the disk, as ours do.
"""
import sqlite3
import sys
import time

from huey import SqliteHuey

PADDING = "x" * 240


def peak_kibibytes():
    with open("/proc/self/status") as status:
        return next(line.split()[1] for line in status if line.startswith("VmHWM"))


def main(mode, folder, number=1):
    huey = SqliteHuey("bench", filename=f"{folder}/huey.db", fsync=True, results=False)
    effects = sqlite3.connect(f"{folder}/effect.db", isolation_level=None)
    effects.execute("PRAGMA journal_mode = WAL")
    effects.execute("PRAGMA synchronous = FULL")
    effects.execute("CREATE TABLE IF NOT EXISTS effect(id INTEGER PRIMARY KEY, total INTEGER NOT NULL)")
    effects.execute("INSERT OR IGNORE INTO effect VALUES (1, 0)")

    @huey.task(name="advance")
    def advance(count, padding):
        effects.execute("UPDATE effect SET total = total + 1 WHERE id = 1")
        advance(count + 1, padding)

    @huey.task(name="errand")
    def errand(n, left):
        effects.execute("UPDATE effect SET total = total + 1 WHERE id = 1")
        if left > 1:
            errand(n, left - 1)

    if mode == "workflows":
        huey.flush()
        start = time.perf_counter()
        for n in range(int(number)):
            errand(n, 3)
        for _ in range(3 * int(number)):
            huey.execute(huey.dequeue())
        print(int(number) / (time.perf_counter() - start))
    elif mode == "fill":
        for count in range(int(number)):
            advance(count, PADDING)
    elif mode == "one":
        huey.execute(huey.dequeue())
        print(peak_kibibytes())
    else:
        advance(0, PADDING)
        ended, start = 0, time.perf_counter()
        while time.perf_counter() - start < float(number):
            huey.execute(huey.dequeue())
            ended += 1
        print(ended / (time.perf_counter() - start))


main(*sys.argv[1:])
