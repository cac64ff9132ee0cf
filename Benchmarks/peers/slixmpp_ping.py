"""Requests to a server and back, as a program with slixmpp makes them: futures in memory, some in flight at once.

    slixmpp_ping.py JID PASSWORD PORT CA COUNT WINDOW   prints "rate" and how many a second
"""
import asyncio
import sys
import time

import slixmpp


class Pinger(slixmpp.ClientXMPP):
    def __init__(self, jid, password, count, window):
        super().__init__(jid, password)
        self.count, self.window = count, window
        self.register_plugin("xep_0199")
        self.register_plugin("xep_0198")
        self.add_event_handler("session_start", self.begin)

    async def begin(self, _):
        self.left = self.count
        start = time.monotonic()
        await asyncio.gather(*(self.chain() for _ in range(self.window)))
        print("rate", self.count / (time.monotonic() - start), flush=True)
        await self.disconnect()

    async def chain(self):
        while self.left > 0:
            self.left -= 1
            await self.plugin["xep_0199"].send_ping("localhost", timeout=30)


def main(jid, password, port, authority, count, window):
    client = Pinger(jid, password, int(count), int(window))
    client.ca_certs = authority
    client.connect("127.0.0.1", int(port))
    client.loop.run_until_complete(client.disconnected)


main(*sys.argv[1:])
