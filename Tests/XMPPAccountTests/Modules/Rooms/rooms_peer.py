"""An XMPP client in rooms that shares no code with ours, does what it is told, and writes down all it sees.

Control lines on standard input are JSON objects; each is answered once it has been done, by "done " and
{"result": RESULT} or {"failed": REASON}:
    {"do": "join", "room": ROOM, "nick": NICK}
    {"do": "leave", "room": ROOM, "nick": NICK}
    {"do": "say", "to": JID, "type": TYPE, "id": ID, "body": BODY}
    {"do": "subject", "room": ROOM, "text": TEXT}
    {"do": "role", "room": ROOM, "nick": NICK, "role": ROLE, "reason": REASON}
    {"do": "affiliation", "room": ROOM, "jid": JID, "affiliation": AFFILIATION, "reason": REASON}
    {"do": "list", "room": ROOM, "affiliation": AFFILIATION}
    {"do": "invite", "room": ROOM, "jid": JID, "reason": REASON, "direct": BOOL}
    {"do": "configure", "room": ROOM, "values": {NAME: VALUE}}
    {"do": "destroy", "room": ROOM, "reason": REASON}
    {"do": "quit"}              close the stream and exit with status 0 (the end of the input does so too)

The log holds "received" and "bounced" (messages), "subject" (body), "presence" (from, type, and the status codes in
reason), and "invited" (from: the room, jid: who invites, reason).
"""

import argparse
import asyncio
import json
import os
import sys
import time

try:
    import slixmpp
    from slixmpp.xmlstream.handler import Callback
    from slixmpp.xmlstream.matcher import MatchXPath
except ImportError as error:
    print(f"rooms_peer: {sys.executable} has no slixmpp ({error}): run 'make setup'.", file=sys.stderr)
    sys.exit(4)

CLIENT = "jabber:client"
USER = "http://jabber.org/protocol/muc#user"
CONFERENCE = "jabber:x:conference"


class Log:
    def __init__(self, path):
        self.file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)

    def write(self, kind, **fields):
        record = {"kind": kind, "time": time.time()}
        record.update((name, value) for name, value in fields.items() if value is not None)
        os.write(self.file, (json.dumps(record, ensure_ascii=False) + "\n").encode())


class Refused(Exception):
    """A room does not let the peer in."""


