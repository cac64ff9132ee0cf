"""A worker on slixmpp: resumes the session that another program left, handles a message and an answered request, tells the
server so and is gone. It stores nothing.

    slixmpp_wake.py JID PASSWORD PORT CA STATE   prints one JSON object: when it got how far, in nanoseconds of the monotonic
                                                 clock
"""
import time

reached = {"main": time.monotonic_ns()}

import asyncio
import json
import os
import sys

import slixmpp
from slixmpp.xmlstream.handler import Callback
from slixmpp.xmlstream.matcher import MatchXPath


class Worker(slixmpp.ClientXMPP):
    def __init__(self, jid, password, state):
        super().__init__(jid, password)
        self.enable_starttls = False
        with open(state) as file:
            kept = json.load(file)
        self.register_plugin("xep_0198", {"sm_id": kept["sm_id"], "handled": kept["handled"]})
        management = self.plugin["xep_0198"]
        management.sm_id, management.handled = kept["sm_id"], kept["handled"]
        management.seq = management.last_ack = kept["seq"]
        self.waiting = {"message", "answer"}
        self.add_event_handler("tls_success", lambda _: self.mark("protected"))
        self.add_event_handler("session_resumed", lambda _: self.mark("resumed"))
        self.add_event_handler("session_start", lambda _: self.fail("the session was not resumed"))
        self.add_event_handler("failed_all_auth", lambda _: self.fail("the login was refused"))
        self.register_handler(
            Callback("Messages", MatchXPath("{jabber:client}message"), lambda _: self.handle("message"))
        )
        self.register_handler(Callback("Answers", MatchXPath("{jabber:client}iq"), lambda _: self.handle("answer")))

    def mark(self, name):
        reached.setdefault(name, time.monotonic_ns())

    def fail(self, reason):
        print(reason, file=sys.stderr, flush=True)
        os._exit(1)

    def handle(self, kind):
        self.mark("handled")
        self.waiting.discard(kind)
        if not self.waiting:
            asyncio.get_running_loop().call_soon(self.leave)

    def leave(self):
        self.plugin["xep_0198"].send_ack()
        asyncio.get_running_loop().call_soon(self.end)

    def end(self):
        # As short as can be: nothing of Python is torn down.
        self.mark("closed")
        print(json.dumps({"timings": reached}), flush=True)
        os._exit(0)


async def main(jid, password, port, authority, state):
    worker = Worker(jid, password, state)
    worker.ca_certs = authority
    worker.mark("opened")
    worker.connect("127.0.0.1", int(port))
    await asyncio.sleep(30)
    worker.fail("nothing happened for 30 s")


asyncio.run(main(*sys.argv[1:]))
