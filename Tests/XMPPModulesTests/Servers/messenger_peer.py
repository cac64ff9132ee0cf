"""A messenger: receipts, chat states, copies, archives, and what clients tell of themselves.

The log holds "message", "bounced", "receipt" (body: the id), "state" (body), "carbon_received" and "carbon_sent".
"""

from peer import Peer, serve
import slixmpp


class Messenger(Peer):
    """A messenger."""

    plugins = "0030 0045 0059 0085 0092 0115 0184 0191 0203 0249 0280 0297 0313 0334 0359"

    def __init__(self, options):
        super().__init__(options)
        self["xep_0184"].auto_ack = True
        self["xep_0184"].auto_request = False
        self.add_event_handler("message", self.on_message)
        self.add_event_handler("message_error", lambda message: self.keep("bounced", message))
        self.add_event_handler("receipt_received", lambda message: self.keep("receipt", message, message["receipt"]))
        for kind in ("carbon_received", "carbon_sent"):
            self.add_event_handler(kind, lambda wrapper, kind=kind: self.keep(kind, wrapper[kind]))
        for state in ("active", "composing", "paused", "gone", "inactive"):
            self.add_event_handler(
                f"chatstate_{state}", lambda message: self.keep("state", message, message["chat_state"])
            )

    async def begin(self):
        self.send_presence()
        await self.get_roster()

    def on_message(self, message):
        if message["body"]:
            self.keep("message", message)

    def keep(self, kind, message, text=None):
        self.note(kind, message, body=message["body"] if text is None else text)

    # Messages

    async def do_send(self, to: str, body: str, id: str | None = None, type: str = "chat", receipt: bool = False) -> str:
        message = self.make_message(mto=to, mbody=body, mtype=type)
        if id:
            message["id"] = id
        if receipt:
            message["request_receipt"] = True
        message.send()
        return message["id"]

    async def do_flood(self, to: str, count: int, prefix: str, size: int = 0, type: str = "chat") -> int:
        for number in range(count):
            await self.drained()
            message = self.make_message(mto=to, mbody=f"{prefix} {number}".ljust(size, "."), mtype=type)
            message["id"] = f"{prefix}-{number}"
            message.send()
        await self.sync()
        return count

    # Requests

    async def do_carbons(self):
        await self["xep_0280"].enable()

    async def do_mam(self) -> list[str]:
        bodies = []
        async for message in self["xep_0313"].iterate():
            bodies.append(message["mam_result"]["forwarded"]["stanza"]["body"])
        # Receipts may be kept too.
        return [body for body in bodies if body]

    async def do_info(self, jid: str, node: str | None = None) -> list[str]:
        answer = await self["xep_0030"].get_info(jid=jid, node=node, timeout=20)
        return sorted(answer["disco_info"]["features"])

    async def do_version(self, jid: str) -> str:
        answer = await self["xep_0092"].get_version(slixmpp.JID(jid))
        return f"{answer['software_version']['name']} {answer['software_version']['version']}"

    async def do_presence(self, to: str | None = None, kind: str | None = None):
        await self["xep_0115"].update_caps(broadcast=False)
        self.send_presence(pto=to, ptype=kind)


serve(Messenger)
