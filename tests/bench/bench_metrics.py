"""What a reading of the server's counters costs the loop: real pages and one of 2 MB, parsed and read over a socket.

    python tests/bench/bench_metrics.py

The target is under 2 ms of the loop's own time for a real page (CPU time of this process, the server is another one).
"""

from __future__ import annotations

import http.server
import multiprocessing
import time
from pathlib import Path

import anyio
import httpx

from infermaxx_tui.core.readings import parse_metrics
from infermaxx_tui.runner.client import make_client

PAGES = Path(__file__).parent.parent / "logs" / "metrics"
TIMES = 200


def pages() -> dict[str, bytes]:
    """The pages that are read, by name."""
    real = {path.stem: path.read_bytes() for path in sorted(PAGES.glob("*.txt"))}
    largest = max(real.values(), key=len)
    return real | {"2 MB": largest * (2_000_000 // len(largest))}


def serve(page: bytes, port: multiprocessing.Queue[int]) -> None:
    """Answers every request with the page, for ever."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("content-type", "text/plain; version=0.0.4")
            self.send_header("content-length", str(len(page)))
            self.end_headers()
            self.wfile.write(page)

        def log_message(self, *_: object) -> None:
            return

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        port.put(server.server_address[1])
        server.serve_forever()


async def read(client: httpx.AsyncClient) -> None:
    """One reading, as the runner takes it."""
    async with client.stream("GET", "/metrics", timeout=5.0) as answer:
        parse_metrics(b"".join([part async for part in answer.aiter_bytes()]))


async def cpu_ms(url: str, times: int) -> float:
    """CPU time of this process for a reading, in ms."""
    async with make_client(url, None) as client:
        await read(client)
        before = time.process_time()
        for _ in range(times):
            await read(client)
        return (time.process_time() - before) / times * 1000


def main() -> None:
    """Prints the table."""
    print(f"{'page':28} {'bytes':>9} {'parse ms':>9} {'whole reading, CPU ms':>22}")
    for name, page in pages().items():
        best = min(_parse_ms(page) for _ in range(20))
        port: multiprocessing.Queue[int] = multiprocessing.Queue()
        process = multiprocessing.Process(target=serve, args=(page, port), daemon=True)
        process.start()
        whole = anyio.run(cpu_ms, f"http://127.0.0.1:{port.get()}", TIMES if len(page) < 200_000 else 20)
        process.terminate()
        process.join()
        print(f"{name:28} {len(page):9} {best:9.2f} {whole:22.2f}")


def _parse_ms(page: bytes) -> float:
    before = time.perf_counter()
    parse_metrics(page)
    return (time.perf_counter() - before) * 1000


if __name__ == "__main__":
    main()
