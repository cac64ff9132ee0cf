"""What every independent XMPP client in the tests has in common: it logs in once, does what it is told, and writes down what
it sees. It shares no code with the library, and nothing is ever judged here.

A script of its own subclasses Peer, gives it methods do_NAME, and ends with serve(…).

Standard input: JSON objects, one a line. {"do": NAME, "ask": NUMBER, …} calls do_NAME with the other members; they are done one
after the other. With a number it is answered by "done NUMBER " and {"ok": RESULT} or {"error": REASON}; without one, what
could not be done is told on standard error. {"do": "quit"} or the end of the input closes the stream.
Standard output: "ready FULLJID" once it is logged in, then the answers.
The log: JSON lines, each in one unbuffered write. A reader may see half of the last one, until its end is there.

The link is not expected to die, and stream management stays off: slixmpp drops what it has queued when a resumption fails,
which would be taken for a loss of ours.

Exit status: 0 told to quit, 2 could not log in, 3 the link died, 4 slixmpp or another module is missing, 64 wrong arguments.
"""

import argparse
import asyncio
import contextlib
import inspect
import json
import os
import sys
import time


@contextlib.contextmanager
def required():
    """Around imports that "make setup" provides."""
    try:
        yield
    except ImportError as error:
        print(f"peer: {sys.executable} lacks a module ({error}): run 'make setup'.", file=sys.stderr)
        sys.exit(4)


with required():
    import slixmpp
    from slixmpp.exceptions import IqError
    from slixmpp.xmlstream import ElementBase
    from slixmpp.xmlstream.handler import Callback, CoroutineCallback
    from slixmpp.xmlstream.matcher import MatchXPath

CLIENT = "jabber:client"
PUBSUB = "http://jabber.org/protocol/pubsub"

# How many stanzas may wait in slixmpp before a sender pauses.
QUEUE_LIMIT = 64


class Refused(Exception):
    """What the peer was told to do was refused; the text is the answer."""


def condition(stanza: ElementBase) -> str | None:
    """The condition of an error; None when the stanza is none."""
    error = stanza.xml.find(f"{{{CLIENT}}}error")
    if error is None:
        return None
    return next((child.tag.rpartition("}")[2] for child in error), "undefined-condition")


def say(line: str):
    print(line, flush=True)


