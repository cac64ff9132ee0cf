"""An XMPP client with OMEMO that shares no code with ours.

The legacy version is slixmpp-omemo as it comes. For the current version that plugin lacks the envelope of XEP-0420, so it
is made here, around the plugin's own session manager.

OMEMO_VERSIONS in the environment: legacy, omemo2 or both. OMEMO_ROOM: a room to join; OMEMO_MEMBERS: addresses of its
members, with commas. OMEMO_DEVICE: the number of its device, as if it had been installed before; it must be on no list.

It can be told to "send" and to "stop"; the bodies are PREFIX-1, …, and the addressee may be the room.

The log holds "sent" (body, to), "received" (body, from), "empty" (from: a message without content), "unreadable" (reason,
from), and "copy" (id, from: a message that came before; XEP-0198 section 5 lets servers and clients send one again).
"""

import asyncio
import base64
import os
import secrets
import sys

from peer import CLIENT, Sender, required, serve
import slixmpp
from slixmpp.plugins import register_plugin
from slixmpp.xmlstream import ET

with required():
    import oldmemo
    import oldmemo.etree
    import omemo
    import slixmpp_omemo.xep_0384 as plugin
    import twomemo
    import twomemo.etree
    from omemo.storage import Just, Nothing, Storage

SCE = "urn:xmpp:sce:1"
LEGACY = "eu.siacs.conversations.axolotl"
CURRENT = "urn:xmpp:omemo:2"
SPOKEN = {"legacy": {LEGACY}, "omemo2": {CURRENT}, "both": {LEGACY, CURRENT}}[os.environ.get("OMEMO_VERSIONS", "both")]

if os.environ.get("OMEMO_DEVICE"):
    # The number is made by chance once, at the first start.
    import omemo.session_manager

    number = int(os.environ["OMEMO_DEVICE"]) - omemo.SessionManager.DEVICE_ID_MIN
    omemo.session_manager.secrets = type("secrets", (), {"randbelow": staticmethod(lambda limit: number)})

original_manager = plugin._make_session_manager


def make_session_manager(xmpp, xep_0384):
    class Manager(original_manager(xmpp, xep_0384)):
        @classmethod
        async def create(cls, backends, *arguments, **options):
            spoken = [backend for backend in backends if backend.namespace in SPOKEN]
            return await super().create(spoken, *arguments, **options)

    return Manager


plugin._make_session_manager = make_session_manager


class Memory(Storage):
    """Everything in memory: the peer is never restarted."""

    def __init__(self):
        super().__init__()
        self.values = {}

    async def _load(self, key):
        return Just(self.values[key]) if key in self.values else Nothing()

    async def _store(self, key, value):
        self.values[key] = value

    async def _delete(self, key):
        self.values.pop(key, None)


class XEP_0384Peer(plugin.XEP_0384):
    default_config = {"fallback_message": "This message is encrypted."}

    def plugin_init(self):
        self.memory = Memory()
        super().plugin_init()

    @property
    def storage(self):
        return self.memory

    @property
    def _btbv_enabled(self):
        return True

    async def refresh_device_lists(self, jids, force_download=False):
        """The plugin's own asks for both versions, whichever are spoken."""
        manager = await self.get_session_manager()
        for jid in {jid.bare for jid in jids}:
            for namespace in SPOKEN:
                try:
                    await manager.refresh_device_list(namespace, jid)
                except omemo.DeviceListDownloadFailed:
                    pass

    async def _devices_blindly_trusted(self, blindly_trusted, identifier):
        pass

    async def _prompt_manual_trust(self, manually_trusted, identifier):
        manager = await self.get_session_manager()
        for device in manually_trusted:
            await manager.set_trust(device.bare_jid, device.identity_key, "TRUSTED")


register_plugin(XEP_0384Peer)


def envelope(body, sender, room):
    root = ET.Element(f"{{{SCE}}}envelope")
    content = ET.SubElement(root, f"{{{SCE}}}content")
    ET.SubElement(content, f"{{{CLIENT}}}body").text = body
    ET.SubElement(root, f"{{{SCE}}}rpad").text = base64.b64encode(secrets.token_bytes(secrets.randbelow(90))).decode()
    ET.SubElement(root, f"{{{SCE}}}from", {"jid": sender})
    if room:
        ET.SubElement(root, f"{{{SCE}}}to", {"jid": room})
    return ET.tostring(root)


def opened(plaintext, sender, room):
    root = ET.fromstring(plaintext)
    if root.tag != f"{{{SCE}}}envelope" or root.find(f"{{{SCE}}}rpad") is None:
        raise ValueError("no envelope")
    if root.find(f"{{{SCE}}}from").get("jid") != sender:
        raise ValueError("the envelope names another sender")
    if room and root.find(f"{{{SCE}}}to").get("jid") != room:
        raise ValueError("the envelope names another room")
    return root.findtext(f"{{{SCE}}}content/{{{CLIENT}}}body")


