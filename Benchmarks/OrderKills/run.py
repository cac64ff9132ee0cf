#!/usr/bin/env python3
"""Kills programs that run the same order many times, and prints a table of what became of the orders.

    run.py KILLS NAME=SAMPLE=COMMAND... [--seed N] [--window SECONDS] [--bound SECONDS]

NAME is the row of the table, SAMPLE the file whose lines are counted, COMMAND the program: it gets a folder and the path of a
socket, at which this program stands for three suppliers, a charging service and the payments. Each request has a connection of its
own, and a key. The first request with a key has its effect, and no answer; later ones with that key have no effect, and an answer.

A program is started KILLS times, each time with two more orders, and killed with SIGKILL at a random moment within the window after
its first request for events. Then it is started once more and has the bound to end all orders. The seed decides the moments; they are
the same for all programs. The exit status is 1 when an order was lost or an effect doubled.
"""
import argparse
import collections
import os
import random
import signal
import socketserver
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import threading
import time

ORDERS_FOR_EACH_KILL = 2
EVENTS_AT_ONCE = 20


class Service:
    """Suppliers, charging service and payments."""

    def __init__(self, seed):
        self.lock = threading.Lock()
        self.random = random.Random(seed)
        self.effects = collections.defaultdict(set)  # for what was requested, the keys
        self.keys = set()
        self.requests = 0
        self.events = {}  # by number, the moment from which it is sent, and the text
        self.numbered = self.orders = 0
        self.paid = set()
        self.is_asked = threading.Event()

    def add_event(self, text, delay=0.0):
        self.numbered += 1
        self.events[self.numbered] = (time.monotonic() + delay, text)

    def add_orders(self):
        with self.lock:
            for _ in range(ORDERS_FOR_EACH_KILL):
                self.orders += 1
                self.add_event(f"order {self.orders} 1999")

    def answer(self, line):
        *what, key = line.split()
        with self.lock:
            if what == []:  # next
                self.is_asked.set()
                now = time.monotonic()
                due = [f"{number} {text}" for number, (moment, text) in self.events.items() if moment <= now]
                return "\n".join(["events"] + due[:EVENTS_AT_ONCE])
            if what == ["ack"]:
                self.events.pop(int(key), None)
                return "ok"
            self.requests += 1
            self.effects[" ".join(what)].add(key)
            if key not in self.keys:
                self.keys.add(key)
                return None
            if what[0] == "charge" and what[1] not in self.paid:
                self.paid.add(what[1])
                self.add_event(f"payment {what[1]} 1999", self.random.uniform(0, 0.5))
            return "ok"


class Connection(socketserver.StreamRequestHandler):
    def handle(self):
        try:
            line = self.rfile.readline().decode()
            answer = self.server.service.answer(line) if line.endswith("\n") else None
            if answer is not None:
                self.wfile.write(answer.encode())
        except OSError:
            pass  # The program was killed.


class Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    daemon_threads = True
    request_queue_size = 1024


def log_lines(path):
    """How often each order has ended as paid and as released."""
    paid, released = collections.Counter(), collections.Counter()
    try:
        database = sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=30)
        for (text,) in database.execute("SELECT text FROM log"):
            words = text.split()
            if words[0] == "bill":
                paid[words[1]] += 1
            elif words[0] == "order":
                released[words[1]] += 1
        database.close()
    except sqlite3.OperationalError as error:
        print(f"  {error}", file=sys.stderr)
    return paid, released


def run(name, command, arguments):
    """Kills one program again and again; returns the row of the table."""
    moments = random.Random(arguments.seed)
    folder = tempfile.TemporaryDirectory(prefix="order-kills-")
    service = Service(arguments.seed)
    server = Server(f"{folder.name}/socket", Connection)
    server.service = service
    threading.Thread(target=server.serve_forever, daemon=True).start()
    start, starts, early = time.monotonic(), [], 0
    output = open(f"{folder.name}/output", "w+")

    def launch():
        service.is_asked.clear()
        begun = time.monotonic()
        process = subprocess.Popen([*command, folder.name, f"{folder.name}/socket"], stdout=output, stderr=output)
        while not service.is_asked.wait(0.1) and process.poll() is None and time.monotonic() < begun + 120:
            pass
        starts.append(time.monotonic() - begun)
        return process

    for count in range(arguments.kills):
        service.add_orders()
        process = launch()
        time.sleep(moments.uniform(0, arguments.window))
        early += process.poll() is not None
        process.send_signal(signal.SIGKILL)
        process.wait()
        if count % 50 == 49:
            print(f"  {name}: {count + 1} kills, {time.monotonic() - start:.0f} s", file=sys.stderr)
    killed = time.monotonic()
    process = launch()
    while time.monotonic() < killed + arguments.bound and process.poll() is None:
        paid, released = log_lines(f"{folder.name}/orders.db")
        if len(paid | released) >= service.orders:
            break
        time.sleep(0.5)
    end = time.monotonic()
    # So that an effect that is doubled late is seen, too.
    time.sleep(1)
    early += process.poll() is not None
    process.kill()
    process.wait()
    server.shutdown()
    server.server_close()
    paid, released = log_lines(f"{folder.name}/orders.db")
    if early:
        output.seek(0)
        print(f"  {name} ended by itself {early} times; its output:\n{output.read()[-2000:]}", file=sys.stderr)
    orders = [str(number) for number in range(1, service.orders + 1)]
    # An order that was paid without having been charged or without two reservations has lost an effect.
    incomplete = [order for order in paid if not service.effects.get(f"charge {order}")
                  or sum(bool(service.effects.get(f"reserve {order} {supplier}")) for supplier in ("Ada", "Bob", "Eve")) < 2]
    return {
        "orders": len(orders),
        "paid": sum(order in paid for order in orders),
        "released": sum(order in released for order in orders),
        "lost": sum(order not in paid and order not in released for order in orders) + len(incomplete),
        "doubled": sum(len(keys) - 1 for keys in service.effects.values())
        + sum(count - 1 for count in (paid + released).values()),
        "again": service.requests - 2 * len(service.keys),
        "killing": killed - start,
        "after": end - killed,
        "start": statistics.median(starts),
    }


def code_lines(path):
    """Lines that are neither empty nor a comment."""
    with open(path, encoding="utf-8") as file:
        text = file.read()
    if path.endswith(".py"):
        text = "".join(part for index, part in enumerate(text.split('"""')) if index % 2 == 0)
    lines = [line.strip() for line in text.split("\n")]
    return sum(bool(line) and not line.startswith(("#!", "# ", "//")) for line in lines)


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("kills", type=int)
    parser.add_argument("programs", nargs="+")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--window", type=float, default=2)
    parser.add_argument("--bound", type=float, default=1200)
    arguments = parser.parse_args()
    print("| | orders | paid | released | lost | doubled | requests again | time with kills | time after | start | lines |")
    print("|---|---|---|---|---|---|---|---|---|---|---|", flush=True)
    is_right = True
    for program in arguments.programs:
        name, sample, command = program.split("=", 2)
        row = run(name, command.split(), arguments)
        is_right &= row["lost"] == 0 and row["doubled"] == 0
        print(f"| {name} | {row['orders']} | {row['paid']} | {row['released']} | {row['lost']} | {row['doubled']} | {row['again']} "
              f"| {row['killing']:.0f} s | {row['after']:.1f} s | {row['start'] * 1000:.0f} ms | {code_lines(sample)} |", flush=True)
    sys.exit(0 if is_right else 1)


main()
