"""The other side of the wake benchmark: it asks and answers only when it is told to, so that what a worker finds waiting
is the same each time.

    wake_peer.py JID PASSWORD PORT CA
    wake_peer.py … OTHER PASSWORD STATE     the same for a second account, whose sessions slixmpp leaves behind

It prints "ready FULLJID", and "asked" for each question, with what it wants; the last one is kept. Control lines on standard input:
    leave        log in as OTHER, ask this peer something, keep in STATE what resumes the session, and break the line off;
                 prints "left"
    go TO        answer the question that is kept, send TO a message, and print "waiting" once the server has both
"""
import asyncio
import json
import sys

import slixmpp
from slixmpp.xmlstream import ET
from slixmpp.xmlstream.handler import Callback
from slixmpp.xmlstream.matcher import MatchXPath

QUESTION = "{jabber:client}iq/{urn:durable-handlers:sim:0}question"


def say(line):
    print(line, flush=True)


def client(jid, password, authority):
    made = slixmpp.ClientXMPP(jid, password)
    made.ca_certs = authority
    made.enable_starttls = False
    return made


class Peer:
    def __init__(self, jid, password, port, authority, other=None, other_password=None, state=None):
        self.port, self.authority = int(port), authority
        self.other = (other, other_password, state)
        self.kept = None
        self.asked = asyncio.Event()
        self.number = 0
        # Kept, because slixmpp's own tasks complain when their client goes.
        self.guests = []
        self.client = client(jid, password, authority)
        self.client.register_plugin("xep_0199")
        self.client.register_handler(Callback("Questions", MatchXPath(QUESTION), self.keep))

    def keep(self, request):
        self.kept = request
        self.asked.set()
        question = request.xml.find("{urn:durable-handlers:sim:0}question")
        say("asked " + question.get("want", "result"))

    async def run(self):
        started = asyncio.Event()
        self.client.add_event_handler("session_start", lambda _: started.set())
        self.client.connect("127.0.0.1", self.port)
        await started.wait()
        self.client.send_presence()
        say(f"ready {self.client.boundjid.full}")
        lines = asyncio.StreamReader()
        await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(lines), sys.stdin
        )
        while raw := await lines.readline():
            words = raw.decode().split()
            if words[0] == "leave":
                await self.leave()
            else:
                await self.go(words[1])

    async def go(self, to):
        answer = self.kept.reply(clear=True)
        question = self.kept.xml.find("{urn:durable-handlers:sim:0}question")
        answer.append(ET.Element("{urn:durable-handlers:sim:0}answer", {"n": question.get("n", "")}))
        self.client.send(answer)
        self.number += 1
        # No number in the body: the worker of the simulation would ask something in return.
        self.client.send_message(mto=to, mbody=f"wake up, for the time number {self.number}", mtype="chat")
        # The server works in order: with this answer it has the two before.
        await self.client.plugin["xep_0199"].send_ping(self.client.boundjid.domain, timeout=30)
        say("waiting")

    async def leave(self):
        jid, password, state = self.other
        guest = client(jid, password, self.authority)
        self.guests.append(guest)
        guest.register_plugin("xep_0198")
        started = asyncio.Event()
        enabled = asyncio.Event()
        guest.add_event_handler("session_start", lambda _: started.set())
        guest.add_event_handler("sm_enabled", lambda _: enabled.set())
        guest.connect("127.0.0.1", self.port)
        await started.wait()
        await enabled.wait()
        # Available, and told so by the server, before anything is counted.
        available = asyncio.Event()
        guest.register_handler(
            Callback("Own presence", MatchXPath("{jabber:client}presence"), lambda _: available.set())
        )
        guest.send_presence()
        await available.wait()
        self.asked.clear()
        question = guest.make_iq_get(ito=self.client.boundjid.full)
        question["id"] = "question"
        question.append(ET.Element("{urn:durable-handlers:sim:0}question", {"n": "1"}))
        guest.send(question)
        await self.asked.wait()
        management = guest.plugin["xep_0198"]
        with open(state, "w") as file:
            json.dump({"sm_id": management.sm_id, "handled": management.handled, "seq": management.seq}, file)
        guest.transport.abort()
        say("left")


async def main():
    # Within the loop: a client takes the one that runs where it is made.
    await Peer(*sys.argv[1:]).run()


asyncio.run(main())