class OmemoPeer(Sender):
    """A peer with OMEMO."""

    plugins = "0045"

    def __init__(self, options):
        super().__init__(options)
        self.room = os.environ.get("OMEMO_ROOM")
        self.members = [jid for jid in os.environ.get("OMEMO_MEMBERS", "").split(",") if jid]
        self.lock = asyncio.Lock()
        self.seen = set()
        self.initialized = asyncio.Event()
        self.register_plugin("xep_0384", module=sys.modules[__name__])
        self.add_event_handler("omemo_initialized", lambda _: self.initialized.set())
        self.sees("message", self.on_message)

    async def begin(self):
        self.send_presence()
        await self.initialized.wait()
        if self.room:
            await self["xep_0045"].join_muc_wait(slixmpp.JID(self.room), self.boundjid.user, maxchars=0)

    # Receiving

    async def on_message(self, message):
        encryption = self["xep_0384"]
        carbon = None
        if message["from"].bare == self.boundjid.bare:
            carbon = message.xml.find(
                "{urn:xmpp:carbons:2}sent/{urn:xmpp:forward:0}forwarded/{jabber:client}message"
            )
        if carbon is not None:
            message = slixmpp.Message(self, carbon)
        if not encryption.is_encrypted(message):
            return
        if message["type"] == "groupchat" and message["from"].resource == self.boundjid.user:
            return  # the room reflects what this peer sent
        async with self.lock:
            sender = str(message["from"])
            if (sender, message["id"]) in self.seen:
                self.note("copy", message)
                return
            self.seen.add((sender, message["id"]))
            try:
                body = await self.decrypted(message, encryption)
            except omemo.MessageNotForUs as error:
                # A message without content is for one device, and comes to all.
                if any(element.tag.endswith("}payload") for element in message.xml.iter()):
                    self.note("unreadable", message, reason=str(error))
                return
            except Exception as error:  # whatever it is, it is written down
                self.note("unreadable", message, reason=f"{type(error).__name__}: {error}")
                return
            if body is not None:
                self.note("received", message, body=body)
            elif not any(element.tag.endswith("}payload") for element in message.xml.iter()):
                self.note("empty", message)

    async def decrypted(self, message, encryption):
        current = message.xml.find(f"{{{CURRENT}}}encrypted")
        if current is None or CURRENT not in SPOKEN:
            if current is not None:
                message.xml.remove(current)
            if message.xml.find(f"{{{LEGACY}}}encrypted") is None:
                return None
            plain, _ = await encryption.decrypt_message(message)
            return plain.xml.findtext(f"{{{CLIENT}}}body")
        sender, room = message["from"].bare, None
        if message["type"] == "groupchat":
            room = sender
            real = self["xep_0045"].get_jid_property(
                slixmpp.JID(room), message["from"].resource, "jid"
            )
            sender = slixmpp.JID(real).bare
        manager = await encryption.get_session_manager()
        parsed = twomemo.etree.parse_message(current, sender)
        plaintext, _, _ = await manager.decrypt(parsed)
        return None if plaintext is None else opened(plaintext, sender, room)

    # Sending

    async def send_one(self, to, prefix, number):
        body = f"{prefix}-{number}"
        encryption = self["xep_0384"]
        is_room = to == self.room
        recipients = {slixmpp.JID(jid) for jid in self.members} if is_room else {slixmpp.JID(to)}
        recipients = {jid for jid in recipients if jid.bare != self.boundjid.bare}
        async with self.lock:
            stanza = self.make_message(mto=to, mtype="groupchat" if is_room else "chat", mbody=body)
            if SPOKEN == {LEGACY}:
                encrypted, errors = await encryption.encrypt_message(stanza, recipients)
                for error in errors:
                    self.write("skipped", reason=str(error))
                encrypted.send()
            else:
                await self.send_current(stanza, recipients, to if is_room else None, encryption)
            self.write("sent", to=to, body=body)

    async def send_current(self, stanza, recipients, room, encryption):
        await encryption.refresh_device_lists(recipients)
        manager = await encryption.get_session_manager()
        body = stanza["body"]
        plaintexts = {CURRENT: envelope(body, self.boundjid.bare, room), LEGACY: body.encode()}
        plaintexts = {namespace: text for namespace, text in plaintexts.items() if namespace in SPOKEN}
        messages, errors = await manager.encrypt(
            frozenset(jid.bare for jid in recipients), plaintexts,
            backend_priority_order=[name for name in (CURRENT, LEGACY) if name in SPOKEN],
        )
        for error in errors:
            self.write("skipped", reason=str(error))
        del stanza["body"]
        for message in messages:
            etree = twomemo.etree if message.namespace == CURRENT else oldmemo.etree
            stanza.append(etree.serialize_message(message))
        stanza.enable("store")
        stanza.send()


serve(OmemoPeer)
