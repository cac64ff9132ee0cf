"""The other side of the simulation: it sends numbered messages, publishes numbered items, and answers numbered requests.

The ids of messages are PREFIX-1, PREFIX-2, … and the bodies 1, 2, ….

Requests that it answers, to its full JID:
    <iq type='get'><question xmlns='urn:durable-handlers:sim:0' n='7'/></iq>
gets <answer n='7'/> in a result; with want='error' the error item-not-found; with want='silence' nothing at all; with
want='later' the result once it is told to "answer".
"""

import asyncio
import json

from peer import PUBSUB, Sender, condition, serve
from slixmpp.xmlstream import ET

SIMULATION = "urn:durable-handlers:sim:0"
JSON = "urn:xmpp:json:0"
DELAY = "{urn:xmpp:delay}delay"


class SimulationPeer(Sender):
    """The peer of the simulation."""

    def __init__(self, options):
        super().__init__(options)
        self.publishers = set()
        self.is_publishing = False
        self.later = []
        self.sees("message", self.on_message)
        self.sees(f"iq/{{{SIMULATION}}}question", self.on_question)

    def on_message(self, message):
        error = condition(message)
        self.note(
            "received" if error is None else "bounced",
            message,
            type=message.xml.get("type", "normal"),
            body=message.xml.findtext("{jabber:client}body"),
            condition=error,
            delayed=True if message.xml.find(DELAY) is not None else None,
        )

    # Requests

    def on_question(self, request):
        if request.xml.get("type") != "get":
            return
        question = request.xml.find(f"{{{SIMULATION}}}question")
        want = question.get("want", "result")
        self.note("request", request, type=None, n=question.get("n"), want=want)
        if want == "later":
            self.later.append((request, question.get("n"), want))
        elif want != "silence":
            self.answer(request, question.get("n"), want)

    def answer(self, request, number, want):
        answer = request.reply(clear=True)
        if want == "error":
            answer["type"] = "error"
            answer["error"]["type"] = "cancel"
            answer["error"]["condition"] = "item-not-found"
        else:
            answer.append(ET.Element(f"{{{SIMULATION}}}answer", {"n": number or ""}))
        self.send(answer)
        self.write("answer", to=request.xml.get("from"), id=request.xml.get("id"), n=number, want=want)

    async def do_answer(self) -> int:
        """Answers the requests that wait for this."""
        later, self.later = self.later, []
        for waiting in later:
            self.answer(*waiting)
        return len(later)

    # Sending

    async def send_one(self, to, prefix, number):
        message = self.make_message(mto=to, mtype="chat", mbody=str(number))
        message["id"] = f"{prefix}-{number}"
        self.send(message)
        self.write("sent", id=f"{prefix}-{number}", to=to, body=str(number))

    async def do_publish(self, node: str, first: int, rate: float):
        """Begins to publish numbered items, RATE a second, from FIRST on: each as item "current" of an own node, with
        {"n":NUMBER} in a container for JSON (XEP-0335), once the one before is answered."""
        self.is_publishing = True
        publisher = asyncio.ensure_future(self.publish_numbered(node, first, rate))
        self.publishers.add(publisher)
        publisher.add_done_callback(self.publishers.discard)

    async def publish_numbered(self, node, number, rate):
        while self.is_publishing:
            request = self.make_iq_set()
            pubsub = ET.Element(f"{{{PUBSUB}}}pubsub")
            publish = ET.SubElement(pubsub, f"{{{PUBSUB}}}publish", {"node": node})
            item = ET.SubElement(publish, f"{{{PUBSUB}}}item", {"id": "current"})
            ET.SubElement(item, f"{{{JSON}}}json").text = json.dumps({"n": number}, separators=(",", ":"))
            request.append(pubsub)
            await request.send(timeout=60)
            self.write("published", n=str(number))
            number += 1
            await asyncio.sleep(1 / rate)

    async def do_stop(self):
        """Ends all sending and publishing."""
        # An item that is under way is waited for: whether it was published must be known.
        self.is_publishing = False
        await super().do_stop()
        await asyncio.gather(*self.publishers, return_exceptions=True)


serve(SimulationPeer)
