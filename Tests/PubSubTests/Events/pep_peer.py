"""A contact of the account under test that publishes: an XMPP client that shares no code with it and writes down the events
that it sees.

Its log is one of JSON lines, each in one write. Nothing is ever judged here.

Control lines on standard input; each is echoed as "done LINE" once the server has answered:
    publish NODE ITEM BASE64   publishes an item whose payload is that XML
    retract NODE ITEM          takes it back and lets everybody know
    purge NODE, delete NODE    (XEP-0060 sections 8.5 and 8.4)
    tell-ends NODE             lets the server tell of retractions, purges and the deletion, which ejabberd does not by itself
    subscribe SERVICE NODE     (6.1), and see what becomes of it
    quit                       closes the stream (the end of the input does so too)
Exit status: 0 told to quit, 2 could not log in, 3 the link died, 4 slixmpp is missing.
"""

import argparse
import asyncio
import base64
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
    print(f"pep_peer: {sys.executable} has no slixmpp ({error}): run 'make setup'.", file=sys.stderr)
    sys.exit(4)

CLIENT = "jabber:client"
PUBSUB = "http://jabber.org/protocol/pubsub"
NICK = "http://jabber.org/protocol/nick"


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
        for plugin in ("xep_0030", "xep_0115", "xep_0163", "xep_0199"):
            self.register_plugin(plugin)
        self.add_event_handler("session_start", self.on_session)
        self.ends_on("failed_all_auth", 2, "the server refused the login")
        self.ends_on("ssl_invalid_chain", 2, "the certificate is not trusted")
        self.ends_on("connection_failed", 2, "no connection")
        self.ends_on("disconnected", 3, "the link died")
        event = f"{{{CLIENT}}}message/{{{PUBSUB}#event}}event"
        self.register_handler(Callback("Events", MatchXPath(event), self.on_event))

    def end(self, status, reason):
        if not self.outcome.done():
            self.outcome.set_result((status, reason))

    def ends_on(self, event, status, reason):
        self.add_event_handler(event, lambda detail: self.end(status, f"{reason}: {detail}"))

    async def on_session(self, _):
        await self.get_roster()
        self.plugin["xep_0163"].add_interest(NICK)
        await self.plugin["xep_0115"].update_caps(broadcast=False)
        self.send_presence()
        self.log.write("ready", jid=self.boundjid.full)
        say(f"ready {self.boundjid.full}")

    def on_event(self, message):
        for item in message.xml.iter(f"{{{PUBSUB}#event}}item"):
            self.log.write(
                "event", **{"from": message.xml.get("from")}, id=item.get("id"), body="".join(item.itertext())
            )

        for change in message.xml.iter(f"{{{PUBSUB}#event}}subscription"):
            fields = {"from": message.xml.get("from"), "id": change.get("node")}
            self.log.write("event", body=change.get("subscription"), **fields)

    async def control(self, words):
        if words[0] == "publish":
            item = ET.Element(f"{{{PUBSUB}}}item", {"id": words[2]})
            item.append(ET.fromstring(base64.b64decode(words[3]).decode()))
            await self.request(PUBSUB, "publish", words[1], item)
        elif words[0] == "retract":
            item = ET.Element(f"{{{PUBSUB}}}item", {"id": words[2]})
            await self.request(PUBSUB, "retract", words[1], item, notify="true")
        elif words[0] in ("purge", "delete"):
            await self.request(f"{PUBSUB}#owner", words[0], words[1])
        elif words[0] == "subscribe":
            jid = self.boundjid.bare
            await self.request(PUBSUB, "subscribe", words[2], to=words[1], jid=jid)
        elif words[0] == "tell-ends":
            form = ET.Element("{jabber:x:data}x", {"type": "submit"})
            fields = {"FORM_TYPE": f"{PUBSUB}#node_config", "pubsub#notify_delete": "1", "pubsub#notify_retract": "1"}
            for name, value in fields.items():
                field = ET.SubElement(form, "{jabber:x:data}field", {"var": name})
                ET.SubElement(field, "{jabber:x:data}value").text = value
            await self.request(f"{PUBSUB}#owner", "configure", words[1], form)
        else:
            raise ValueError("unknown")

    async def request(self, namespace, name, node, child=None, to=None, **attributes):
        request = self.make_iq_set(ito=to)
        pubsub = ET.Element(f"{{{namespace}}}pubsub")
        operation = ET.SubElement(pubsub, f"{{{namespace}}}{name}", {"node": node, **attributes})
        if child is not None:
            operation.append(child)
        request.append(pubsub)
        await request.send(timeout=20)

    async def follow(self, lines):
        while raw := await lines.readline():
            line = raw.decode().strip()
            if line == "quit":
                break
            try:
                await self.control(line.split())
            except Exception as error:
                self.log.write("failed", reason=f"{line}: {type(error).__name__}: {error}")
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
        print(f"pep_peer: {options.jid}: {reason}.", file=sys.stderr, flush=True)
    return status


def main():
    arguments = argparse.ArgumentParser(description="A contact that publishes; control lines on standard input.")
    for name in ("--jid", "--password", "--host", "--ca", "--log"):
        arguments.add_argument(name, required=True)
    arguments.add_argument("--port", required=True, type=int)
    options = arguments.parse_args()
    status = asyncio.run(run(options))
    sys.stdout.flush()
    os._exit(status)


main()
