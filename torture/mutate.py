"""Damage as it happens and as it is made on purpose, from a seed."""

import random
import re

NASTY = (
    b"[" * 3000, b"\xff\xfe", b"\x00" * 16, b'"', b"\r", b"\n", b"nan", b"1e999", b"-1",
    b"9223372036854775807", b"../../etc/passwd", b"\xf0\x9f\x92\xa9", b"{}", b"null", b"true", b",",
)  # fmt: skip
NUMBERS = (b"0", b"-1", b"1000000", b"4611686018427387904", b"1e308", b"null", b'"a"')


def mutated(content: bytes, rng: random.Random) -> bytes:
    """The content with one to three things changed."""
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        content = rng.choice(WAYS)(content, rng) if content else rng.choice(NASTY)
    return content


def _flip(content: bytes, rng: random.Random) -> bytes:
    at = rng.randrange(len(content))
    return content[:at] + bytes([content[at] ^ 1 << rng.randrange(8)]) + content[at + 1 :]


def _flip_early(content: bytes, rng: random.Random) -> bytes:
    """Headers are at the beginning."""
    head = content[: min(len(content), 600)]
    return _flip(head, rng) + content[len(head) :]


def _flip_late(content: bytes, rng: random.Random) -> bytes:
    """Tables of contents are at the end."""
    tail = content[-min(len(content), 600) :]
    return content[: len(content) - len(tail)] + _flip(tail, rng)


def _cut(content: bytes, rng: random.Random) -> bytes:
    return content[: rng.randrange(len(content))]


def _drop(content: bytes, rng: random.Random) -> bytes:
    at = rng.randrange(len(content))
    return content[:at] + content[at + rng.randrange(1, 65) :]


def _repeat(content: bytes, rng: random.Random) -> bytes:
    at = rng.randrange(len(content))
    piece = content[at : at + rng.randrange(1, 257)]
    return content[:at] + piece * rng.randrange(2, 5) + content[at:]


def _insert(content: bytes, rng: random.Random) -> bytes:
    at = rng.randrange(len(content))
    return content[:at] + rng.choice(NASTY) + content[at:]


def _overwrite(content: bytes, rng: random.Random) -> bytes:
    at = rng.randrange(len(content))
    piece = rng.choice((b"\xff", b"\x00", b"\x7f")) * rng.choice((1, 2, 4, 8))
    return content[:at] + piece + content[at + len(piece) :]


def _number(content: bytes, rng: random.Random) -> bytes:
    """Another number where text has one."""
    found = list(re.finditer(rb"\d+", content[:20_000]))
    if not found:
        return _flip(content, rng)
    match = rng.choice(found)
    return content[: match.start()] + rng.choice(NUMBERS) + content[match.end() :]


WAYS = (_flip, _flip_early, _flip_late, _cut, _drop, _repeat, _insert, _overwrite, _number)
