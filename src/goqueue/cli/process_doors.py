"""The addresses of several processes of one machine, held before any of them is started.

Each process listens for itself, with `SO_REUSEPORT`: at the same port for REST, SQS and gRPC, where the kernel deals
connections out, and at a port of its own for Kafka, whose clients are told whom to ask. What is held here is bound and
does not listen: nobody else gets the port, and a process that is gone is dealt nothing.
"""

from __future__ import annotations

import socket
from typing import Any

import msgspec

from goqueue.base.settings import Settings, parse_address
from goqueue.base.startup_errors import AddressUnusable
from goqueue.edge.doors import Address
from goqueue.edge.listening import hold, listen

_SHARED = ("rest", "sqs", "grpc")
_PORT_MAX = 65_535


class ProcessDoors:
    """`AddressUnusable` says which setting to change, and then nothing is held."""

    def __init__(self, settings: Settings, processes: int) -> None:
        """`processes` may be more than the settings ask for, if some are about to go."""
        self._settings = settings
        self._sockets: list[socket.socket] = []
        self._kafka: list[str] = []
        try:
            self._shared = {door: self._hold_shared(door) for door in _SHARED}
            self._hold_kafka(processes)
        except BaseException:
            self.close()
            raise

    def _hold_shared(self, door: str) -> str:
        address = parse_address(getattr(self._settings, door).listen)
        return "off" if address is None else self._hold(address, f"{door}.listen")

    def _hold_kafka(self, processes: int) -> None:
        address = parse_address(self._settings.kafka.listen)
        if address is None:
            self._kafka = ["off"] * processes
            return
        host, port = address
        if port and port + processes - 1 > _PORT_MAX:
            message = (
                f"{processes} processes listen at as many ports from kafka.listen on; {port} is too high for that."
            )
            raise AddressUnusable(message, field="kafka.listen")
        for number in range(processes):
            try:
                self._kafka.append(self._hold((host, port + number if port else 0), "kafka.listen"))
            except AddressUnusable as error:
                which = f"Process {number} of {processes} listens {number} ports above kafka.listen. " if number else ""
                raise AddressUnusable(which + error.message, field="kafka.listen") from error

    def _hold(self, address: Address, setting: str) -> str:
        """Free until now, and from now on for these processes alone."""
        with listen(*address, setting) as free:
            host, port = free.getsockname()[:2]
        self._sockets.append(hold(host, port, setting))
        return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"

    def settled(self, settings: Settings, number: int) -> Settings:
        """With the addresses of one process."""
        doors: dict[str, Any] = {
            door: msgspec.structs.replace(getattr(settings, door), listen=address)
            for door, address in {**self._shared, "kafka": self._kafka[number]}.items()
        }
        return msgspec.structs.replace(settings, **doors)

    def kafka_address(self, number: int) -> str:
        return self._kafka[number]

    def close(self) -> None:
        for sock in self._sockets:
            sock.close()
