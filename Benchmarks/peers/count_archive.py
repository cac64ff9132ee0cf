"""A client that only counts: it asks for an archive page by page and looks into nothing but where the next page begins.

    count_archive.py JID PASSWORD PORT CA     prints "rate" and how many messages a second
"""
import base64
import re
import socket
import ssl
import sys
import time

PAGE = 250
HEADER = "<stream:stream to='%s' version='1.0' xmlns='jabber:client' xmlns:stream='http://etherx.jabber.org/streams'>"


class Counter:
    def __init__(self, port, authority, domain):
        self.socket = ssl.create_default_context(cafile=authority).wrap_socket(
            socket.create_connection(("127.0.0.1", port)), server_hostname=domain)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def ask(self, text, end):
        """Sends, and gives what came up to the end of the answer."""
        self.socket.sendall(text.encode())
        came = bytearray()
        looked = 0
        while came.find(end, looked) < 0:
            looked = max(0, len(came) - len(end))
            piece = self.socket.recv(1 << 18)
            if not piece:
                sys.exit("count_archive: the server closed the stream behind " + repr(bytes(came[-200:])))
            came += piece
        return came


def main(jid, password, port, authority):
    user, domain = jid.split("@")
    counter = Counter(int(port), authority, domain)
    counter.ask(HEADER % domain, b"</stream:features>")
    secret = base64.b64encode(f"\0{user}\0{password}".encode()).decode()
    counter.ask(f"<auth xmlns='urn:ietf:params:xml:ns:xmpp-sasl' mechanism='PLAIN'>{secret}</auth>", b"<success")
    counter.ask(HEADER % domain, b"</stream:features>")
    counter.ask("<iq type='set' id='bind'><bind xmlns='urn:ietf:params:xml:ns:xmpp-bind'/></iq>", b"</iq>")
    start = time.monotonic()
    messages, after = 0, ""
    while True:
        came = counter.ask(
            f"<iq type='set' id='q{messages}'><query xmlns='urn:xmpp:mam:2' queryid='q'>"
            f"<set xmlns='http://jabber.org/protocol/rsm'><max>{PAGE}</max>{after}</set></query></iq>", b"</iq>")
        messages += came.count(b"<result ")
        end = bytes(came[came.rfind(b"<iq"):])
        last = re.search(rb"<last>([^<]+)</last>", end)
        if re.search(rb"complete=['\"]true", end) or not last:
            break
        after = f"<after>{last.group(1).decode()}</after>"
    print("rate", messages / (time.monotonic() - start), flush=True)


main(*sys.argv[1:])
