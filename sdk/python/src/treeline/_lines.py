"""Lines of a stream of bytes."""

from __future__ import annotations

from collections.abc import Iterator


class Lines:
    """Splits at line feeds only. `str.splitlines`, and with it httpx, also splits at characters that JSON has in texts."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, piece: bytes) -> Iterator[str]:
        """Adds bytes. Yields the lines that they complete, without their ends."""
        *complete, self._rest = (self._rest + piece).split(b"\n")
        for line in complete:
            yield line.removesuffix(b"\r").decode(errors="replace")

    def end(self) -> str:
        """What follows the last line feed."""
        return self._rest.decode(errors="replace")
