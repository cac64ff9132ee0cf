"""An XMPP client with OMEMO that shares no code with ours and writes down all it sees.

The legacy version is slixmpp-omemo as it comes. For the current version that plugin lacks the envelope of XEP-0420, so it
is made here, around the plugin's own session manager.

OMEMO_VERSIONS in the environment: legacy, omemo2 or both. OMEMO_ROOM: a room to join; OMEMO_MEMBERS: addresses of its
members, with commas. OMEMO_DEVICE: the number of its device, as if it had been installed before; it must be on no list.

Control lines on standard input; each is echoed when it was understood:
    send TO COUNT RATE PREFIX   send COUNT encrypted messages, RATE a second (0: at once), with the bodies PREFIX-1, …;
                                prints "sent PREFIX COUNT" at the end. TO may be the room.
    stop                        end all sending
    quit                        close the stream and exit with status 0 (the end of the input does so too)

The log holds "sent" (body, to), "received" (body, from), "empty" (from: a message without content), "unreadable" (reason,
from), and "copy" (id, from: a message that came before; XEP-0198 section 5 lets servers and clients send one again).
"""

import argparse
import asyncio
import base64
import json
import os
import secrets
import sys
import time

try:
    import oldmemo
    import oldmemo.etree
    import omemo
    import slixmpp
    import slixmpp_omemo.xep_0384 as plugin
    import twomemo
    import twomemo.etree
    from omemo.storage import Just, Nothing, Storage
    from slixmpp.plugins import register_plugin
    from slixmpp.xmlstream import ET
    from slixmpp.xmlstream.handler import CoroutineCallback
    from slixmpp.xmlstream.matcher import MatchXPath
except ImportError as error:
    print(f"omemo_peer: {sys.executable} lacks a module ({error}): run 'make setup'.", file=sys.stderr)
    sys.exit(4)

CLIENT = "jabber:client"
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


class Log:
    def __init__(self, path):
        self.file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)

    def write(self, kind, **fields):
        record = {"kind": kind, "time": time.time()}
        record.update((name, value) for name, value in fields.items() if value is not None)
        os.write(self.file, (json.dumps(record, ensure_ascii=False) + "\n").encode())


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


