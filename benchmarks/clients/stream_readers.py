"""Readers of one stream, in a process of their own: `stream_readers URL HOW_MANY`. Says `ready`
when each has heard something, and at the end what they heard."""

import asyncio
import signal
import sys

import aiohttp


async def _main(url: str, count: int) -> None:
    heard = [0, 0]
    first = asyncio.Semaphore(0)

    async def read(session: aiohttp.ClientSession) -> None:
        async with session.get(url) as stream:
            is_first = True
            async for chunk in stream.content.iter_any():
                heard[0] += chunk.count(b"event: ")
                heard[1] += len(chunk)
                if is_first:
                    first.release()
                    is_first = False

    connector = aiohttp.TCPConnector(limit=0)
    timeout = aiohttp.ClientTimeout(total=None)
    async with aiohttp.ClientSession(connector=connector, timeout=timeout) as session:
        reading = [asyncio.create_task(read(session)) for _ in range(count)]
        for _ in range(count):
            await first.acquire()
        print("ready", flush=True)
        ended = asyncio.Event()
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, ended.set)
        await ended.wait()
        for one in reading:
            one.cancel()
        await asyncio.gather(*reading, return_exceptions=True)
    print(f"{heard[0]} events, {heard[1]} bytes")


if __name__ == "__main__":
    asyncio.run(_main(sys.argv[1], int(sys.argv[2])))
