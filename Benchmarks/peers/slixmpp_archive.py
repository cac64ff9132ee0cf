"""An archive stored in SQLite as a program with slixmpp does it: each message once, each page in one transaction.

    slixmpp_archive.py JID PASSWORD PORT CA DATABASE COUNT   prints "rate" and how many a second
"""
import sqlite3
import sys
import time

import slixmpp

PAGE = 250


class Reader(slixmpp.ClientXMPP):
    def __init__(self, jid, password, database, count):
        super().__init__(jid, password)
        self.count = count
        self.register_plugin("xep_0313")
        self.add_event_handler("session_start", self.begin)
        self.store = sqlite3.connect(database, isolation_level=None)
        self.store.execute("PRAGMA journal_mode = WAL")
        self.store.execute("PRAGMA synchronous = FULL")
        self.store.execute("CREATE TABLE message(id TEXT PRIMARY KEY, peer TEXT, body TEXT NOT NULL)")

    async def begin(self, _):
        start = time.monotonic()
        after = None
        stored = 0
        while stored < self.count:
            answer = await self["xep_0313"].retrieve(rsm={"max": PAGE, "after": after} if after else {"max": PAGE})
            results = answer["mam"]["results"]
            self.store.execute("BEGIN IMMEDIATE")
            for message in results:
                result = message["mam_result"]
                kept = result["forwarded"]["stanza"]
                self.store.execute(
                    "INSERT OR IGNORE INTO message VALUES (?, ?, ?)", (result["id"], str(kept["from"]), kept["body"]))
            self.store.execute("COMMIT")
            after = results[-1]["mam_result"]["id"]
            stored += len(results)
        print("rate", stored / (time.monotonic() - start), flush=True)
        await self.disconnect()


def main(jid, password, port, authority, database, count):
    client = Reader(jid, password, database, int(count))
    client.ca_certs = authority
    client.connect("127.0.0.1", int(port))
    client.loop.run_until_complete(client.disconnected)


main(*sys.argv[1:])
