"""The other side of the simulation: an XMPP client that shares no code with ours and writes down all it sees.

It sends numbered messages when told to, answers numbered requests, and appends everything that it sends and receives
to a log of JSON lines, one write a line, so that a reader never sees half of one. Nothing is ever judged here.

Control lines on standard input; each is echoed when it was understood:
    send TO COUNT RATE PREFIX   send COUNT chat messages, RATE a second (0: as fast as the link takes them), with the
                                ids PREFIX-1, PREFIX-2, … and the bodies 1, 2, …; prints "sent PREFIX COUNT" at the end
    publish NODE FIRST RATE     publish numbered items, RATE a second, from FIRST on: each as item "current" of an own node,
                                with {"n":NUMBER} in a container for JSON (XEP-0335), once the one before is answered
    answer                      answer the requests that wait for this (want='later'); prints "answered COUNT" then
    stop                        end all sending and publishing; each sender prints what it has sent
    quit                        the same, then close the stream and exit with status 0 (the end of the input does so too)

Requests that it answers, to its full JID:
    <iq type='get'><question xmlns='urn:durable-handlers:sim:0' n='7'/></iq>
gets <answer n='7'/> in a result; with want='error' the error item-not-found; with want='silence' nothing at all; with
want='later' the result once the control line "answer" comes.

The link is not expected to die, and stream management stays off: slixmpp drops what it has queued when a resumption
fails, which would be taken for a loss of ours. Exit status: 0 told to quit, 2 could not log in, 3 the link died,
4 slixmpp is missing, 64 wrong arguments.
"""

import argparse
import asyncio
import json
import os
import sys
import time

try:
    import slixmpp
    from slixmpp.xmlstream import ET
    from slixmpp.xmlstream.handler import Callback
    from slixmpp.xmlstream.matcher import MatchXPath
except ImportError as error:
    print(
        f"slixmpp_peer: {sys.executable} has no slixmpp ({error}): run 'make setup'.",
        file=sys.stderr,
    )
    sys.exit(4)

SIMULATION = "urn:durable-handlers:sim:0"
CLIENT = "jabber:client"
PUBSUB = "http://jabber.org/protocol/pubsub"
JSON = "urn:xmpp:json:0"
DELAY = "{urn:xmpp:delay}delay"

# How many stanzas may wait in slixmpp before a sender pauses.
QUEUE_LIMIT = 64


class Log:
    """Appends JSON lines, each in one unbuffered write."""

    def __init__(self, path):
        self.file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)

    def write(self, kind, **fields):
        record = {"kind": kind, "time": time.time()}
        record.update((name, value) for name, value in fields.items() if value is not None)
        os.write(self.file, (json.dumps(record, ensure_ascii=False) + "\n").encode())


