"""The live-call guard and the network: real attempts to connect, to look up, to send and to listen."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import os
import re
import socket
import ssl
import tempfile
import threading
import urllib.request
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from pytest_loom.errors import LiveCallError, LoomError
from pytest_loom.flow.guard import active, closed

posix = pytest.mark.skipif(os.name != "posix", reason="only POSIX systems have this")


class Server:
    """An HTTP server on loopback that counts connections and requests."""

    def __init__(self) -> None:
        self.connections = self.requests = 0
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def setup(self) -> None:
                outer.connections += 1
                super().setup()

            def do_GET(self) -> None:
                outer.requests += 1
                self.send_response(200)
                self.send_header("Content-Length", "2")
                self.end_headers()
                self.wfile.write(b"ok")

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.http.daemon_threads = True
        self.port: int = self.http.server_address[1]
        self.url = f"http://127.0.0.1:{self.port}/"
        self.place = f"127.0.0.1:{self.port}"


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    """A server of the test's own, so that no late connection of another test counts, and no proxy before it."""
    monkeypatch.setenv("no_proxy", "*")
    server = Server()
    thread = threading.Thread(target=server.http.serve_forever, args=(0.01,))
    thread.start()
    yield server
    server.http.shutdown()
    thread.join()
    server.http.server_close()


def connect(place: tuple[str, int]) -> None:
    """Connect a TCP socket without looking anything up."""
    with socket.socket() as sock:
        sock.settimeout(5)
        sock.connect(place)


def get(url: str) -> bytes:
    """What urllib gets."""
    with urllib.request.urlopen(url, timeout=5) as answer:
        return bytes(answer.read())


async def stream(place: tuple[str, int]) -> None:
    """Open and close an asyncio stream."""
    _, writer = await asyncio.open_connection(*place)
    writer.close()
    await writer.wait_closed()


def use_http_client(place: tuple[str, int]) -> None:
    """GET with http.client."""
    with contextlib.closing(http.client.HTTPConnection(*place, timeout=5)) as connection:
        connection.request("GET", "/")
        assert connection.getresponse().read() == b"ok"


def use_httpx(place: tuple[str, int]) -> None:
    """GET with httpx."""
    httpx = pytest.importorskip("httpx", reason="httpx is not installed")
    assert httpx.get("http://{}:{}/".format(*place)).text == "ok"


async def use_httpx_async(place: tuple[str, int]) -> None:
    """GET with httpx's async client."""
    httpx = pytest.importorskip("httpx", reason="httpx is not installed")
    async with httpx.AsyncClient() as client:
        assert (await client.get("http://{}:{}/".format(*place))).text == "ok"


CONNECTING: dict[str, Callable[[tuple[str, int]], Any]] = {
    "socket": connect,
    "create_connection": lambda place: socket.create_connection(place, 5).close(),
    "asyncio": lambda place: asyncio.run(stream(place)),
    "urllib": lambda place: get("http://{}:{}/".format(*place)),
    "http.client": use_http_client,
    "httpx": use_httpx,
    "httpx-async": lambda place: asyncio.run(use_httpx_async(place)),
}

LOOK_UPS: dict[str, Callable[[], Any]] = {
    "getaddrinfo": lambda: socket.getaddrinfo("api.invalid", 443),
    "gethostbyname": lambda: socket.gethostbyname("api.invalid"),
    "gethostbyname_ex": lambda: socket.gethostbyname_ex("api.invalid"),
    "create_connection": lambda: socket.create_connection(("api.invalid", 443)),
    "urllib": lambda: get("https://api.invalid/"),
    "asyncio": lambda: asyncio.run(stream(("api.invalid", 443))),
    "gethostbyaddr": lambda: socket.gethostbyaddr("192.0.2.1"),
    "getnameinfo": lambda: socket.getnameinfo(("192.0.2.1", 443), 0),
}


