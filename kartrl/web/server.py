"""Serves the page and its pictures, in a thread of its own: viewers, however slow, do not delay the show."""

import asyncio
import contextlib
import json
import logging
import queue
import threading
from collections.abc import Sequence
from http import HTTPStatus
from importlib import resources
from typing import Any, NamedTuple

from websockets.asyncio.server import Server, ServerConnection, serve
from websockets.datastructures import Headers
from websockets.exceptions import ConnectionClosed
from websockets.http11 import Request, Response

from kartrl.errors import UserError
from kartrl.web.guard import HEADERS, Guard, is_loopback

FILES = {
    "/": ("index.html", "text/html; charset=utf-8"),
    "/page.css": ("page.css", "text/css; charset=utf-8"),
    "/page.js": ("page.js", "text/javascript; charset=utf-8"),
    "/icon.svg": ("icon.svg", "image/svg+xml"),
    "/draw.js": ("draw.js", "text/javascript; charset=utf-8"),
    "/wheel.js": ("wheel.js", "text/javascript; charset=utf-8"),
}
LIVE = "/live"  # where pictures come from
MOST_VIEWERS = 16
LARGEST = 4096  # bytes of a viewer's message
LOGGER = logging.Logger("page", logging.CRITICAL + 1)  # a stranger's malformed request is no news
AHEAD = 2  # frames on their way to a viewer; what it has not drawn then is left out
MOST_WAITING = 1000  # messages of viewers that nobody has read yet; later ones are dropped


class Frame(NamedTuple):
    """What all viewers see at a time."""

    about: str  # JSON that changes rarely; each viewer gets it once
    episode: int
    rows: list[str]  # JSON of each agent step so far, which only grows during an episode; each viewer gets it once
    number: int  # of rows of this frame
    state: dict[str, Any]  # of this frame
    pictures: Sequence[tuple[str, bytes]]  # names and files
    once: Sequence[tuple[str, bytes]]  # likewise, once an episode


class Message(NamedTuple):
    """What a viewer has sent."""

    viewer: int
    content: dict[str, Any]  # {} if it has gone


