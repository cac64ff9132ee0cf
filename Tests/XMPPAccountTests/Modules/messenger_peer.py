"""An independent messenger (slixmpp) for the tests: it does what it is told and writes down what it sees.

Commands come as JSON lines on standard input, {"do": NAME, ...}; each is answered by one JSON line, {"ok": RESULT} or
{"error": TEXT}. What it sees is kept as a list of events, which the command "events" returns.
"""

import argparse
import asyncio
import json
import sys

import slixmpp


class Messenger(slixmpp.ClientXMPP):
    def __init__(self, options):
        super().__init__(options.jid, options.password)
        self.ca_certs = options.ca
        self.enable_direct_tls = False
        self.events_seen = []
        self.ready = asyncio.get_running_loop().create_future()
        plugins = "0030 0045 0059 0085 0092 0115 0184 0191 0199 0203 0249 0280 0297 0313 0334 0359"
        for number in plugins.split():
            self.register_plugin(f"xep_{number}")
        self["xep_0184"].auto_ack = True
        self["xep_0184"].auto_request = False
        self.add_event_handler("session_start", self.on_session)
        self.add_event_handler("failed_all_auth", lambda _: self.fail("the server refused the login"))
        self.add_event_handler("message", self.on_message)
        self.add_event_handler("message_error", lambda message: self.note("bounced", message))
        self.add_event_handler("receipt_received", self.on_receipt)
        self.add_event_handler("carbon_received", lambda wrapper: self.note("carbon_received", wrapper["carbon_received"]))
        self.add_event_handler("carbon_sent", lambda wrapper: self.note("carbon_sent", wrapper["carbon_sent"]))
        for state in ("active", "composing", "paused", "gone", "inactive"):
            self.add_event_handler(f"chatstate_{state}", lambda message: self.note("state", message, message["chat_state"]))

    def fail(self, reason):
        if not self.ready.done():
            self.ready.set_exception(RuntimeError(reason))

    async def on_session(self, _):
        self.send_presence()
        await self.get_roster()
        if not self.ready.done():
            self.ready.set_result(None)

    def note(self, kind, message, text=None):
        self.events_seen.append(
            {
                "kind": kind,
                "id": message["id"] or "",
                "from": str(message["from"]),
                "to": str(message["to"]),
                "type": message["type"],
                "body": text if text is not None else message["body"] or "",
            }
        )

    def on_message(self, message):
        if message["body"]:
            self.note("message", message)

    def on_receipt(self, message):
        self.note("receipt", message, message["receipt"])

    # Commands

    async def do_send(self, to, body, id=None, type="chat", receipt=False):
        message = self.make_message(mto=to, mbody=body, mtype=type)
        if id:
            message["id"] = id
        if receipt:
            message["request_receipt"] = True
        message.send()
        return message["id"]

    async def do_flood(self, to, count, prefix, size=0, type="chat"):
        for number in range(count):
            while self.waiting_queue.qsize() >= 64:
                await asyncio.sleep(0.001)
            body = f"{prefix} {number}".ljust(size, ".")
            message = self.make_message(mto=to, mbody=body, mtype=type)
            message["id"] = f"{prefix}-{number}"
            message.send()
        await self["xep_0199"].ping(self.boundjid.domain)
        return count

    async def do_state(self, to, state):
        message = self.make_message(mto=to, mtype="chat")
        message["chat_state"] = state
        message.send()

    async def do_carbons(self):
        await self["xep_0280"].enable()

    async def do_mam(self, with_=None, **options):
        if "with" in options:
            with_ = options["with"]
        bodies = []
        async for message in self["xep_0313"].iterate(with_jid=slixmpp.JID(with_) if with_ else None):
            bodies.append(message["mam_result"]["forwarded"]["stanza"]["body"])
        # Receipts may be kept too.
        return [body for body in bodies if body]

    async def do_info(self, jid, node=None):
        answer = await self["xep_0030"].get_info(jid=jid, node=node, timeout=20)
        return sorted(answer["disco_info"]["features"])

    async def do_version(self, jid):
        answer = await self["xep_0092"].get_version(slixmpp.JID(jid))
        return f"{answer['software_version']['name']} {answer['software_version']['version']}"

    async def do_ping(self, jid):
        await self["xep_0199"].ping(slixmpp.JID(jid))

    async def do_raw(self, xml):
        self.send_raw(xml)

    async def do_presence(self, to=None, kind=None):
        await self["xep_0115"].update_caps(broadcast=False)
        self.send_presence(pto=to, ptype=kind)

    async def do_join(self, room, nick, history=0):
        await self["xep_0045"].join_muc_wait(slixmpp.JID(room), nick, maxstanzas=history, timeout=20)

    async def do_events(self):
        return self.events_seen

    async def do_jid(self):
        return str(self.boundjid)

    async def do_sync(self):
        """Everything sent before has reached the server, everything it sent has been seen."""
        await self["xep_0199"].ping(slixmpp.JID(self.boundjid.domain))

    async def command(self, line):
        words = json.loads(line)
        return await getattr(self, "do_" + words.pop("do"))(**words)


def answer(value):
    print(json.dumps(value), flush=True)


async def run(options):
    reader = asyncio.StreamReader(limit=1 << 20)
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    messenger = Messenger(options)
    messenger.connect(options.host, options.port)
    await asyncio.wait_for(messenger.ready, 30)
    answer({"ok": str(messenger.boundjid)})
    while line := await reader.readline():
        try:
            answer({"ok": await messenger.command(line)})
        except Exception as error:
            answer({"error": f"{type(error).__name__}: {error}"})
    await messenger.disconnect(wait=5.0)


def main():
    arguments = argparse.ArgumentParser()
    for name in ("--jid", "--password", "--host", "--ca"):
        arguments.add_argument(name, required=True)
    arguments.add_argument("--port", required=True, type=int)
    asyncio.run(run(arguments.parse_args()))


main()
