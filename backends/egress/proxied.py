"""Where programs of a box without a route find the proxy that leads out, as they are told by convention.

curl, git, pip, apt, Go and most libraries read these variables; Node.js does so when asked to. A program that
reads none of them reaches nothing.
"""

from __future__ import annotations

PORT = 3128
ADDRESS = "127.0.0.1"


def variables(address: str = ADDRESS, port: int = PORT) -> dict[str, str]:
    """The environment that names the proxy. Loopback stays the box's own."""
    where = f"http://{address}:{port}"
    own = "localhost,127.0.0.1,::1"
    return {
        "http_proxy": where,
        "https_proxy": where,
        "HTTPS_PROXY": where,
        "ALL_PROXY": where,
        "no_proxy": own,
        "NO_PROXY": own,
        "NODE_USE_ENV_PROXY": "1",
    }
