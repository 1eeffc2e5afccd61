"""Addresses under their prefixes, as people read them."""

from __future__ import annotations

import duckdb
import pandas as pd
import pytest

import dpframe as dp
from dpframe.common.texts import literal
from dpframe.hierarchy import Hierarchy
from dpframe.sources.cell_leaves import keyed_sql
from tests.rollups import exact_counts


def paths(values: list[str | None], hierarchy: Hierarchy) -> dict[tuple[str | None, ...], int]:
    return exact_counts(pd.DataFrame({"ip": pd.Series(values, dtype=object)}), hierarchy)


def test_labels_are_networks() -> None:
    """Networks of both families are written the way ``ipaddress`` writes them."""
    found = paths(["10.2.3.4", "2001:DB8::A"], dp.ip("ip"))
    four = ("10.0.0.0/8", "10.2.0.0/16", "10.2.3.0/24", "10.2.3.4/32")
    six = ("2001::/16", "2001:db8::/32", "2001:db8::/48", "2001:db8::/64", "2001:db8::a/128")
    assert found == {(): 2} | {f[:n]: 1 for f in (four, six) for n in range(1, len(f) + 1)}


@pytest.mark.parametrize(
    "written", ["::ffff:10.2.3.4", "::FFFF:a02:304", "0:0:0:0:0:ffff:10.2.3.4", " 10.2.3.4 "]
)
def test_a_mapped_address_is_its_ipv4_address(written: str) -> None:
    """IPv4-mapped IPv6 (RFC 4291, 2.5.5.2) and dotted decimal meet in one node, at every level."""
    found = paths(["10.2.3.4", written], dp.ip("ip"))
    assert set(found.values()) == {2}
    assert max(found, key=len)[-1] == "10.2.3.4/32"


PRINTABLE = "".join(map(chr, range(32, 127)))


def test_an_octet_is_a_number_as_it_is_written() -> None:
    """Of all texts of up to three printable characters, in the place of an octet, exactly the
    numbers up to 255 without leading zeros are read. No text is shorter than its number, so that a
    longer one elsewhere cannot make up for it."""
    letters = f"(SELECT unnest(string_split({literal(PRINTABLE)}, '')) AS x)"
    octets = f"""
        WITH one AS MATERIALIZED {letters}, two AS (SELECT a.x || b.x AS x FROM one a, one b)
        SELECT x FROM one UNION ALL SELECT x FROM two UNION ALL SELECT '' UNION ALL
        SELECT a.x || b.x FROM one a, two b"""
    rows = "(SELECT '7.' || x || '.0.255' AS c0, x FROM octets WHERE x NOT LIKE '%:%')"
    statement = f"""WITH octets AS MATERIALIZED ({octets}),
        found AS ({keyed_sql(dp.ip("ip"), ("VARCHAR",), rows, "x")})
        SELECT list(x) FROM found WHERE k1 IS NOT NULL AND x NOT LIKE '%.%'"""
    with duckdb.connect() as con:
        ((read,),) = con.execute(statement).fetchall()
        assert sorted(read) == sorted(map(str, range(256)))
        short = f"SELECT x, TRY_CAST(x AS UTINYINT) AS v FROM ({octets}) WHERE strlen(x) < 3"
        shorter = f"SELECT count(*) FROM ({short}) WHERE strlen(v::VARCHAR) > strlen(x)"
        assert con.execute(shorter).fetchall() == [(0,)]


def test_other_embeddings_stay_ipv6() -> None:
    """IPv4-compatible and NAT64 addresses are IPv6 addresses."""
    found = paths(["::1.2.3.4", "64:ff9b::1.2.3.4"], dp.ip("ip", prefixes6=(128,)))
    assert found == {(): 2, ("::102:304/128",): 1, ("64:ff9b::102:304/128",): 1}


def test_the_edges_of_the_address_space() -> None:
    """Neither the first nor the last address of a family overflows."""
    hierarchy = dp.ip("ip", prefixes=(1, 32), prefixes6=(1, 128))
    last = "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"
    assert paths(["0.0.0.0", "255.255.255.255", "::", last], hierarchy) == {
        (): 4,
        ("0.0.0.0/1",): 1,
        ("0.0.0.0/1", "0.0.0.0/32"): 1,
        ("128.0.0.0/1",): 1,
        ("128.0.0.0/1", "255.255.255.255/32"): 1,
        ("::/1",): 1,
        ("::/1", "::/128"): 1,
        ("8000::/1",): 1,
        ("8000::/1", f"{last}/128"): 1,
    }


def test_one_family_makes_the_other_invalid() -> None:
    """``version`` keeps one family; a mapped address belongs to IPv4."""
    values = ["10.0.0.1", "::ffff:10.0.0.1", "2001:db8::1", "x", None]
    four = paths(values, dp.ip("ip", version=4, prefixes=(8,)))
    assert four == {(): 5, (None,): 3, ("10.0.0.0/8",): 2}
    six = paths(values, dp.ip("ip", version=6, prefixes6=(32,), invalid="drop"))
    assert six == {(): 1, ("2001:db8::/32",): 1}


def test_level_names_show_both_families() -> None:
    """A level is one prefix length of each family, or of the only one that goes so deep."""
    assert dp.ip("ip").level_names == (
        "/8 or /16",
        "/16 or /32",
        "/24 or /48",
        "/32 or /64",
        "/128",
    )
    assert dp.ip("ip", version=4).level_names == ("/8", "/16", "/24", "/32")
    assert dp.ip("ip", prefixes=(16,), prefixes6=(16,)).level_names == ("/16",)