class PageServer:
    """A server that runs until `close`.

    Args:
        host: the interface to listen on: loopback, or any, with a token.
        port: 0: any that is free.

    Raises:
        UserError: it cannot listen there.
    """

    def __init__(self, host: str, port: int) -> None:
        self._guard = Guard(host)
        self.messages: queue.Queue[Message] = queue.Queue(MOST_WAITING)
        """What viewers have sent."""
        self._viewers: dict[int, _Viewer] = {}
        self._made = 0
        self._frame: Frame | None = None
        self._files = {path: (_read(name), kind) for path, (name, kind) in FILES.items()}
        self._loop = asyncio.new_event_loop()
        try:
            self._server = self._loop.run_until_complete(self._listen(host, port))
        except (OSError, OverflowError) as error:
            self._loop.close()
            reason = getattr(error, "strerror", None) or error
            raise UserError(f"--host {host} --port {port}: cannot listen there ({reason}); try another port") from error
        bound = self._server.sockets[0].getsockname()[1]
        shown = host if is_loopback(host) else "localhost"
        query = f"?token={self._guard.token}" if self._guard.token else ""
        self.address = f"http://{f'[{shown}]' if ':' in shown else shown}:{bound}/{query}"
        """The page's, for a browser on this machine."""
        self._thread = threading.Thread(target=self._loop.run_forever, name="page", daemon=True)
        self._thread.start()

    @property
    def viewers(self) -> int:
        """Number of pages that are open."""
        return len(self._viewers)

    def publish(self, frame: Frame) -> None:
        """Show a frame to all viewers, as soon as each of them has drawn an earlier one."""
        self._loop.call_soon_threadsafe(self._spread, frame)

    def tell(self, text: str) -> None:
        """Show only a line of text, during a long operation."""
        self.publish(Frame("{}", -1, [], 0, {"wait": text}, [], []))

    def close(self) -> None:
        """End all connections, and the server."""
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _listen(self, host: str, port: int) -> Server:
        return await serve(
            self._talk,
            host,
            port,
            process_request=self._answer,
            server_header=None,
            logger=LOGGER,
            max_size=LARGEST,
            compression=None,  # pictures have one of their own
        )

    async def _end(self) -> None:
        self._server.close()
        await self._server.wait_closed()

    def _spread(self, frame: Frame) -> None:
        self._frame = frame
        for viewer in self._viewers.values():
            viewer.news.set()

    def _answer(self, _: ServerConnection, request: Request) -> Response | None:
        """The answer to a request for a file, or a refusal; None: a connection for pictures is opened."""
        path = request.path.partition("?")[0]
        # several Host or Origin headers, which raise a LookupError, are of no browser
        host, origin = (", ".join(request.headers.get_all(name)) for name in ("Host", "Origin"))
        if not self._guard.knows_host(host):
            return _response(HTTPStatus.FORBIDDEN, b"Unknown host: open the address that kartrl has printed.\n")
        if path == LIVE:
            if not self._guard.admits(host, origin, request.path):
                return _response(HTTPStatus.FORBIDDEN, b"Open the address that kartrl has printed.\n")
            if len(self._viewers) >= MOST_VIEWERS:
                return _response(HTTPStatus.SERVICE_UNAVAILABLE, b"Too many viewers.\n")
            return None
        if path not in self._files:
            return _response(HTTPStatus.NOT_FOUND, b"There is no such file.\n")
        content, kind = self._files[path]
        return _response(HTTPStatus.OK, content, kind)

    async def _talk(self, connection: ServerConnection) -> None:
        self._made += 1
        number = self._made
        viewer = _Viewer(number, connection)
        self._viewers[number] = viewer
        self._put(Message(number, {"do": "look"}))
        sending = asyncio.create_task(self._send(viewer))
        try:
            async for text in connection:
                content = _parse(text)
                if content is None:
                    await connection.close(1008, "no such message")
                elif content == {"do": "seen"}:
                    viewer.ahead = max(0, viewer.ahead - 1)
                    viewer.news.set()
                else:
                    self._put(Message(number, content))
        except ConnectionClosed:
            pass
        finally:
            sending.cancel()
            del self._viewers[number]
            self._put(Message(number, {}))

    def _put(self, message: Message) -> None:
        with contextlib.suppress(queue.Full):
            self.messages.put_nowait(message)

    async def _send(self, viewer: "_Viewer") -> None:
        try:
            while True:
                await viewer.news.wait()
                viewer.news.clear()
                frame = self._frame
                if frame is None or frame is viewer.shown or viewer.ahead >= AHEAD:
                    continue
                if frame.about is not viewer.about:
                    await viewer.connection.send(frame.about)
                viewer.ahead += 1
                await viewer.connection.send(viewer.message(frame))
                if self._frame is not frame:  # since
                    viewer.news.set()
        except ConnectionClosed:
            pass


class _Viewer:
    """A page that is open, and what it has been sent."""

    def __init__(self, number: int, connection: ServerConnection) -> None:
        self._number = number
        self.connection, self.news = connection, asyncio.Event()
        self.news.set()
        self.ahead = 0
        self.shown: Frame | None = None
        self.about = ""
        self._episode, self._rows = -1, 0

    def message(self, frame: Frame) -> bytes:
        """A frame's message: the length of its head in four bytes, the head as JSON, its pictures."""
        new = frame.episode != self._episode
        begin = 0 if new else self._rows
        pictures = [*frame.once, *frame.pictures] if new else [*frame.pictures]
        sizes = json.dumps([[name, len(file)] for name, file in pictures])
        rows = ",".join(frame.rows[begin : frame.number])
        about = f'{{"you":{self._number},"from":{begin},"rows":[{rows}],"pictures":{sizes},"state":'
        head = f"{about}{json.dumps(frame.state)}}}".encode()
        self.shown, self.about = frame, frame.about
        self._episode, self._rows = frame.episode, frame.number
        return b"".join([len(head).to_bytes(4, "big"), head, *(file for _, file in pictures)])


def _parse(text: str | bytes) -> dict[str, Any] | None:
    """A viewer's message; None if it is none."""
    try:
        content = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return content if isinstance(content, dict) and isinstance(content.get("do"), str) else None


def _read(name: str) -> bytes:
    return (resources.files("kartrl.web") / "static" / name).read_bytes()


def _response(status: HTTPStatus, content: bytes, kind: str = "text/plain; charset=utf-8") -> Response:
    headers = {**HEADERS, "Content-Type": kind, "Content-Length": str(len(content)), "Connection": "close"}
    return Response(status.value, status.phrase, Headers(headers), content)