class Peer(slixmpp.ClientXMPP):
    def __init__(self, options, log):
        super().__init__(options.jid, options.password)
        self.log = log
        self.ca_certs = options.ca
        self.enable_direct_tls = False
        self.room = os.environ.get("OMEMO_ROOM")
        self.members = [jid for jid in os.environ.get("OMEMO_MEMBERS", "").split(",") if jid]
        self.lock = asyncio.Lock()
        self.seen = set()
        self.senders = set()
        self.ready = asyncio.Event()
        self.outcome = asyncio.get_running_loop().create_future()
        for name in ("xep_0199", "xep_0045"):
            self.register_plugin(name)
        self.register_plugin("xep_0384", module=sys.modules[__name__])
        self.add_event_handler("session_start", self.on_session)
        self.add_event_handler("omemo_initialized", self.on_omemo)
        self.ends_on("failed_all_auth", 2, "the server refused the login")
        self.ends_on("ssl_invalid_chain", 2, "the certificate is not trusted")
        self.ends_on("connection_failed", 2, "no connection")
        self.ends_on("disconnected", 3, "the link died")
        self.register_handler(
            CoroutineCallback("Encrypted", MatchXPath(f"{{{CLIENT}}}message"), self.on_message)
        )

    def end(self, status, reason):
        if not self.outcome.done():
            self.outcome.set_result((status, reason))

    def ends_on(self, event, status, reason):
        def handler(detail):
            self.end(status, f"{reason}: {detail}" if isinstance(detail, (str, Exception)) else reason)

        self.add_event_handler(event, handler)

    async def on_session(self, _):
        self.send_presence()

    async def on_omemo(self, _):
        if self.room:
            await self.plugin["xep_0045"].join_muc_wait(slixmpp.JID(self.room), self.boundjid.user, maxchars=0)
        self.ready.set()
        self.log.write("ready", jid=self.boundjid.full, slixmpp=slixmpp.__version__)
        say(f"ready {self.boundjid.full}")

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
                self.log.write("copy", **{"from": sender}, id=message["id"])
                return
            self.seen.add((sender, message["id"]))
            try:
                body = await self.decrypted(message, encryption)
            except omemo.MessageNotForUs as error:
                # A message without content is for one device, and comes to all.
                if any(element.tag.endswith("}payload") for element in message.xml.iter()):
                    self.log.write("unreadable", **{"from": sender}, reason=str(error))
                return
            except Exception as error:  # whatever it is, it is written down
                self.log.write(
                    "unreadable", **{"from": sender}, id=message["id"], reason=f"{type(error).__name__}: {error}"
                )
                return
            if body is not None:
                self.log.write("received", **{"from": sender}, id=message["id"], body=body)
            elif not any(element.tag.endswith("}payload") for element in message.xml.iter()):
                self.log.write("empty", **{"from": sender}, id=message["id"])

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
            real = self.plugin["xep_0045"].get_jid_property(
                slixmpp.JID(room), message["from"].resource, "jid"
            )
            sender = slixmpp.JID(real).bare
        manager = await encryption.get_session_manager()
        parsed = twomemo.etree.parse_message(current, sender)
        plaintext, _, _ = await manager.decrypt(parsed)
        return None if plaintext is None else opened(plaintext, sender, room)

    # Sending

    async def send_encrypted(self, to, body):
        encryption = self["xep_0384"]
        is_room = to == self.room
        recipients = {slixmpp.JID(jid) for jid in self.members} if is_room else {slixmpp.JID(to)}
        recipients = {jid for jid in recipients if jid.bare != self.boundjid.bare}
        async with self.lock:
            stanza = self.make_message(mto=to, mtype="groupchat" if is_room else "chat", mbody=body)
            if SPOKEN == {LEGACY}:
                encrypted, errors = await encryption.encrypt_message(stanza, recipients)
                for error in errors:
                    self.log.write("skipped", reason=str(error))
                encrypted.send()
            else:
                await self.send_current(stanza, recipients, to if is_room else None, encryption)
            self.log.write("sent", to=to, body=body)

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
            self.log.write("skipped", reason=str(error))
        del stanza["body"]
        for message in messages:
            etree = twomemo.etree if message.namespace == CURRENT else oldmemo.etree
            stanza.append(etree.serialize_message(message))
        stanza.enable("store")
        stanza.send()

    # Control

    async def send_numbered(self, to, count, rate, prefix):
        sent = 0
        try:
            await self.ready.wait()
            for number in range(1, count + 1):
                await self.send_encrypted(to, f"{prefix}-{number}")
                sent = number
                if rate > 0:
                    await asyncio.sleep(1 / rate)
        except Exception as error:
            self.log.write("failed", reason=f"{type(error).__name__}: {error}")
        finally:
            say(f"sent {prefix} {sent}")

    async def stop_sending(self):
        senders = list(self.senders)
        for sender in senders:
            sender.cancel()
        await asyncio.gather(*senders, return_exceptions=True)

    async def control(self, line):
        words = line.split()
        if words[:1] == ["send"] and len(words) == 5:
            say(line)
            sender = asyncio.ensure_future(
                self.send_numbered(words[1], int(words[2]), float(words[3]), words[4])
            )
            self.senders.add(sender)
            sender.add_done_callback(self.senders.discard)
        elif words == ["stop"]:
            await self.stop_sending()
            say(line)
        elif words == ["quit"]:
            return False
        return True

    async def follow(self, lines):
        while raw := await lines.readline():
            line = raw.decode(errors="replace").strip()
            if line and not await self.control(line):
                break
        await self.stop_sending()
        self.end(0, "quit")
        await self.disconnect(wait=10.0)
        self.log.write("quit")
        say("quit")


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
        print(f"omemo_peer: {options.jid}: {reason}.", file=sys.stderr, flush=True)
    return status


def main():
    arguments = argparse.ArgumentParser(description="A peer with OMEMO; control lines on standard input.")
    for name in ("--jid", "--password", "--host", "--ca", "--log"):
        arguments.add_argument(name, required=True)
    arguments.add_argument("--port", required=True, type=int)
    options = arguments.parse_args()
    status = asyncio.run(run(options))
    sys.stdout.flush()
    os._exit(status)


main()
