"""A user of PubSub that shares no code with the account under test (slixmpp): it does what it is told.

Commands come as JSON lines on standard input, {"do": NAME, ...}; each is answered by one line, "= " and {"ok": RESULT} or
{"error": CONDITION}. The events of nodes that it sees are kept, oldest first, and returned by the command "events".
Exit status: 0 at the end of the input, 2 could not log in, 4 slixmpp is missing.
"""

import argparse
import asyncio
import json
import sys

try:
    import slixmpp
    from slixmpp.exceptions import IqError
    from slixmpp.xmlstream import ET
    from slixmpp.xmlstream.handler import Callback
    from slixmpp.xmlstream.matcher import MatchXPath
except ImportError as error:
    print(f"operations_peer: {sys.executable} has no slixmpp ({error}): run 'make setup'.", file=sys.stderr)
    sys.exit(4)

EVENT = "{http://jabber.org/protocol/pubsub#event}"


class Peer(slixmpp.ClientXMPP):
    def __init__(self, options):
        super().__init__(options.jid, options.password)
        self.ca_certs = options.ca
        self.enable_direct_tls = False
        self.seen = []
        self.ready = asyncio.get_running_loop().create_future()
        for number in "0004 0030 0059 0060 0199".split():
            self.register_plugin(f"xep_{number}")
        self.pubsub = self["xep_0060"]
        self.add_event_handler("session_start", self.on_session)
        for event in ("failed_all_auth", "ssl_invalid_chain", "connection_failed"):
            self.add_event_handler(event, lambda detail, event=event: self.fail(f"{event}: {detail}"))
        matcher = MatchXPath(f"{{jabber:client}}message/{EVENT}event")
        self.register_handler(Callback("All events", matcher, self.on_pubsub))

    def fail(self, reason):
        if not self.ready.done():
            self.ready.set_exception(RuntimeError(reason))

    async def on_session(self, _):
        self.send_presence()
        await self.get_roster()
        if not self.ready.done():
            self.ready.set_result(None)

    def on_pubsub(self, message):
        for part in message.xml.find(f"{EVENT}event"):
            name = part.tag.rpartition("}")[2]
            node = part.get("node", "")
            redirect = part.find(f"{EVENT}redirect")
            if redirect is not None:
                node += " to " + redirect.get("uri", "")
            inside = [f"{one.tag.rpartition('}')[2]} {one.get('id', '')}" for one in part if one is not redirect]
            if name == "items":
                self.seen.extend(f"{node}: {one}" for one in inside)
            else:
                self.seen.append(f"{node}: {name}")

    # Commands

    async def do_create(self, service, node, options):
        await self.pubsub.create_node(service, node, config=self.form("node_config", options))

    async def do_publish(self, service, node, id, text):
        payload = ET.Element("{urn:durable-handlers:test}note")
        payload.text = text
        answer = await self.pubsub.publish(service, node, id=id, payload=payload)
        return answer["pubsub"]["publish"]["item"]["id"]

    async def do_items(self, service, node):
        answer = await self.pubsub.get_items(service, node)
        return [
            f"{item['id']}={'' if item['payload'] is None else item['payload'].text}"
            for item in answer["pubsub"]["items"]
        ]

    async def do_subscribe(self, service, node):
        answer = await self.pubsub.subscribe(service, node)
        return answer["pubsub"]["subscription"]["subscription"]

    async def do_configuration(self, service, node, field):
        answer = await self.pubsub.get_node_config(service, node)
        return answer["pubsub_owner"]["configure"]["form"].get_values().get(field)

    async def do_affiliations(self, service, node):
        answer = await self.pubsub.get_node_affiliations(service, node)
        affiliations = answer["pubsub_owner"]["affiliations"]
        return sorted(f"{one['jid']} {one['affiliation']}" for one in affiliations)

    async def do_allow(self, service, node, jid, affiliation):
        await self.pubsub.modify_affiliations(service, node, affiliations=[(jid, affiliation)])

    async def do_subscriptions(self, service, node):
        answer = await self.pubsub.get_node_subscriptions(service, node)
        subscriptions = answer["pubsub_owner"]["subscriptions"]
        return sorted(f"{one['jid']} {one['subscription']}" for one in subscriptions)

    async def do_events(self):
        """All that was sent to it before has been seen."""
        await self["xep_0199"].ping(slixmpp.JID(self.boundjid.domain))
        return self.seen

    def form(self, name, options):
        form = self["xep_0004"].make_form(ftype="submit")
        form.add_field(var="FORM_TYPE", ftype="hidden", value=f"http://jabber.org/protocol/pubsub#{name}")
        for field, value in options.items():
            form.add_field(var=field, value=value)
        return form

    async def command(self, line):
        words = json.loads(line)
        return await getattr(self, "do_" + words.pop("do"))(**words)


def answer(value):
    print("= " + json.dumps(value), flush=True)


async def run(options):
    reader = asyncio.StreamReader(limit=1 << 20)
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    peer = Peer(options)
    peer.connect(options.host, options.port)
    try:
        await asyncio.wait_for(peer.ready, 30)
    except Exception as error:
        print(f"operations_peer: {options.jid}: {error}", file=sys.stderr, flush=True)
        return 2
    print(f"ready {peer.boundjid.full}", flush=True)
    while line := await reader.readline():
        try:
            answer({"ok": await peer.command(line)})
        except IqError as error:
            answer({"error": error.condition})
        except Exception as error:
            answer({"error": f"{type(error).__name__}: {error}"})
    await peer.disconnect(wait=5.0)
    return 0


def main():
    arguments = argparse.ArgumentParser(description="A user of PubSub; commands on standard input.")
    for name in ("--jid", "--password", "--host", "--ca", "--log"):
        arguments.add_argument(name, required=True)
    arguments.add_argument("--port", required=True, type=int)
    sys.exit(asyncio.run(run(arguments.parse_args())))


main()
