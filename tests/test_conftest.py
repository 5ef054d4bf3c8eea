"""The fast tier really has no network."""

import socket

import pytest


def test_the_fast_tier_cannot_connect() -> None:
    with socket.socket() as plug, pytest.raises(RuntimeError, match="no network"):
        plug.connect(("127.0.0.1", 9))


def test_the_fast_tier_cannot_look_up_names() -> None:
    with pytest.raises(RuntimeError, match="no network"):
        socket.getaddrinfo("localhost", 80)


def test_local_sockets_still_work() -> None:
    left, right = socket.socketpair()
    with left, right:
        left.sendall(b"x")
        assert right.recv(1) == b"x"
