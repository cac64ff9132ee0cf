"""A user of PubSub: makes, reads, publishes on and subscribes to nodes of its own and of others.

The log holds "event" (body: the node and what happened there).
"""

from peer import Peer, serve
from slixmpp.xmlstream import ET

EVENT = "{http://jabber.org/protocol/pubsub#event}"


class User(Peer):
    """A user of PubSub."""

    plugins = "0004 0030 0059 0060"

    def __init__(self, options):
        super().__init__(options)
        self.pubsub = self["xep_0060"]
        self.sees(f"message/{EVENT}event", self.on_pubsub)

    async def begin(self):
        self.send_presence()
        await self.get_roster()

    def on_pubsub(self, message):
        for part in message.xml.find(f"{EVENT}event"):
            name = part.tag.rpartition("}")[2]
            node = part.get("node", "")
            redirect = part.find(f"{EVENT}redirect")
            if redirect is not None:
                node += " to " + redirect.get("uri", "")
            inside = [f"{one.tag.rpartition('}')[2]} {one.get('id', '')}" for one in part if one is not redirect]
            if name == "items":
                for one in inside:
                    self.note("event", message, body=f"{node}: {one}")
            else:
                self.note("event", message, body=f"{node}: {name}")

    async def do_create(self, service: str, node: str, options: dict[str, str]):
        await self.pubsub.create_node(service, node, config=self.form("node_config", options))

    async def do_publish(self, service: str, node: str, id: str, text: str) -> str:
        payload = ET.Element("{urn:durable-handlers:test}note")
        payload.text = text
        answer = await self.pubsub.publish(service, node, id=id, payload=payload)
        return answer["pubsub"]["publish"]["item"]["id"]

    async def do_items(self, service: str, node: str):
        answer = await self.pubsub.get_items(service, node)
        return [
            f"{item['id']}={'' if item['payload'] is None else item['payload'].text}"
            for item in answer["pubsub"]["items"]
        ]

    async def do_subscribe(self, service: str, node: str):
        answer = await self.pubsub.subscribe(service, node)
        return answer["pubsub"]["subscription"]["subscription"]

    async def do_allow(self, service: str, node: str, jid: str, affiliation: str):
        await self.pubsub.modify_affiliations(service, node, affiliations=[(jid, affiliation)])

    async def do_sync(self):
        await self.sync()

    def form(self, name, options):
        form = self["xep_0004"].make_form(ftype="submit")
        form.add_field(var="FORM_TYPE", ftype="hidden", value=f"http://jabber.org/protocol/pubsub#{name}")
        for field, value in options.items():
            form.add_field(var=field, value=value)
        return form


serve(User)
