"""python-omemo with Twomemo: two devices with a session, messages one after the other, everything in memory.

    omemo_peer.py COUNT        prints "encrypt RATE" and "decrypt RATE", messages a second
"""

import asyncio
import logging
import sys
import time

try:
    import omemo
    import twomemo
    from omemo.storage import Just, Nothing, Storage
except ImportError as error:
    print(f"omemo_peer: {sys.executable} lacks a module ({error}): run 'make setup'.", file=sys.stderr)
    sys.exit(4)

NAMESPACE = twomemo.twomemo.NAMESPACE
BUNDLES = {}
LISTS = {}


class Memory(Storage):
    def __init__(self):
        super().__init__()
        self.values = {}

    async def _load(self, key):
        return Just(self.values[key]) if key in self.values else Nothing()

    async def _store(self, key, value):
        self.values[key] = value

    async def _delete(self, key):
        self.values.pop(key, None)


class Manager(omemo.SessionManager):
    @staticmethod
    async def _upload_bundle(bundle):
        BUNDLES[bundle.bare_jid, bundle.device_id] = bundle

    @staticmethod
    async def _download_bundle(namespace, bare_jid, device_id):
        return BUNDLES[bare_jid, device_id]

    @staticmethod
    async def _delete_bundle(namespace, device_id):
        pass

    @staticmethod
    async def _upload_device_list(namespace, device_list):
        LISTS[Manager.uploader] = device_list

    @staticmethod
    async def _download_device_list(namespace, bare_jid):
        return LISTS.get(bare_jid, {})

    async def _evaluate_custom_trust_level(self, device):
        return omemo.TrustLevel.TRUSTED

    async def _make_trust_decision(self, undecided, identifier):
        pass

    @staticmethod
    async def _send_message(message, bare_jid):
        pass


async def manager(jid):
    Manager.uploader = jid
    memory = Memory()
    made = await Manager.create([twomemo.Twomemo(memory)], memory, jid, None, "TRUSTED")
    await made.after_history_sync()
    return made


async def main(count):
    logging.disable()
    alice, bob = await manager("alice@bench.example"), await manager("bob@bench.example")
    await alice.refresh_device_list(NAMESPACE, "bob@bench.example")
    await bob.refresh_device_list(NAMESPACE, "alice@bench.example")
    text = b"x" * 300

    async def encrypt(sender, to):
        messages, errors = await sender.encrypt(frozenset({to}), {NAMESPACE: text})
        if errors:
            raise RuntimeError(str(errors))
        return next(iter(messages))

    await bob.decrypt(await encrypt(alice, "bob@bench.example"))
    await alice.decrypt(await encrypt(bob, "alice@bench.example"))
    begin = time.perf_counter()
    messages = [await encrypt(alice, "bob@bench.example") for _ in range(count)]
    middle = time.perf_counter()
    for message in messages:
        await bob.decrypt(message)
    end = time.perf_counter()
    print(f"encrypt {count / (middle - begin):.0f}")
    print(f"decrypt {count / (end - middle):.0f}")
    await alice.shutdown()
    await bob.shutdown()


asyncio.run(main(int(sys.argv[1])))
