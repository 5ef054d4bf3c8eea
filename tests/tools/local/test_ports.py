"""Ports are free, different, and on loopback."""

import dataclasses
import socket

from tools.local import ports


def test_ports_are_free_distinct_and_not_lent_to_outgoing_connections() -> None:
    chosen = dataclasses.astuple(ports.choose())
    assert len(set(chosen)) == len(chosen)
    assert all(ports.LOWEST <= port <= ports.HIGHEST < 32_768 for port in chosen)


def test_a_port_in_use_is_not_free() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert not ports._is_free(port)
    assert ports._is_free(port)
