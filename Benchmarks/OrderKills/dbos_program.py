"""A program around the order of Benchmarks/peers/dbos_orders.py: OrderProgram in Python.

    dbos_program.py FOLDER SOCKET
"""
import logging
import os
import socket
import sqlite3
import sys
import time

logging.disable(logging.CRITICAL)
FOLDER, SOCKET = sys.argv[1:]
# Quicker than the rollback journal that both have by themselves; each commit waits for the disk, as ours do.
for name in ("dbos.db", "orders.db"):
    with sqlite3.connect(f"{FOLDER}/{name}") as database:
        database.execute("PRAGMA journal_mode = WAL")
    database.close()
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../peers"))
import dbos_orders
from dbos import DBOS


def request(line):
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(10)
        connection.connect(SOCKET)
        connection.sendall(f"{line}\n".encode())
        answer = b""
        while part := connection.recv(4096):
            answer += part
    if not answer:
        raise dbos_orders.OrderError(f"no answer to {line}")
    return answer.decode()


dbos_orders.service = lambda what, key: request(f"{what} {key}")
dbos_orders.launch()
while True:
    events = request("next").splitlines()[1:]
    for event in events:
        number, kind, order, cents = event.split()
        # Events come at least once. DBOS knows the id of a workflow that it has started, and the key of a message.
        if kind == "order":
            dbos_orders.start(order, int(cents))
        else:
            DBOS.send(f"order-{order}", {"cents": int(cents)}, topic="payment", idempotency_key=f"payment-{order}")
        request(f"ack {number}")
    if not events:
        time.sleep(0.02)
