"""Frames come out the same however the bytes arrive."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from goqueue.wire.errors import WireError
from goqueue.wire.framer import Framer

FRAMES = st.lists(st.binary(max_size=40), max_size=6)


def stream(frames: list[bytes]) -> bytes:
    return b"".join(len(frame).to_bytes(4, "big") + frame for frame in frames)


@given(FRAMES, st.data())
@settings(max_examples=200, deadline=None)
def test_any_cutting_of_the_stream_gives_the_same_frames(frames: list[bytes], data: st.DataObject) -> None:
    whole = stream(frames)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=8)))
    framer = Framer(40)
    found: list[memoryview] = []
    for start, stop in zip([0, *cuts], [*cuts, len(whole)], strict=True):
        found += framer.feed(whole[start:stop])
    assert found == frames
    assert framer.buffered == 0


@given(FRAMES)
@settings(max_examples=50, deadline=None)
def test_byte_by_byte(frames: list[bytes]) -> None:
    framer = Framer(40)
    found: list[memoryview] = []
    for byte in stream(frames):
        found += framer.feed(bytes((byte,)))
    assert found == frames


def test_a_frame_inside_one_chunk_is_a_view_of_it() -> None:
    chunk = stream([b"one", b"two"])
    assert [frame.obj for frame in Framer(10).feed(chunk)] == [chunk, chunk]


def test_what_is_held_is_counted() -> None:
    framer = Framer(100)
    assert framer.feed(b"\0\0") == []
    assert framer.buffered == 2
    assert framer.feed(b"\0\x05ab") == []
    assert framer.buffered == 2
    (frame,) = framer.feed(b"cde\0")
    assert bytes(frame) == b"abcde"
    assert frame.readonly
    assert framer.buffered == 1


@pytest.mark.parametrize("size", [-1, -(2**31), 101, 2**31 - 1])
@pytest.mark.parametrize("split", [0, 2, 4])
def test_a_size_that_is_not_allowed_is_refused_before_its_bytes_come(size: int, split: int) -> None:
    prefix = size.to_bytes(4, "big", signed=True)
    framer = Framer(100)
    framer.feed(stream([b"fine"]) + prefix[: split if split < 4 else 0])
    with pytest.raises(WireError, match=str(size)):
        framer.feed(prefix[split if split < 4 else 0 :] + b"junk")
    assert framer.buffered <= 4
    with pytest.raises(WireError):
        framer.feed(stream([b"never"]))


def test_a_large_frame_in_many_chunks_is_collected_once() -> None:
    frame = bytes(range(256)) * 4096 * 4
    whole = stream([frame, b"next"])
    framer = Framer(len(frame))
    found: list[memoryview] = []
    for at in range(0, len(whole), 1000):
        found += framer.feed(whole[at : at + 1000])
    assert found == [frame, b"next"]


def test_empty_frames_and_empty_chunks() -> None:
    framer = Framer(4)
    assert framer.feed(b"") == []
    assert framer.feed(bytes(8)) == [b"", b""]
    assert framer.feed(bytes(3)) == []
    assert framer.feed(bytes(1)) == [b""]
