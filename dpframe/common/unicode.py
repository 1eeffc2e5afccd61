"""Text of Arrow arrays that is no UTF-8, repaired value by value.

Arrow does not look at text that it is given; DuckDB fails at it or misreads it, and Python's own
words about it quote it. One such record must not decide what happens to the others.
"""

from __future__ import annotations

import codecs
import re

import pyarrow as pa

ARROW_TEXTS = (pa.string(), pa.large_string(), pa.string_view())
"""Arrow's three layouts of texts."""


def unicode(array: pa.Array) -> pa.Array:
    """Texts as UTF-8; the same array if it was UTF-8 already, or holds no texts."""
    if array.type not in ARROW_TEXTS:
        return array
    try:
        array.validate(full=True)
        return array
    except pa.ArrowInvalid:
        pass
    texts = array.cast(pa.large_binary()).to_pylist()
    return pa.array([t if t is None else decode_bytes(t) for t in texts], type=array.type)


def is_unicode(text: str) -> bool:
    """Whether a text of Python can be written as UTF-8, which lone surrogates cannot."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


ESCAPES = "dpframe.escapes"
"""The name under which codecs find how to write bytes that are no text of an encoding."""


def _escapes(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeDecodeError):
        raise error
    wrong = error.object[error.start : error.end]
    return "".join(f"\\x{byte:02X}" for byte in wrong), error.end


codecs.register_error(ESCAPES, _escapes)


def decode_bytes(raw: bytes) -> str:
    r"""Bytes as text; a byte that is no UTF-8 is written as DuckDB writes it, such as ``\x80``, so
    that different bytes stay different."""
    return raw.decode("utf-8", ESCAPES)


def escape_bytes(raw: bytes) -> str:
    """Bytes as DuckDB writes a BLOB: printable ASCII as it is, other bytes in hexadecimal."""
    return re.sub(rb"[^ -~]|[\\'\"]", lambda m: b"\\x%02X" % ord(m[0]), raw).decode()
