"""A reader of files: it writes down the links that it gets, and fetches what they stand for, with nothing of the library.

The log holds "link" (body: the text, reason: the attachment of XEP-0066).
"""

import hashlib
import ssl
import urllib.request

from peer import Peer, Refused, required, serve

with required():
    from cryptography.exceptions import InvalidTag
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM


class Reader(Peer):
    """A reader of files."""

    plugins = "0066"

    def __init__(self, options):
        super().__init__(options)
        self.authority = options.ca
        self.add_event_handler("message", self.on_message)

    def on_message(self, message):
        if message["body"]:
            self.note("link", message, body=message["body"], reason=message["oob"]["url"] or None)

    def fetch(self, address: str) -> bytes:
        context = ssl.create_default_context(cafile=self.authority)
        with urllib.request.urlopen(address, timeout=30, context=context) as answer:
            return answer.read()

    async def do_read(self, link: str) -> list:
        """The SHA-256 of the file behind a link, and its size."""
        if link.startswith("aesgcm://"):
            address, _, secret = link.partition("#")
            secret = bytes.fromhex(secret)
            try:
                # The IV comes first, and the tag stands at the end of the file (XEP-0454 section 3).
                content = AESGCM(secret[12:]).decrypt(secret[:12], self.fetch("https" + address[6:]), None)
            except InvalidTag:
                raise Refused("the tag does not fit")
        else:
            content = self.fetch(link)
        return [hashlib.sha256(content).hexdigest(), str(len(content))]

    async def do_encrypt(self, key: str, iv: str, text: str) -> str:
        """The ciphertext with its tag, in hexadecimal digits."""
        return AESGCM(bytes.fromhex(key)).encrypt(bytes.fromhex(iv), bytes.fromhex(text), None).hex()

    async def do_sync(self):
        await self.sync()


serve(Reader)