class Peer(slixmpp.ClientXMPP):
    """Logs in once. Subclasses name their plugins and their matchers, and add what they can be told."""

    plugins = ""
    """The numbers of the XEPs whose plugins it needs, besides ping."""

    def __init__(self, options: argparse.Namespace):
        super().__init__(options.jid, options.password)
        self.ca_certs = options.ca
        self.enable_direct_tls = False
        self.log_file = os.open(options.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        self.outcome = asyncio.get_running_loop().create_future()
        for number in [*self.plugins.split(), "0199"]:
            self.register_plugin(f"xep_{number}")
        self.add_event_handler("session_start", self.on_session)
        self.ends_on("failed_all_auth", 2, "the server refused the login")
        self.ends_on("ssl_invalid_chain", 2, "the certificate is not trusted")
        self.ends_on("connection_failed", 2, "no connection")
        self.ends_on("disconnected", 3, "the link died")

    def sees(self, path: str, handler):
        """Calls the handler with each stanza of that path below the namespace of clients."""
        kind = CoroutineCallback if inspect.iscoroutinefunction(handler) else Callback
        self.register_handler(kind(path, MatchXPath(f"{{{CLIENT}}}{path}"), handler))

    # Life

    def end(self, status: int, reason: str):
        """The first outcome counts; what follows from it does not."""
        if not self.outcome.done():
            self.outcome.set_result((status, reason))

    def ends_on(self, event: str, status: int, reason: str):
        def handler(detail):
            self.end(status, f"{reason}: {detail}" if isinstance(detail, (str, Exception)) else reason)

        self.add_event_handler(event, handler)

    async def on_session(self, _):
        await self.begin()
        self.write("ready", jid=self.boundjid.full, slixmpp=slixmpp.__version__)
        say(f"ready {self.boundjid.full}")

    async def begin(self):
        """Once it is logged in, before it is ready."""
        self.send_presence()

    async def finish(self):
        """Before the stream is closed."""

    # The log

    def write(self, kind: str, **fields):
        record = {"kind": kind, "time": time.time()}
        record.update((name, value) for name, value in fields.items() if value is not None)
        os.write(self.log_file, (json.dumps(record, ensure_ascii=False) + "\n").encode())

    def note(self, kind: str, stanza: ElementBase, **fields):
        """Writes a stanza down: its addresses, id and type, unless fields say otherwise."""
        known = {name: stanza.xml.get(name) for name in ("from", "to", "id", "type")}
        self.write(kind, **{**known, **fields})

    # Control

    async def sync(self):
        """The server works in order: it has everything that was sent before, and what it sent has been seen."""
        await self["xep_0199"].ping(slixmpp.JID(self.boundjid.domain), timeout=20)

    async def drained(self):
        """Waits until slixmpp has room for another stanza."""
        while self.waiting_queue.qsize() >= QUEUE_LIMIT:
            await asyncio.sleep(0.001)

    async def obey(self, name: str, arguments: dict) -> dict:
        try:
            return {"ok": await getattr(self, f"do_{name}")(**arguments)}
        except IqError as error:
            return {"error": error.condition}
        except Refused as error:
            return {"error": str(error)}
        except Exception as error:  # whatever it is, the test wants to know
            return {"error": f"{type(error).__name__}: {error}"}

    async def follow(self, lines: asyncio.StreamReader):
        while line := await lines.readline():
            order = json.loads(line)
            name, number = order.pop("do"), order.pop("ask", None)
            if name == "quit":
                break
            answer = await self.obey(name, order)
            if number is not None:
                say(f"done {number} {json.dumps(answer)}")
            elif "error" in answer:
                print(f"peer: {name}: {answer['error']}", file=sys.stderr, flush=True)
        await self.finish()
        self.end(0, "quit")
        await self.disconnect(wait=10.0)
        self.write("quit")


class Sender(Peer):
    """A peer that sends numbered messages while it does other things: say "send" and "stop", and await "sent PREFIX COUNT"."""

    def __init__(self, options: argparse.Namespace):
        super().__init__(options)
        self.senders = set()

    async def send_one(self, to: str, prefix: str, number: int):
        """Sends the message of that number, and writes it down."""
        raise NotImplementedError

    async def do_send(self, to: str, count: int, rate: float, prefix: str):
        """Begins to send COUNT messages, RATE a second (0: as fast as the link takes them); prints "sent PREFIX COUNT" at the
        end."""
        sender = asyncio.ensure_future(self.send_numbered(to, count, rate, prefix))
        self.senders.add(sender)
        sender.add_done_callback(self.senders.discard)

    async def send_numbered(self, to: str, count: int, rate: float, prefix: str):
        sent = 0
        try:
            begin = time.monotonic()
            while sent < count:
                if rate > 0:
                    await asyncio.sleep(begin + sent / rate - time.monotonic())
                await self.drained()
                await self.send_one(to, prefix, sent + 1)
                sent += 1
        except Exception as error:
            self.write("failed", reason=f"{type(error).__name__}: {error}")
        finally:
            say(f"sent {prefix} {sent}")

    async def do_stop(self):
        """Ends all sending; each sender prints what it has sent."""
        senders = list(self.senders)
        for sender in senders:
            sender.cancel()
        await asyncio.gather(*senders, return_exceptions=True)

    async def finish(self):
        await self.do_stop()


# Running

class Arguments(argparse.ArgumentParser):
    def error(self, message):
        self.exit(64, f"peer: {message}\n")


async def standard_input() -> asyncio.StreamReader:
    reader = asyncio.StreamReader(limit=1 << 20)
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    return reader


async def run(kind: type[Peer], options: argparse.Namespace) -> int:
    peer = kind(options)
    peer.connect(options.host, options.port)
    control = asyncio.ensure_future(peer.follow(await standard_input()))
    status, reason = await peer.outcome
    if status == 0:
        await control
    else:
        peer.write("failed", reason=reason)
        print(f"peer: {options.jid}: {reason}.", file=sys.stderr, flush=True)
    return status


def serve(kind: type[Peer]):
    """Runs a peer until it is told to quit, cannot log in, or loses its link."""
    arguments = Arguments(description=f"{kind.__doc__} Control lines on standard input.")
    arguments.add_argument("--jid", required=True, help="bare or full JID")
    arguments.add_argument("--password", required=True)
    arguments.add_argument("--host", required=True, help="the address to connect to")
    arguments.add_argument("--port", required=True, type=int, help="the STARTTLS port")
    arguments.add_argument("--ca", required=True, help="PEM file; the server is verified against it and the JID's domain")
    arguments.add_argument("--log", required=True, help="file to which JSON lines are appended")
    status = asyncio.run(run(kind, arguments.parse_args()))
    sys.stdout.flush()
    # Leaving at once: nothing is buffered here, and slixmpp's own tasks may wait for a link that is gone.
    os._exit(status)
