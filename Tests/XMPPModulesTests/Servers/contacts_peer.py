"""A contact of the account under test; it answers nothing by itself.

The log holds "received" (messages) and "presence", both with their body or status and the condition of an error, and "item"
(of the roster: from, type, want).
"""

from peer import CLIENT, Peer, condition, serve
import slixmpp
from slixmpp.xmlstream import ET


class Contact(Peer):
    """A contact."""

    plugins = "0054 0191"

    def __init__(self, options):
        super().__init__(options)
        self.auto_authorize = None
        self.auto_subscribe = False
        self.sees("message", lambda message: self.write_down("received", message, "normal"))
        self.sees("presence", lambda presence: self.write_down("presence", presence, "available"))

    async def begin(self):
        await self.get_roster()
        self.send_presence()

    def write_down(self, kind, stanza, usual_type):
        texts = [stanza.xml.findtext(f"{{{CLIENT}}}{name}") for name in ("body", "status")]
        self.note(
            kind,
            stanza,
            type=stanza.xml.get("type", usual_type),
            body=next((text for text in texts if text is not None), None),
            condition=condition(stanza),
        )

    async def do_step(self, to: str, type: str):
        """Sends a step of a subscription."""
        self.send_presence(pto=to, ptype=type)
        await self.sync()

    async def do_show(self, show: str, status: str):
        self.send_presence(pshow=show, pstatus=status)
        await self.sync()

    async def do_say(self, to: str, body: str):
        self.send_message(mto=to, mtype="chat", mbody=body)
        await self.sync()

    async def do_block(self, jid: str):
        await self["xep_0191"].block(slixmpp.JID(jid))

    async def do_unblock(self, jid: str):
        await self["xep_0191"].unblock(slixmpp.JID(jid))

    async def do_card(self, name: str, nick: str, type: str, photo: str):
        """Sets its card (XEP-0054); the photo in base64."""
        card = ET.Element("{vcard-temp}vCard")
        for tag, text in (("FN", name), ("NICKNAME", nick)):
            ET.SubElement(card, f"{{vcard-temp}}{tag}").text = text
        picture = ET.SubElement(card, "{vcard-temp}PHOTO")
        for tag, text in (("TYPE", type), ("BINVAL", photo)):
            ET.SubElement(picture, f"{{vcard-temp}}{tag}").text = text
        request = self.make_iq_set()
        request.append(card)
        await request.send(timeout=20)


serve(Contact)
