"""Many accounts in one process, as a program with slixmpp runs them: each has a session with stream management and stores nothing.

    slixmpp_accounts.py PASSWORD PORT CA COUNT   u0, u1 and so on at localhost, 64 logins at a time; prints "ready" and then, when
                                                 all are logged in, "connected SECONDS MEMORY": kilobytes of all of them together
"""
import asyncio
import sys
import time

import slixmpp


class Bot(slixmpp.ClientXMPP):
    def __init__(self, jid, password, authority):
        super().__init__(jid, password)
        self.register_plugin("xep_0198")
        self.ca_certs = authority
        self.started = asyncio.get_running_loop().create_future()
        self.add_event_handler("session_start", lambda _: self.started.done() or self.started.set_result(None))


def memory():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4


async def log_in(number, password, port, authority, gate, bots):
    async with gate:
        bot = Bot(f"u{number}@localhost", password, authority)
        bots.append(bot)
        bot.connect("127.0.0.1", port)
        await bot.started


async def main(password, port, authority, count):
    print("ready", flush=True)
    before, start, bots = memory(), time.monotonic(), []
    gate = asyncio.Semaphore(64)
    await asyncio.gather(*(log_in(n, password, int(port), authority, gate, bots) for n in range(int(count))))
    print("connected", time.monotonic() - start, memory() - before, flush=True)


asyncio.run(main(*sys.argv[1:]))
