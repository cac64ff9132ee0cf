"""A messenger that corrects, retracts, reacts, replies, marks, hints and hides, with slixmpp's own plugins.

The log holds "value" (id; body: what the plugins read out of the message, as JSON).
"""

import json

from peer import Peer, serve

HINTS = ("no-permanent-store", "no-store", "no-copy", "store")


class Writer(Peer):
    """A messenger with everything beside the text."""

    plugins = "0030 0115 0308 0333 0334 0359 0382 0424 0428 0444 0461"

    def __init__(self, options):
        super().__init__(options)
        self.sees("message", self.on_message)

    def on_message(self, message):
        self.note("value", message, body=json.dumps(self.read(message), ensure_ascii=False, sort_keys=True))

    def read(self, message) -> dict:
        def plugin(name):
            return message.get_plugin(name, check=True)

        found = {}
        for name in ("replace", "retract", "displayed"):
            if plugin(name) is not None:
                found[name] = message[name]["id"]
        if plugin("reactions") is not None:
            found["reactions"] = [message["reactions"]["id"], *sorted(message["reactions"]["values"])]
        if plugin("reply") is not None:
            reply = message["reply"]
            found["reply"] = [reply["id"], reply["to"], reply.get_fallback_body(), reply.strip_fallback_content()]
        elif plugin("fallback") is not None:
            found["fallback"] = message["fallback"]["for"]
        if plugin("markable") is not None:
            found["markable"] = True
        hints = [name for name in HINTS if plugin(name) is not None]
        if hints:
            found["hints"] = hints
        if plugin("spoiler") is not None:
            found["spoiler"] = plugin("spoiler").xml.text
        return found

    # Writing

    async def do_send(self, to: str, id: str, body: str, markable: bool = False):
        message = self.message(to, id, body)
        if markable:
            message.enable("markable")
        message.send()

    async def do_correct(self, to: str, id: str, body: str):
        self["xep_0308"].build_correction(id, to, mbody=body).send()

    async def do_retract(self, to: str, id: str):
        self["xep_0424"].send_retraction(to, id)

    async def do_react(self, to: str, id: str, reactions: list[str]):
        self["xep_0444"].send_reactions(to, id, reactions)

    async def do_reply(self, to: str, id: str, author: str, quoted: str, name: str, body: str):
        self["xep_0461"].send_reply(author, id, quoted, name, mto=to, mbody=body, mtype="chat")

    async def do_mark(self, to: str, id: str):
        self["xep_0333"].send_marker(to, id, "displayed")

    async def do_hint(self, to: str, hints: list[str]):
        message = self.message(to, "hinted", "hinted")
        for hint in hints:
            message.enable(hint)
        message.send()

    async def do_hide(self, to: str, topics: dict[str, str]):
        message = self.message(to, "hidden", "hidden")
        for lang, topic in topics.items():
            message.get_plugin("spoiler", lang).xml.text = topic
        message.send()

    def message(self, to, id, body):
        message = self.make_message(mto=to, mbody=body, mtype="chat")
        message["id"] = id
        return message

    async def do_info(self, jid: str) -> list[str]:
        answer = await self["xep_0030"].get_info(jid=jid, timeout=20)
        return sorted(answer["disco_info"]["features"])


serve(Writer)