class Peer(slixmpp.ClientXMPP):
    def __init__(self, options, log):
        super().__init__(options.jid, options.password)
        self.log = log
        self.ca_certs = options.ca
        self.enable_direct_tls = False
        self.outcome = asyncio.get_running_loop().create_future()
        self.entering = None
        for name in ("xep_0004", "xep_0045", "xep_0199", "xep_0249"):
            self.register_plugin(name)
        self.rooms = self.plugin["xep_0045"]
        self.add_event_handler("session_start", self.on_session)
        self.ends_on("failed_all_auth", 2, "the server refused the login")
        self.ends_on("ssl_invalid_chain", 2, "the certificate is not trusted")
        self.ends_on("connection_failed", 2, "no connection")
        self.ends_on("disconnected", 3, "the link died")
        self.register_handler(Callback("All messages", MatchXPath(f"{{{CLIENT}}}message"), self.on_message))
        self.register_handler(Callback("All presence", MatchXPath(f"{{{CLIENT}}}presence"), self.on_presence))

    def end(self, status, reason):
        if not self.outcome.done():
            self.outcome.set_result((status, reason))

    def ends_on(self, event, status, reason):
        def handler(detail):
            self.end(status, f"{reason}: {detail}" if isinstance(detail, (str, Exception)) else reason)

        self.add_event_handler(event, handler)

    def on_session(self, _):
        self.send_presence()
        self.log.write("ready", jid=self.boundjid.full, slixmpp=slixmpp.__version__)
        say(f"ready {self.boundjid.full}")

    # Receiving

    def on_message(self, message):
        xml = message.xml
        sender, body = xml.get("from"), xml.findtext(f"{{{CLIENT}}}body")
        invite = xml.find(f"{{{USER}}}x/{{{USER}}}invite")
        direct = xml.find(f"{{{CONFERENCE}}}x")
        error = xml.find(f"{{{CLIENT}}}error")
        if error is not None:
            condition = next((child.tag.rpartition("}")[2] for child in error), "undefined-condition")
            self.log.write("bounced", id=xml.get("id"), **{"from": sender}, condition=condition)
        elif invite is not None:
            reason = invite.findtext(f"{{{USER}}}reason")
            self.log.write("invited", **{"from": sender}, jid=invite.get("from"), reason=reason)
        elif direct is not None:
            self.log.write("invited", **{"from": direct.get("jid")}, jid=sender, reason=direct.get("reason"))
        elif body is None and xml.find(f"{{{CLIENT}}}subject") is not None:
            subject = xml.findtext(f"{{{CLIENT}}}subject")
            self.log.write("subject", **{"from": sender}, body=subject)
        else:
            self.log.write("received", id=xml.get("id"), type=xml.get("type"), **{"from": sender}, body=body)

    def on_presence(self, presence):
        codes = [code.get("code") for code in presence.xml.findall(f"{{{USER}}}x/{{{USER}}}status")]
        error = presence.xml.find(f"{{{CLIENT}}}error")
        if self.entering is not None and not self.entering.done():
            if error is not None:
                self.entering.set_result(error[0].tag.rpartition("}")[2])
            elif "110" in codes and presence.xml.get("type") is None:
                self.entering.set_result(None)
        self.log.write(
            "presence",
            **{"from": presence.xml.get("from")},
            type=presence.xml.get("type"),
            reason=",".join(sorted(codes)) or None,
        )

    # Control

    async def join(self, room, nick):
        # The plugin's own wait misses errors that do not hold what they answer.
        self.entering = asyncio.get_running_loop().create_future()
        self.rooms.join_muc(slixmpp.JID(room), nick, maxhistory="0")
        refusal = await asyncio.wait_for(self.entering, 20)
        if refusal is not None:
            raise Refused(refusal)

    async def leave(self, room, nick):
        self.rooms.leave_muc(slixmpp.JID(room), nick)

    async def say(self, to, type, id, body):
        message = self.make_message(mto=to, mtype=type, mbody=body)
        message["id"] = id
        message.send()

    async def subject(self, room, text):
        self.rooms.set_subject(slixmpp.JID(room), text)

    async def role(self, room, nick, role, reason=""):
        await self.rooms.set_role(slixmpp.JID(room), nick, role, reason=reason)

    async def affiliation(self, room, jid, affiliation, reason=""):
        await self.rooms.set_affiliation(slixmpp.JID(room), affiliation, jid=slixmpp.JID(jid), reason=reason)

    async def list(self, room, affiliation):
        found = await self.rooms.get_affiliation_list(slixmpp.JID(room), affiliation)
        return sorted(str(entry) for entry in found)

    async def invite(self, room, jid, reason, direct):
        if direct:
            self.plugin["xep_0249"].send_invitation(slixmpp.JID(jid), slixmpp.JID(room), reason=reason)
        else:
            self.rooms.invite(slixmpp.JID(room), slixmpp.JID(jid), reason)

    async def configure(self, room, values):
        form = self.plugin["xep_0004"].make_form("submit")
        form.add_field("FORM_TYPE", "hidden", value="http://jabber.org/protocol/muc#roomconfig")
        for name, value in values.items():
            form.add_field(name, "text-single", value=value)
        await self.rooms.set_room_config(slixmpp.JID(room), form)

    async def destroy(self, room, reason):
        await self.rooms.destroy(slixmpp.JID(room), reason)

    async def obey(self, line):
        """False when it is to quit."""
        order = json.loads(line)
        what = order.pop("do")
        if what == "quit":
            return False
        try:
            result = await getattr(self, what)(**order)
            answer = {"result": result}
        except slixmpp.exceptions.IqError as error:
            answer = {"failed": error.condition}
        except Refused as error:
            answer = {"failed": str(error)}
        except Exception as error:  # whatever it is, the test wants to know
            answer = {"failed": f"{type(error).__name__}: {error}"}
        say(f"done {json.dumps(answer)}")
        return True

    async def follow(self, lines):
        while raw := await lines.readline():
            line = raw.decode(errors="replace").strip()
            if line and not await self.obey(line):
                break
        self.end(0, "quit")
        await self.disconnect(wait=10.0)
        self.log.write("quit")


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
        print(f"rooms_peer: {options.jid}: {reason}.", file=sys.stderr, flush=True)
    return status


def main():
    arguments = argparse.ArgumentParser(description="A peer in rooms; control lines on standard input.")
    for name in ("--jid", "--password", "--host", "--ca", "--log"):
        arguments.add_argument(name, required=True)
    arguments.add_argument("--port", required=True, type=int)
    options = arguments.parse_args()
    status = asyncio.run(run(options))
    sys.stdout.flush()
    os._exit(status)


main()
