"""Who may open the page, and what from."""

import contextlib
import http.client
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from kartrl.errors import UserError
from kartrl.web.guard import Guard, is_loopback
from kartrl.web.server import MOST_VIEWERS, PageServer


@pytest.fixture(scope="module")
def server() -> Iterator[PageServer]:
    with contextlib.closing(PageServer("127.0.0.1", 0)) as server:
        yield server


def get(server: PageServer, path: str, host: str) -> http.client.HTTPResponse:
    place = urlsplit(server.address)
    connection = http.client.HTTPConnection(place.hostname, place.port, timeout=60)
    connection.request("GET", path, headers={"Host": host})
    return connection.getresponse()


@pytest.mark.parametrize("path", ["/", "/page.js", "/page.css", "/draw.js", "/wheel.js", "/icon.svg"])
def test_files_allow_nothing_from_elsewhere(server: PageServer, path: str) -> None:
    answer = get(server, path, "localhost:1234")
    policy = answer.headers["Content-Security-Policy"]
    assert answer.status == 200
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert answer.headers["Access-Control-Allow-Origin"] is None
    content = answer.read()
    assert content
    assert b"://" not in content.replace(b"http://www.w3.org/2000/svg", b"").replace(b"${scheme}://", b"")


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "localhost.evil.example", "", "[::1", "@"])
def test_another_name_of_this_machine_is_refused(server: PageServer, host: str) -> None:
    assert get(server, "/", host).status == 403


def test_there_are_no_other_files(server: PageServer) -> None:
    for path in ("/../server.py", "/static/page.js", "//", "/index.html", "/%2e%2e/guard.py"):
        assert get(server, path, "localhost").status == 404


@pytest.mark.parametrize("origin", [None, "null", "http://evil.example", "http://127.0.0.1", "http://[", "file://"])
def test_pictures_are_for_the_page_alone(server: PageServer, origin: str | None) -> None:
    address = server.address.replace("http", "ws") + "live"
    with pytest.raises(InvalidStatus, match="403"):
        connect(address, origin=origin)
    with connect(address, origin=server.address.rstrip("/")):
        pass


def test_viewers_are_limited(server: PageServer) -> None:
    address, origin = server.address.replace("http", "ws") + "live", server.address.rstrip("/")
    with contextlib.ExitStack() as stack:
        for _ in range(MOST_VIEWERS):
            stack.enter_context(connect(address, origin=origin))
        with pytest.raises(InvalidStatus, match="503"):
            connect(address, origin=origin)


def test_beyond_loopback_a_token_is_needed() -> None:
    guard, other = Guard("0.0.0.0"), Guard("0.0.0.0")
    assert guard.token != other.token
    assert len(guard.token) > 20
    assert guard.knows_host("machine.example")
    admits = [guard.admits("machine:1", "http://machine:1", f"/live{query}") for query in queries(guard, other)]
    assert admits == [True, False, False, False]
    assert not guard.admits("machine:1", "http://evil.example", f"/live?token={guard.token}")


def queries(guard: Guard, other: Guard) -> list[str]:
    return [f"?token={guard.token}", f"?token={other.token}", "", "?token="]


def test_only_loopback_needs_no_token() -> None:
    for host in ("127.0.0.1", "localhost", "::1", "127.5.5.5"):
        assert is_loopback(host)
        assert Guard(host).token == ""
    for host in ("0.0.0.0", "::", "192.168.1.2", "", "localhost.example"):
        assert not is_loopback(host)
        assert Guard(host).token


def test_a_taken_port_is_named(server: PageServer) -> None:
    with pytest.raises(UserError, match="cannot listen there"):
        PageServer("127.0.0.1", urlsplit(server.address).port)