class Peer(slixmpp.ClientXMPP):
    """Logs in once, then sends, answers and writes down."""

    def __init__(self, options, log):
        super().__init__(options.jid, options.password)
        self.log = log
        self.ca_certs = options.ca
        self.enable_direct_tls = False
        self.senders = set()
        self.publishers = set()
        self.is_publishing = False
        self.later = []
        self.ready = asyncio.Event()
        self.outcome = asyncio.get_running_loop().create_future()
        self.register_plugin("xep_0199")
        self.add_event_handler("session_start", self.on_session)
        self.ends_on("failed_all_auth", 2, "the server refused the login")
        self.ends_on("ssl_invalid_chain", 2, "the certificate is not trusted")
        self.ends_on("connection_failed", 2, "no connection")
        self.ends_on("disconnected", 3, "the link died")
        self.register_handler(Callback("Messages", MatchXPath(f"{{{CLIENT}}}message"), self.on_message))
        question = f"{{{CLIENT}}}iq/{{{SIMULATION}}}question"
        self.register_handler(Callback("Questions", MatchXPath(question), self.on_question))

    def end(self, status, reason):
        """The first outcome counts; what follows from it does not."""
        if not self.outcome.done():
            self.outcome.set_result((status, reason))

    def ends_on(self, event, status, reason):
        def handler(detail):
            self.end(status, f"{reason}: {detail}" if isinstance(detail, (str, Exception)) else reason)

        self.add_event_handler(event, handler)

    def on_session(self, _):
        self.send_presence()
        self.ready.set()
        self.log.write("ready", jid=self.boundjid.full, slixmpp=slixmpp.__version__)
        say(f"ready {self.boundjid.full}")

    def on_message(self, message):
        error = message.xml.find(f"{{{CLIENT}}}error")
        condition = None
        if error is not None:
            condition = next((child.tag.rpartition("}")[2] for child in error), "undefined-condition")
        self.log.write(
            "received" if error is None else "bounced",
            id=message.xml.get("id"),
            type=message.xml.get("type", "normal"),
            **{"from": message.xml.get("from")},
            to=message.xml.get("to"),
            body=message.xml.findtext(f"{{{CLIENT}}}body"),
            condition=condition,
            delayed=True if message.xml.find(DELAY) is not None else None,
        )

    def on_question(self, request):
        if request.xml.get("type") != "get":
            return
        question = request.xml.find(f"{{{SIMULATION}}}question")
        want = question.get("want", "result")
        fields = {"id": request.xml.get("id"), "n": question.get("n"), "want": want}
        sender = request.xml.get("from")
        self.log.write("request", **{"from": sender}, to=request.xml.get("to"), **fields)
        if want == "silence":
            return
        if want == "later":
            self.later.append((request, question, fields))
            return
        self.answer(request, question, fields)

    def answer(self, request, question, fields):
        want, sender = fields["want"], request.xml.get("from")
        answer = request.reply(clear=True)
        if want == "error":
            answer["type"] = "error"
            answer["error"]["type"] = "cancel"
            answer["error"]["condition"] = "item-not-found"
        else:
            answer.append(ET.Element(f"{{{SIMULATION}}}answer", {"n": question.get("n", "")}))
        self.send(answer)
        self.log.write("answer", to=sender, **fields)

    # Control

    def start_sending(self, to, count, rate, prefix):
        sender = asyncio.ensure_future(self.send_numbered(to, int(count), float(rate), prefix))
        self.senders.add(sender)
        sender.add_done_callback(self.senders.discard)

    async def send_numbered(self, to, count, rate, prefix):
        sent = 0
        try:
            await self.ready.wait()
            begin = time.monotonic()
            while sent < count:
                if rate > 0:
                    await asyncio.sleep(begin + sent / rate - time.monotonic())
                while self.waiting_queue.qsize() >= QUEUE_LIMIT:
                    await asyncio.sleep(0.001)
                number = sent + 1
                message = self.make_message(mto=to, mtype="chat", mbody=str(number))
                message["id"] = f"{prefix}-{number}"
                self.send(message)
                sent = number
                self.log.write("sent", id=f"{prefix}-{number}", to=to, body=str(number))
        finally:
            say(f"sent {prefix} {sent}")

    def start_publishing(self, node, first, rate):
        self.is_publishing = True
        publisher = asyncio.ensure_future(self.publish_numbered(node, int(first), float(rate)))
        self.publishers.add(publisher)
        publisher.add_done_callback(self.publishers.discard)

    async def publish_numbered(self, node, number, rate):
        await self.ready.wait()
        while self.is_publishing:
            request = self.make_iq_set()
            pubsub = ET.Element(f"{{{PUBSUB}}}pubsub")
            publish = ET.SubElement(pubsub, f"{{{PUBSUB}}}publish", {"node": node})
            item = ET.SubElement(publish, f"{{{PUBSUB}}}item", {"id": "current"})
            ET.SubElement(item, f"{{{JSON}}}json").text = json.dumps({"n": number}, separators=(",", ":"))
            request.append(pubsub)
            await request.send(timeout=60)
            self.log.write("published", n=str(number))
            number += 1
            await asyncio.sleep(1 / rate)

    async def stop_sending(self):
        senders = list(self.senders)
        for sender in senders:
            sender.cancel()
        # An item that is under way is waited for: whether it was published must be known.
        self.is_publishing = False
        await asyncio.gather(*senders, *self.publishers, return_exceptions=True)

    async def control(self, line):
        """False when it was the last line."""
        words = line.split()
        if words[:1] == ["send"] and len(words) == 5:
            int(words[2]), float(words[3])
            slixmpp.JID(words[1])
            say(line)
            self.start_sending(*words[1:])
        elif words[:1] == ["publish"] and len(words) == 4:
            int(words[2]), float(words[3])
            say(line)
            self.start_publishing(*words[1:])
        elif words == ["answer"]:
            later, self.later = self.later, []
            for request, question, fields in later:
                self.answer(request, question, fields)
            say(f"answered {len(later)}")
        elif words == ["stop"]:
            await self.stop_sending()
            say(line)
        elif words == ["quit"]:
            return False
        else:
            raise ValueError("say send TO COUNT RATE PREFIX, publish NODE FIRST RATE, stop or quit")
        return True

    async def follow(self, lines):
        while raw := await lines.readline():
            line = raw.decode(errors="replace").strip()
            try:
                if line and not await self.control(line):
                    break
            except ValueError as error:
                print(f"slixmpp_peer: '{line}' was not understood: {error}", file=sys.stderr, flush=True)
        await self.stop_sending()
        self.end(0, "quit")
        await self.disconnect(wait=10.0)
        self.log.write("quit")
        say("quit")


def say(line):
    print(line, flush=True)


async def standard_input():
    reader = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    return reader


async def run(options):
    peer = Peer(options, Log(options.log))
    peer.connect(options.host, options.port)
    control = asyncio.ensure_future(peer.follow(await standard_input()))
    status, reason = await peer.outcome
    if status == 0:
        await control
    else:
        peer.log.write("failed", reason=reason)
        print(f"slixmpp_peer: {options.jid}: {reason}.", file=sys.stderr, flush=True)
    return status


class Arguments(argparse.ArgumentParser):
    def error(self, message):
        self.exit(64, f"slixmpp_peer: {message}\n")


def main():
    arguments = Arguments(description="The peer of the simulation; control lines on standard input.")
    arguments.add_argument("--jid", required=True, help="bare or full JID")
    arguments.add_argument("--password", required=True)
    arguments.add_argument("--host", required=True, help="the address to connect to")
    arguments.add_argument("--port", required=True, type=int, help="the STARTTLS port")
    arguments.add_argument("--ca", required=True, help="PEM file; the server is verified against it and the JID's domain")
    arguments.add_argument("--log", required=True, help="file to which JSON lines are appended")
    options = arguments.parse_args()
    # Leaving at once: nothing is buffered here, and slixmpp's own tasks may wait for a link that is gone.
    status = asyncio.run(run(options))
    sys.stdout.flush()
    os._exit(status)


main()
