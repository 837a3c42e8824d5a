"""Who may watch: the page's own script in the browser of this machine's user, and no page of anybody else's."""

import hmac
import ipaddress
import secrets
from urllib.parse import parse_qs, urlsplit

HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self' blob:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), microphone=(), geolocation=()",
    "Referrer-Policy": "no-referrer",  # or a link would tell the token
    "X-Content-Type-Options": "nosniff",
}
"""Of every answer: only the page's own files are loaded, and no other page may show it or read it."""


def is_loopback(host: str) -> bool:
    """Whether a host, as in `localhost` or `127.0.0.1`, is this machine and cannot be reached from elsewhere."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class Guard:
    """Checks requests.

    A page of a stranger in the same browser can send requests here, but the browser tells where they come from
    (Origin), and by which name they have found this machine (Host), which would be the stranger's own if he has it
    point here (DNS rebinding). On other interfaces than loopback, where names are not known, a secret token is needed.

    Args:
        host: the interface that the server is bound to.
    """

    def __init__(self, host: str) -> None:
        self.token = "" if is_loopback(host) else secrets.token_urlsafe(18)
        """Needed in the page's address; "" if it is not."""

    def knows_host(self, host: str) -> bool:
        """Whether a request's Host may be asked for."""
        return bool(self.token) or is_loopback(_name(host))

    def admits(self, host: str, origin: str, path: str) -> bool:
        """Whether a request for a connection is one of the page itself.

        Args:
            host, origin: the headers of these names; "" if they are missing.
            path: with its query.
        """
        given = parse_qs(path.partition("?")[2]).get("token", [""])[0]
        own = origin.partition("://")[2] == host != ""
        return self.knows_host(host) and own and hmac.compare_digest(given.encode(), self.token.encode())


def _name(host: str) -> str:
    """The name in a Host header, without port and brackets; "" if it has none."""
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""
