"""Delay and loss where the kernel has no netem: a program beside the switch that holds packets back.

Only what is sent to its link address comes by; it goes on to whom the packet's IPv4 address names.
"""

from __future__ import annotations

import ctypes
import fcntl
import heapq
import os
import random
import select
import struct
import subprocess
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Final, NamedTuple

SLOW_ADDRESS: Final = "02:00:00:00:00:fd"
_DEVICE: Final = "gqslow"
_SET_INTERFACE: Final = 0x400454CA  # TUNSETIFF
_TAP_WITHOUT_HEADER: Final = 0x1002
_NEW_NET: Final = 0x40000000
_ETHERNET_BYTES: Final = 14
_TARGET: Final = slice(30, 34)  # the IPv4 address that a packet goes to, in its frame
_HELD_MAX: Final = 50_000
_FRAMES_A_TURN: Final = 64


class LinkQuality(NamedTuple):
    """Each packet is late by `delay_s`, give or take `jitter_s`, and lost with a chance of `loss`."""

    delay_s: float
    jitter_s: float = 0.0
    loss: float = 0.0


class SlowLink:
    """Runs in a thread of its own until it is closed."""

    def __init__(self, switch: str, link_addresses: Mapping[str, str], seed: int = 1) -> None:
        """`switch` is the namespace of a bridge `gqbr`; `link_addresses` are those of its hosts."""
        self._ways = {_ipv4(address): _bytes_of(link) for address, link in link_addresses.items()}
        self._qualities: dict[bytes, LinkQuality] = {}
        self._chance = random.Random(seed)
        self._held: list[tuple[float, int, bytes]] = []
        self._count = 0
        self._stopping = threading.Event()
        self._failure: OSError | None = None
        opened = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(switch, opened), daemon=True)
        self._thread.start()
        opened.wait(30)
        if self._failure is not None:
            raise RuntimeError(f"no TAP device: {self._failure}")

    def set(self, target: str, quality: LinkQuality) -> None:
        """Of everything that goes to an address by way of this link."""
        self._qualities[_ipv4(target)] = quality

    def close(self) -> None:
        self._stopping.set()
        self._thread.join(10)

    def _run(self, switch: str, opened: threading.Event) -> None:
        try:
            device = _tap_in(switch)
        except OSError as error:
            self._failure = error
            return
        finally:
            opened.set()
        try:
            while not self._stopping.is_set():
                self._turn(device)
        finally:
            os.close(device)

    def _turn(self, device: int) -> None:
        wait_s = min(0.2, max(0.0, self._held[0][0] - time.monotonic())) if self._held else 0.2
        if select.select([device], [], [], wait_s)[0]:
            self._take(device)
        while self._held and self._held[0][0] <= time.monotonic():
            _send(device, heapq.heappop(self._held)[2])

    def _take(self, device: int) -> None:
        for _ in range(_FRAMES_A_TURN):
            try:
                frame = os.read(device, 65_536)
            except BlockingIOError:
                return
            self._hold(frame)

    def _hold(self, frame: bytes) -> None:
        target = frame[_TARGET]
        way, quality = self._ways.get(target), self._qualities.get(target)
        if way is None or quality is None or frame[:6] != _bytes_of(SLOW_ADDRESS) or len(self._held) >= _HELD_MAX:
            return
        if self._chance.random() < quality.loss:
            return
        self._count += 1
        late = max(0.0, quality.delay_s + self._chance.uniform(-quality.jitter_s, quality.jitter_s))
        # The switch must not learn that the sender is here: the frame goes on as ours.
        readdressed = way + frame[:6] + frame[12:]
        heapq.heappush(self._held, (time.monotonic() + late, self._count, readdressed))


def _send(device: int, frame: bytes) -> None:
    with suppress(OSError):  # a full queue loses packets, as networks do
        os.write(device, frame)


def _tap_in(switch: str) -> int:
    """A TAP device on the switch. Changes the namespace of the calling thread, which is this one's for good."""
    namespace = os.open(f"/var/run/netns/{switch}", os.O_RDONLY)
    try:
        if ctypes.CDLL(None, use_errno=True).setns(namespace, _NEW_NET):
            raise OSError(ctypes.get_errno(), "setns")
    finally:
        os.close(namespace)
    device = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(device, _SET_INTERFACE, struct.pack("16sH", _DEVICE.encode(), _TAP_WITHOUT_HEADER))
    # The device has another address than the one that frames are sent to: the switch would keep what is for its own.
    for words in (("master", "gqbr"), ("up",)):
        subprocess.run(["ip", "link", "set", _DEVICE, *words], check=True, timeout=30)
    return device


def _ipv4(address: str) -> bytes:
    return bytes(map(int, address.split(".")))


def _bytes_of(link_address: str) -> bytes:
    return bytes.fromhex(link_address.replace(":", ""))
