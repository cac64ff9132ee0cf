"""A contact that publishes, and sees events.

The log holds "event" (from, id: of an item, body: its text; or id: a node, body: the state of a subscription to it).
"""

from peer import PUBSUB, Peer, serve
from slixmpp.xmlstream import ET

NICK = "http://jabber.org/protocol/nick"


class Publisher(Peer):
    """A contact that publishes."""

    plugins = "0030 0115 0163"

    def __init__(self, options):
        super().__init__(options)
        self.auto_authorize = None
        self.auto_subscribe = False
        self.sees(f"message/{{{PUBSUB}#event}}event", self.on_event)

    async def begin(self):
        await self.get_roster()
        self["xep_0163"].add_interest(NICK)
        await self["xep_0115"].update_caps(broadcast=False)
        self.send_presence()

    def on_event(self, message):
        for item in message.xml.iter(f"{{{PUBSUB}#event}}item"):
            self.note("event", message, id=item.get("id"), body="".join(item.itertext()))
        for change in message.xml.iter(f"{{{PUBSUB}#event}}subscription"):
            self.note("event", message, id=change.get("node"), body=change.get("subscription"))

    async def do_publish(self, node: str, id: str, xml: str):
        """Publishes an item with that payload."""
        item = ET.Element(f"{{{PUBSUB}}}item", {"id": id})
        item.append(ET.fromstring(xml))
        await self.request(PUBSUB, "publish", node, item)

    async def do_retract(self, node: str, id: str):
        """Takes an item back and lets everybody know."""
        item = ET.Element(f"{{{PUBSUB}}}item", {"id": id})
        await self.request(PUBSUB, "retract", node, item, notify="true")

    async def do_purge(self, node: str):
        await self.request(f"{PUBSUB}#owner", "purge", node)

    async def do_delete(self, node: str):
        await self.request(f"{PUBSUB}#owner", "delete", node)

    async def do_subscribe(self, service: str, node: str):
        await self.request(PUBSUB, "subscribe", node, to=service, jid=self.boundjid.bare)

    async def do_tell_ends(self, node: str):
        """Lets the server tell of retractions, purges and the deletion, which ejabberd does not by itself."""
        form = ET.Element("{jabber:x:data}x", {"type": "submit"})
        fields = {"FORM_TYPE": f"{PUBSUB}#node_config", "pubsub#notify_delete": "1", "pubsub#notify_retract": "1"}
        for name, value in fields.items():
            field = ET.SubElement(form, "{jabber:x:data}field", {"var": name})
            ET.SubElement(field, "{jabber:x:data}value").text = value
        await self.request(f"{PUBSUB}#owner", "configure", node, form)

    async def request(self, namespace, name, node, child=None, to=None, **attributes):
        request = self.make_iq_set(ito=to)
        pubsub = ET.Element(f"{{{namespace}}}pubsub")
        operation = ET.SubElement(pubsub, f"{{{namespace}}}{name}", {"node": node, **attributes})
        if child is not None:
            operation.append(child)
        request.append(pubsub)
        await request.send(timeout=20)


serve(Publisher)
