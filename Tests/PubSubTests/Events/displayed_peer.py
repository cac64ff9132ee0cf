"""Another client of the account, which keeps and sees how far conversations were seen, with slixmpp's own plugin.

The log holds "displayed" (id: the conversation; body: the archive's id; to: whose archive).
"""

from peer import Peer, serve


class Reader(Peer):
    """A client that synchronizes what was displayed."""

    plugins = "0030 0060 0115 0163 0223 0359 0490"

    def __init__(self, options):
        super().__init__(options)
        self.add_event_handler("message_displayed_synchronization_publish", self.on_publish)

    async def begin(self):
        await self["xep_0115"].update_caps(broadcast=False)
        self.send_presence()
        await self.sync()

    def on_publish(self, message):
        for item in message["pubsub_event"]["items"]["substanzas"]:
            chat, id, by = self.words(item)
            self.write("displayed", id=chat, body=id, to=by)

    def words(self, item) -> list[str]:
        stanza_id = item["displayed"]["stanza_id"]
        return [item["id"], stanza_id["id"], stanza_id["by"]]

    async def do_flag(self, chat: str, id: str):
        await self["xep_0490"].flag_chat(chat, id, timeout=20)

    async def do_catch_up(self) -> list[list[str]]:
        answer = await self["xep_0490"].catch_up(timeout=20)
        return sorted(self.words(item) for item in answer["pubsub"]["items"]["substanzas"])


serve(Reader)
