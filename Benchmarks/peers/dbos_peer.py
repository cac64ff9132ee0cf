"""The step of the benchmarks as a program with DBOS makes it: a workflow with one step that adds to a counter.

    dbos_peer.py rate FOLDER SECONDS   prints how many workflows a second end, one after the other
    dbos_peer.py fill FOLDER COUNT     does nothing: a start makes its own workflow
    dbos_peer.py one FOLDER            runs one and prints the most memory it had, in KiB
    dbos_peer.py workflows FOLDER N    starts N workflows of three steps at once, and prints how many a second end

The file of DBOS is put into WAL mode beforehand, which is quicker than what it does by itself; each commit waits for
the disk, as ours do.
"""
import logging
import os
import sqlite3
import sys
import time

logging.disable(logging.CRITICAL)


def peak_kibibytes():
    with open("/proc/self/status") as status:
        return next(line.split()[1] for line in status if line.startswith("VmHWM"))


def open_wal(path):
    database = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    database.execute("PRAGMA journal_mode = WAL")
    database.execute("PRAGMA synchronous = FULL")
    return database


def main(mode, folder, number=1):
    if mode == "fill":
        return
    from dbos import DBOS

    open_wal(f"{folder}/dbos.db").close()
    effects = open_wal(f"{folder}/effect.db")
    effects.execute("CREATE TABLE IF NOT EXISTS effect(id INTEGER PRIMARY KEY, total INTEGER NOT NULL)")
    effects.execute("INSERT OR IGNORE INTO effect VALUES (1, 0)")
    DBOS(
        config={
            "name": "bench",
            "system_database_url": f"sqlite:///{folder}/dbos.db",
            "run_admin_server": False,
            "log_level": "CRITICAL",
        }
    )

    @DBOS.step()
    def add(padding):
        effects.execute("UPDATE effect SET total = total + 1 WHERE id = 1")

    @DBOS.workflow()
    def advance(count, padding):
        add(padding)
        return count

    @DBOS.workflow()
    def errand(n):
        for _ in range(3):
            add("")
        return n

    DBOS.launch()
    padding = "x" * 240
    if mode == "workflows":
        start = time.perf_counter()
        handles = [DBOS.start_workflow(errand, n) for n in range(int(number))]
        assert [handle.get_result() for handle in handles] == list(range(int(number)))
        print(int(number) / (time.perf_counter() - start), flush=True)
    elif mode == "one":
        advance(0, padding)
        print(peak_kibibytes(), flush=True)
    else:
        ended, start = 0, time.perf_counter()
        while time.perf_counter() - start < float(number):
            advance(ended, padding)
            ended += 1
        print(ended / (time.perf_counter() - start), flush=True)
    # Without waiting for its threads, which poll.
    os._exit(0)


main(*sys.argv[1:])
