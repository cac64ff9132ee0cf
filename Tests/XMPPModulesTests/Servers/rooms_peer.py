"""Somebody in rooms.

The log holds "received" and "bounced" (messages), "subject" (body), "presence" (from, type, and the status codes in
reason), and "invited" (from: the room, jid: who invites, reason).
"""

import asyncio

from peer import CLIENT, Peer, Refused, condition, serve
import slixmpp

USER = "http://jabber.org/protocol/muc#user"
CONFERENCE = "jabber:x:conference"


class Occupant(Peer):
    """Somebody in rooms."""

    plugins = "0004 0045 0249"

    def __init__(self, options):
        super().__init__(options)
        self.entering = None
        self.rooms = self["xep_0045"]
        self.sees("message", self.on_message)
        self.sees("presence", self.on_presence)

    # Receiving

    def on_message(self, message):
        xml = message.xml
        body, subject = xml.findtext(f"{{{CLIENT}}}body"), xml.findtext(f"{{{CLIENT}}}subject")
        invite = xml.find(f"{{{USER}}}x/{{{USER}}}invite")
        direct = xml.find(f"{{{CONFERENCE}}}x")
        if (error := condition(message)) is not None:
            self.note("bounced", message, condition=error)
        elif invite is not None:
            self.note("invited", message, jid=invite.get("from"), reason=invite.findtext(f"{{{USER}}}reason"))
        elif direct is not None:
            room = {"from": direct.get("jid")}
            self.note("invited", message, **room, jid=xml.get("from"), reason=direct.get("reason"))
        elif body is None and subject is not None:
            self.note("subject", message, body=subject)
        else:
            self.note("received", message, body=body)

    def on_presence(self, presence):
        codes = [code.get("code") for code in presence.xml.findall(f"{{{USER}}}x/{{{USER}}}status")]
        error = condition(presence)
        if self.entering is not None and not self.entering.done():
            if error is not None:
                self.entering.set_result(error)
            elif "110" in codes and presence.xml.get("type") is None:
                self.entering.set_result(None)
        self.note("presence", presence, reason=",".join(sorted(codes)) or None)

    # Being there

    async def do_join(self, room: str, nick: str):
        # The plugin's own wait misses errors that do not hold what they answer.
        self.entering = asyncio.get_running_loop().create_future()
        self.rooms.join_muc(slixmpp.JID(room), nick, maxhistory="0")
        refusal = await asyncio.wait_for(self.entering, 20)
        if refusal is not None:
            raise Refused(refusal)

    async def do_leave(self, room: str, nick: str):
        self.rooms.leave_muc(slixmpp.JID(room), nick)

    async def do_say(self, to: str, type: str, id: str, body: str):
        message = self.make_message(mto=to, mtype=type, mbody=body)
        message["id"] = id
        message.send()

    async def do_subject(self, room: str, text: str):
        self.rooms.set_subject(slixmpp.JID(room), text)

    async def do_invite(self, room: str, jid: str, reason: str, direct: bool):
        if direct:
            self["xep_0249"].send_invitation(slixmpp.JID(jid), slixmpp.JID(room), reason=reason)
        else:
            self.rooms.invite(slixmpp.JID(room), slixmpp.JID(jid), reason)

    # Governing

    async def do_role(self, room: str, nick: str, role: str, reason: str = ""):
        await self.rooms.set_role(slixmpp.JID(room), nick, role, reason=reason)

    async def do_affiliation(self, room: str, jid: str, affiliation: str, reason: str = ""):
        await self.rooms.set_affiliation(slixmpp.JID(room), affiliation, jid=slixmpp.JID(jid), reason=reason)

    async def do_list(self, room: str, affiliation: str) -> list[str]:
        found = await self.rooms.get_affiliation_list(slixmpp.JID(room), affiliation)
        return sorted(str(entry) for entry in found)

    async def do_configure(self, room: str, values: dict[str, str]):
        form = self["xep_0004"].make_form("submit")
        form.add_field("FORM_TYPE", "hidden", value="http://jabber.org/protocol/muc#roomconfig")
        for name, value in values.items():
            form.add_field(name, "text-single", value=value)
        await self.rooms.set_room_config(slixmpp.JID(room), form)

    async def do_destroy(self, room: str, reason: str):
        await self.rooms.destroy(slixmpp.JID(room), reason)


serve(Occupant)
