"""Choose free loopback ports, below the range the kernel lends to outgoing connections.

A port outside that range stays ours while its server is restarted: nobody gets it by chance.
"""

import dataclasses
import random
import socket

from tools.local import components

LOWEST, HIGHEST = 20_000, 31_999
_random = random.SystemRandom()  # two planes started from one seed (pytest-randomly) must not choose alike


def choose() -> components.Ports:
    names = [field.name for field in dataclasses.fields(components.Ports)]
    return components.Ports(**dict(zip(names, free(len(names)), strict=True)))


def free(count: int) -> list[int]:
    """Return so many ports that nobody listens on."""
    chosen: list[int] = []
    for port in _random.sample(range(LOWEST, HIGHEST + 1), k=HIGHEST + 1 - LOWEST):
        if _is_free(port):
            chosen.append(port)
        if len(chosen) == count:
            return chosen
    raise OSError(f"fewer than {count} free loopback ports between {LOWEST} and {HIGHEST}; stop other servers")


def _is_free(port: int) -> bool:
    with socket.socket() as candidate:
        try:
            candidate.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
