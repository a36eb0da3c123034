"""A real server for each test session: TREELINE_SERVER_BIN, with its private PostgreSQL or an empty DATABASE_URL."""

from __future__ import annotations

import os
import secrets
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from treeline import ApiError, Client, ConnectionFailed


class Server:
    """A running server, its address, and a token that may do everything."""

    def __init__(self, binary: str, folder: Path) -> None:
        self.token = secrets.token_hex(32)
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self.folder = folder
        self.binary = binary
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        environment = os.environ | {
            "TREELINE_LISTEN": f"127.0.0.1:{self.port}",
            "TREELINE_DATA_DIR": str(self.folder),
            "TREELINE_BOOTSTRAP_TOKEN": self.token,
            "TREELINE_CALLBACK_ALLOW": "127.0.0.1",
            "TREELINE_PUSH_ALLOW": "127.0.0.1",
        }
        with (self.folder / "server.log").open("ab") as log:
            self.process = subprocess.Popen([self.binary], env=environment, stdout=log, stderr=log)
        client = Client(self.url, self.token, retry_timeout=0.5)
        deadline = time.monotonic() + 60
        while True:
            try:
                client.me()
                return
            except (ConnectionFailed, ApiError):
                if time.monotonic() > deadline or self.process.poll() is not None:
                    raise RuntimeError((self.folder / "server.log").read_text()) from None

    def stop(self) -> None:
        if self.process is not None:
            self.process.terminate()
            self.process.wait(30)


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    binary = os.environ.get("TREELINE_SERVER_BIN")
    if binary is None:
        pytest.fail("TREELINE_SERVER_BIN is the path of treeline-server: see README.md")
    running = Server(binary, tmp_path_factory.mktemp("data"))
    running.start()
    yield running
    running.stop()


@pytest.fixture
def client(server: Server) -> Iterator[Client]:
    with Client(server.url, server.token) as one:
        yield one


@pytest.fixture
def job_type(client: Client) -> str:
    """A job type of its own for each test, whose retries come at once."""
    name = f"t-{secrets.token_hex(4)}"
    backoff = {"min_seconds": 0, "max_seconds": 0, "jitter": False}
    client.put_job_type(name, heartbeat_seconds=3, max_failures=2, backoff=backoff, steps=["charged"])
    return name
