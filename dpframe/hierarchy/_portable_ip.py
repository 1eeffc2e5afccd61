"""IP prefixes without 128-bit integers: keys are 32 hexadecimal digits, masked digit by digit."""

from __future__ import annotations

from dpframe.dialects import SPACES, Dialect
from dpframe.hierarchy._ip import Ip
from dpframe.hierarchy.portable import OneKey, Step

OCTET = "(25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])"
DOTTED = rf"{OCTET}([.]{OCTET}){{3}}"
GROUPS = "[0-9a-f]{1,4}(:[0-9a-f]{1,4}){0,7}"
MAPPED = "0" * 20 + "ffff"
LONGEST_ADDRESS = 60
"""Most characters of a text that is parsed; every address is shorter."""


class IpKeys(OneKey):
    hierarchy: Ip

    def steps(self) -> tuple[Step, ...]:
        d = self.dialect
        short = f"CASE WHEN length(trimmed) <= {LONGEST_ADDRESS} THEN {d.lower('trimmed')} END"
        tail = d.extract("txt", "[^.]*:([^:]*)$")
        colon, mapped = "':'", f"'{MAPPED}'"
        zeros = "repeat('0', 32 - length(f) - length(b))"
        is_four = d.matches("txt", DOTTED)
        head = f"left(txt, length(txt) - length({tail}))"
        valid_tail = d.matches(f"nullif({tail}, '')", DOTTED)
        return (
            {"trimmed": d.trim("c0", SPACES)},
            {"txt": short},
            {
                "four": f"CASE WHEN {is_four} THEN txt END",
                "tail": f"CASE WHEN {valid_tail} THEN {tail} END",
                "head": f"CASE WHEN {valid_tail} THEN {head} ELSE txt END",
            },
            {"hex4": _hex4(d, "four"), "hextail": _hex4(d, "tail")},
            {
                "six": "CASE WHEN hextail IS NULL THEN head ELSE "
                f"{d.concat('head', 'left(hextail, 4)', colon, 'right(hextail, 4)')} END"
            },
            {"many": f"(length(six) - length({d.replace('six', '::', '')}))"},
            {
                "front": f"CASE WHEN many = 0 THEN six WHEN many = 2 THEN {d.piece('six', '::', 1)}"
                " END",
                "back": f"CASE WHEN many = 2 THEN {d.piece('six', '::', 2)} ELSE '' END",
            },
            {"f": _group_digits(d, "front"), "b": _group_digits(d, "back")},
            {
                "hex6": "CASE WHEN many = 0 AND length(f) = 32 THEN f "
                "WHEN many = 2 AND length(f) + length(b) <= 28 "
                f"THEN {d.concat('f', zeros, 'b')} END"
            },
            {"address": f"CASE WHEN hex4 IS NULL THEN hex6 ELSE {d.concat(mapped, 'hex4')} END"},
            {"k1": self._acceptable()},
        )

    def _acceptable(self) -> str:
        h = self.hierarchy
        finest = self._mask_key("address", len(h.prefixes), len(h.prefixes6))
        if h.version is None:
            return finest
        four = _is_ipv4_text("address")
        return f"CASE WHEN {four if h.version == 4 else f'NOT {four}'} THEN {finest} END"

    def _mask_key(self, key: str, four: int, six: int) -> str:
        mask4 = self._mask(key, 96 + self.hierarchy.prefixes[four - 1])
        mask6 = self._mask(key, self.hierarchy.prefixes6[six - 1])
        return f"CASE WHEN {_is_ipv4_text(key)} THEN {mask4} ELSE {mask6} END"

    def _mask(self, key: str, bits: int) -> str:
        d = self.dialect
        digits, rest = divmod(bits, 4)
        if digits == 32:
            return key
        if not rest:
            return d.concat(f"left({key}, {digits})", f"'{'0' * (32 - digits)}'")
        kept = "".join(f"{i & (0xF0 >> rest & 0xF):x}" for i in range(16))
        digit = f"translate(substr({key}, {digits + 1}, 1), '0123456789abcdef', '{kept}')"
        return d.concat(f"left({key}, {digits})", digit, f"'{'0' * (31 - digits)}'")

    def depth(self) -> str | None:
        return (
            f"CASE WHEN k1 IS NULL THEN 1 WHEN {_is_ipv4_text('k1')} "
            f"THEN {len(self.hierarchy.prefixes)} ELSE {len(self.hierarchy.prefixes6)} END"
        )

    def coarser(self, level: int) -> str:
        h = self.hierarchy
        return self._mask_key("k1", min(level, len(h.prefixes)), min(level, len(h.prefixes6)))

    def key_of_text(self, level: int, texts: tuple[str, ...]) -> tuple[str, ...]:
        text = texts[0]
        return (
            f"CASE WHEN regexp_full_match({text}, '[0-9a-f]{{32}}') "
            f"THEN TRY_CAST('0x' || {text} AS UHUGEINT) END",
        )

    def wire(self, text: str) -> str:
        return f"{int(text):032x}"


def _is_ipv4_text(key: str) -> str:
    return f"left({key}, 24) = '{MAPPED}'"


def _hex4(d: Dialect, dotted: str) -> str:
    """Return the SQL of the eight hexadecimal digits of a valid dotted address; NULL for NULL."""
    digits = []
    for i in (1, 2, 3, 4):
        octet = d.to_integer(d.piece(dotted, ".", i))
        for value in (d.quotient(octet, "16"), d.remainder(octet, "16")):
            digits.append(f"substr('0123456789abcdef', {d.small(f'({value} + 1)')}, 1)")
    return f"CASE WHEN {dotted} IS NOT NULL THEN {d.concat(*digits)} END"


def _group_digits(d: Dialect, half: str) -> str:
    """Return the SQL of the digits on one side of '::', four for each group; NULL if a group is
    malformed."""
    pieces = [d.piece(half, ":", i) for i in range(1, 9)]
    padded = [f"(CASE WHEN {p} <> '' THEN {d.pad(p, 4)} ELSE '' END)" for p in pieces]
    return (
        f"CASE WHEN {half} = '' THEN '' WHEN {d.matches(half, GROUPS)} THEN {d.concat(*padded)} END"
    )
