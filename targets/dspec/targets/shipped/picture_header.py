"""What the first bytes of an encoded picture tell, before any decoder sees them."""

from __future__ import annotations

from .errors import first_bytes

MAGIC = {"PNG": (0, b"\x89PNG\r\n\x1a\n"), "JPEG": (0, b"\xff\xd8\xff"), "WebP": (8, b"WEBP")}
_14_BITS = (1 << 14) - 1


def webp_size(data: bytes) -> tuple[int, int]:
    """(width, height) that a WebP announces, else (0, 0).

    Pillow's WebP decoder takes memory for the canvas when it opens a picture, so that its size must be known before.
    """
    if data[:4] != b"RIFF" or data[8:12] != b"WEBP":
        return 0, 0
    kind, head = data[12:16], data[20:30]
    if kind == b"VP8X":
        return 1 + int.from_bytes(head[4:7], "little"), 1 + int.from_bytes(head[7:10], "little")
    if kind == b"VP8L":
        packed = int.from_bytes(head[1:5], "little")
        return 1 + (packed & _14_BITS), 1 + (packed >> 14 & _14_BITS)
    if kind == b"VP8 ":
        return int.from_bytes(head[6:8], "little") & _14_BITS, int.from_bytes(head[8:10], "little") & _14_BITS
    return 0, 0


def words(data: bytes) -> str:
    """What bytes are that no decoder takes: what an error says was found."""
    for name, (at, magic) in MAGIC.items():
        if data[at : at + len(magic)] == magic:
            return f"a damaged {name} of {len(data)} bytes, whose header can't be read"
    return first_bytes(data)