class TestNetwork:
    @pytest.mark.parametrize("way", CONNECTING)
    def test_connections_are_refused(self, server: Server, way: str) -> None:
        """Whatever a client is made of, loopback included, it does not get through, and the error says where to."""
        with closed() as guard, pytest.raises((LiveCallError, ExceptionGroup)):  # anyio puts it into a group
            CONNECTING[way](("127.0.0.1", server.port))
        assert len(guard.calls) == 1
        assert f"tried to connect to {server.place}" in guard.calls[0].what
        assert (server.connections, server.requests) == (0, 0)

    @pytest.mark.parametrize("way", CONNECTING)
    @pytest.mark.parametrize("allow", ["loopback", "127.0.0.1", "127.0.0.1:{}", "localhost:{}"])
    def test_allowed_connections_pass(self, server: Server, way: str, allow: str) -> None:
        """An allowed address is reached as ever."""
        with closed(allow=[allow.format(server.port)]) as guard:
            CONNECTING[way](("127.0.0.1", server.port))
        assert guard.calls == []

    def test_another_port_is_not_allowed(self, server: Server) -> None:
        """An entry with a port allows that port only."""
        with closed(allow=["127.0.0.1:1", "localhost:1"]), pytest.raises(LiveCallError):
            connect(("127.0.0.1", server.port))

    def test_connect_ex_is_refused(self, server: Server) -> None:
        """The form that returns an error number raises too."""
        with closed(), socket.socket() as sock, pytest.raises(LiveCallError):
            sock.connect_ex(("127.0.0.1", server.port))

    @pytest.mark.parametrize("way", LOOK_UPS)
    def test_names_are_not_looked_up(self, way: str) -> None:
        """A question to a name server is a live call, and its error names the caller and the host."""
        with closed() as guard, pytest.raises(LiveCallError, match=r"api\.invalid|192\.0\.2\.1") as caught:
            LOOK_UPS[way]()
        assert guard.calls == [caught.value]
        assert caught.value.path == __file__

    def test_an_address_is_no_question(self) -> None:
        """Turning an address into an address asks nobody, so it is allowed."""
        with closed() as guard:
            assert socket.getaddrinfo("192.0.2.1", 443)
            assert socket.getaddrinfo("::1", 443)
            assert socket.getaddrinfo(None, 443)
        assert guard.calls == []

    @pytest.mark.parametrize("way", ["create_connection", "asyncio"])
    def test_an_allowed_name_allows_its_addresses(
        self, server: Server, monkeypatch: pytest.MonkeyPatch, way: str
    ) -> None:
        """What an allowed name was looked up to be may be connected to, at the port that is allowed."""
        real = socket.getaddrinfo
        monkeypatch.setattr(socket, "getaddrinfo", lambda host, *args, **kw: real("127.0.0.1", *args, **kw))
        with closed(allow=[f"db.test:{server.port}"]) as guard:
            with pytest.raises(LiveCallError):
                connect(("127.0.0.1", server.port))
            CONNECTING[way](("DB.test", server.port))
            with pytest.raises(LiveCallError):
                connect(("127.0.0.1", 1))
        assert len(guard.calls) == 2

    @posix
    def test_unix_sockets(self) -> None:
        """AF_UNIX is closed as well, and opened by "unix:" with the socket or its folder."""
        with tempfile.TemporaryDirectory() as folder, socket.socket(socket.AF_UNIX) as listener:
            path = f"{folder}/s"
            listener.bind(path)
            listener.listen()
            with closed() as guard, socket.socket(socket.AF_UNIX) as sock:
                with pytest.raises(LiveCallError, match=f"the socket {path}"):
                    sock.connect(path)
                with pytest.raises(LiveCallError, match="listen on the socket"):
                    sock.bind(f"{folder}/other")
            assert len(guard.calls) == 2
            for allow in (f"unix:{path}", f"unix:{folder}"):
                with closed(allow=[allow]), socket.socket(socket.AF_UNIX) as sock:
                    sock.connect(path)
            with closed(allow=[f"unix:{path[:-1]}x"]), socket.socket(socket.AF_UNIX) as sock:
                with pytest.raises(LiveCallError):
                    sock.connect(path)
                with pytest.raises(LiveCallError):
                    sock.connect(f"{path[:-1]}x/../s")

    def test_datagrams(self) -> None:
        """UDP needs no connection, and is refused at the address it names."""
        with socket.socket(type=socket.SOCK_DGRAM) as receiver, socket.socket(type=socket.SOCK_DGRAM) as sender:
            receiver.bind(("127.0.0.1", 0))
            receiver.setblocking(False)
            place = receiver.getsockname()
            with closed() as guard:
                with pytest.raises(LiveCallError, match="send to 127"):
                    sender.sendto(b"x", place)
                if hasattr(sender, "sendmsg"):
                    with pytest.raises(LiveCallError, match="send to 127"):
                        sender.sendmsg([b"x"], [], 0, place)
            with pytest.raises(BlockingIOError):
                receiver.recv(1)
            assert guard.calls
            with closed(allow=["loopback"]):
                sender.sendto(b"x", place)

    def test_listening(self) -> None:
        """A port is not opened to the world unless it is allowed."""
        with socket.socket() as sock:
            with closed(), pytest.raises(LiveCallError, match=r"listen on \*:0|listen on \*"):
                sock.bind(("", 0))
            with closed(allow=["loopback"]):
                sock.bind(("127.0.0.1", 0))

    def test_a_connection_from_before_the_block(self, server: Server) -> None:
        """What goes out over a pool's open connection is refused, and allowed where its peer is."""
        with contextlib.closing(http.client.HTTPConnection("127.0.0.1", server.port, timeout=5)) as connection:

            def ask() -> None:
                connection.request("GET", "/")
                connection.getresponse().read()

            ask()
            with closed(), pytest.raises(LiveCallError, match="send to 127"):
                ask()
            connection.close()
            ask()
            with closed(allow=[server.place]):
                ask()
        assert server.requests == 3

    def test_an_encrypted_connection_from_before_the_block(self) -> None:
        """The same goes for TLS, which writes past the socket's own methods."""
        sides = [ssl.SSLContext(kind) for kind in (ssl.PROTOCOL_TLS_CLIENT, ssl.PROTOCOL_TLS_SERVER)]
        for side in sides:
            side.check_hostname = False
            side.verify_mode = ssl.CERT_NONE
            side.maximum_version = ssl.TLSVersion.TLSv1_2
            try:
                side.set_ciphers("aNULL:@SECLEVEL=0")  # needs no certificate
            except ssl.SSLError:
                pytest.skip("this OpenSSL has no anonymous ciphers")
        with socket.create_server(("127.0.0.1", 0)) as listener:
            client = socket.create_connection(listener.getsockname(), 5)
            peer, _ = listener.accept()
        received: list[bytes] = []

        def serve() -> None:
            with sides[1].wrap_socket(peer, server_side=True) as secure:
                received.append(secure.recv(9))
                received.append(secure.recv(9))

        thread = threading.Thread(target=serve)
        thread.start()
        with sides[0].wrap_socket(client) as secure:
            secure.sendall(b"before")
            with closed() as guard:
                for send in (secure.sendall, secure.send, secure.write):
                    with pytest.raises(LiveCallError, match="send to 127"):
                        send(b"in it")
            secure.sendall(b"after")
            thread.join(5)
        assert received == [b"before", b"after"]
        assert len(guard.calls) == 3

    def test_an_event_loop_and_socketpair_stay_usable(self) -> None:
        """A loop wakes itself over a pair of sockets, and threads come back to it: none of this leaves."""

        async def work() -> int:
            return await asyncio.to_thread(lambda: 7)

        with closed() as guard:
            assert asyncio.run(work()) == 7
            one, other = socket.socketpair()
            with one, other:
                one.sendall(b"x")
                assert other.recv(1) == b"x"
        assert guard.calls == []

    @pytest.mark.parametrize("entry", ["http://x/", "a b", "user:secret@host", "host:port", ""])
    def test_nonsense_in_allow(self, entry: str) -> None:
        """An entry that would allow nothing is an error at once, which shows no password."""
        with pytest.raises(LoomError, match="no address") as caught, closed(allow=[entry]):
            pass
        assert "secret" not in str(caught.value)
        assert active() is None

    @pytest.mark.parametrize("entry", ["[::1]:{}", "::1", "LOCALHOST", "loopback"])
    def test_spellings_of_an_ipv6_address(self, entry: str) -> None:
        """IPv6 entries are understood with and without a port."""
        try:
            listener = socket.create_server(("::1", 0), family=socket.AF_INET6)
        except OSError:
            pytest.skip("this machine has no IPv6")
        with listener:
            port = listener.getsockname()[1]
            with closed(), pytest.raises(LiveCallError, match=re.escape(f"[::1]:{port}")):
                socket.create_connection(("::1", port))
            with closed(allow=[entry.format(port)]):
                socket.create_connection(("::1", port)).close()
