"""A contact of the account under test: an XMPP client that shares no code with it and writes down all it sees.

Its log is one of JSON lines, each in one write. Nothing is ever judged here, and nothing is answered by itself.

Control lines on standard input; each is echoed as "done LINE" once the server has what it asks for:
    subscribe JID, subscribed JID, unsubscribe JID, unsubscribed JID   presence of that type
    show SHOW STATUS        its availability
    say JID TEXT            a chat message
    vcard NAME NICK TYPE BASE64   sets its card (XEP-0054)
    block JID, unblock JID  (XEP-0191)
    roster                  writes its roster down, one line an item
    quit                    closes the stream (the end of the input does so too)
Exit status: 0 told to quit, 2 could not log in, 3 the link died, 4 slixmpp is missing.
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
    print(f"contacts_peer: {sys.executable} has no slixmpp ({error}): run 'make setup'.", file=sys.stderr)
    sys.exit(4)

CLIENT = "jabber:client"
STEPS = ("subscribe", "subscribed", "unsubscribe", "unsubscribed")


class Log:
    def __init__(self, path):
        self.file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)

    def write(self, kind, **fields):
        record = {"kind": kind, "time": time.time()}
        record.update((name, value) for name, value in fields.items() if value is not None)
        os.write(self.file, (json.dumps(record, ensure_ascii=False) + "\n").encode())


class Peer(slixmpp.ClientXMPP):
    def __init__(self, options, log):
        super().__init__(options.jid, options.password)
        self.log = log
        self.ca_certs = options.ca
        self.enable_direct_tls = False
        self.auto_authorize = None
        self.auto_subscribe = False
        self.outcome = asyncio.get_running_loop().create_future()
        for plugin in ("xep_0054", "xep_0191", "xep_0199"):
            self.register_plugin(plugin)
        self.add_event_handler("session_start", self.on_session)
        self.ends_on("failed_all_auth", 2, "the server refused the login")
        self.ends_on("ssl_invalid_chain", 2, "the certificate is not trusted")
        self.ends_on("connection_failed", 2, "no connection")
        self.ends_on("disconnected", 3, "the link died")
        for name, kind in (("message", "received"), ("presence", "presence")):
            matcher = MatchXPath(f"{{{CLIENT}}}{name}")
            self.register_handler(Callback(f"All {name}", matcher, self.writer(kind)))

    def end(self, status, reason):
        if not self.outcome.done():
            self.outcome.set_result((status, reason))

    def ends_on(self, event, status, reason):
        self.add_event_handler(event, lambda detail: self.end(status, f"{reason}: {detail}"))

    async def on_session(self, _):
        await self.get_roster()
        self.send_presence()
        self.log.write("ready", jid=self.boundjid.full)
        say(f"ready {self.boundjid.full}")

    def writer(self, kind):
        def write(stanza):
            texts = [stanza.xml.findtext(f"{{{CLIENT}}}{name}") for name in ("body", "status")]
            error = stanza.xml.find(f"{{{CLIENT}}}error")
            condition = None
            if error is not None:
                condition = next((child.tag.rpartition("}")[2] for child in error), "undefined-condition")
            self.log.write(
                kind,
                type=stanza.xml.get("type", "available" if kind == "presence" else "normal"),
                **{"from": stanza.xml.get("from")},
                to=stanza.xml.get("to"),
                id=stanza.xml.get("id"),
                body=next((text for text in texts if text is not None), None),
                condition=condition,
            )

        return write

    async def control(self, words):
        if words[0] in STEPS:
            self.send_presence(pto=words[1], ptype=words[0])
        elif words[0] == "show":
            self.send_presence(pshow=words[1], pstatus=words[2])
        elif words[0] == "say":
            self.send_message(mto=words[1], mtype="chat", mbody=words[2])
        elif words[0] == "vcard":
            await self.publish_card(*words[1:])
        elif words[0] == "block":
            await self["xep_0191"].block(slixmpp.JID(words[1]))
        elif words[0] == "unblock":
            await self["xep_0191"].unblock(slixmpp.JID(words[1]))
        elif words[0] == "roster":
            await self.write_roster()
        # The server works in order: with this answer it has everything that came before.
        await self["xep_0199"].send_ping(self.boundjid.host, timeout=20)

    async def publish_card(self, name, nick, kind, photo):
        card = ET.Element("{vcard-temp}vCard")
        for tag, text in (("FN", name), ("NICKNAME", nick)):
            ET.SubElement(card, f"{{vcard-temp}}{tag}").text = text
        picture = ET.SubElement(card, "{vcard-temp}PHOTO")
        for tag, text in (("TYPE", kind), ("BINVAL", photo)):
            ET.SubElement(picture, f"{{vcard-temp}}{tag}").text = text
        request = self.make_iq_set()
        request.append(card)
        await request.send(timeout=20)

    async def write_roster(self):
        request = self.make_iq_get(queryxmlns="jabber:iq:roster")
        answer = await request.send(timeout=20)
        for item in answer.xml.iter("{jabber:iq:roster}item"):
            self.log.write("item", **{"from": item.get("jid")}, type=item.get("subscription"), want=item.get("ask"))

    async def follow(self, lines):
        while raw := await lines.readline():
            line = raw.decode().strip()
            if line == "quit":
                break
            try:
                await self.control(line.split())
            except Exception as error:
                self.log.write("failed", reason=f"{line}: {type(error).__name__}: {error}")
            self.log.write("done", body=line)
            say(f"done {line}")
        self.end(0, "quit")
        await self.disconnect(wait=10.0)
        self.log.write("quit")


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
        print(f"contacts_peer: {options.jid}: {reason}.", file=sys.stderr, flush=True)
    return status


def main():
    arguments = argparse.ArgumentParser(description="A contact; control lines on standard input.")
    for name in ("--jid", "--password", "--host", "--ca", "--log"):
        arguments.add_argument(name, required=True)
    arguments.add_argument("--port", required=True, type=int)
    options = arguments.parse_args()
    status = asyncio.run(run(options))
    sys.stdout.flush()
    os._exit(status)


main()
