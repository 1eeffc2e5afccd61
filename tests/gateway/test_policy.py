"""A policy is checked as a whole: every mistake has its line, its value and what to write."""

from __future__ import annotations

import ast
import os
import re
from pathlib import Path

import duckdb
import pandas as pd
import pytest

from dpframe.common.files import key_lines
from dpframe.doors.gateway import policy_reader
from dpframe.doors.gateway.gate import ClosedError, Gate
from dpframe.doors.gateway.policy import hash_token, write_demo
from dpframe.doors.gateway.policy_reader import PolicyError, read_policy
from dpframe.errors import DpframeError, LedgerError, ParameterError

ROWS = pd.DataFrame(
    {
        "who": [f"u{i % 50}" for i in range(400)],
        "shop": ["a", "b"] * 200,
        "town": ["x", "y", "z", "x"] * 100,
        "paid": [i % 50 + 0.5 for i in range(400)],
        "day": pd.to_datetime(["2026-01-01", "2026-01-09"] * 200),
    }
)

GOOD = f"""\
[gateway]
floor = 0.01

[data.sales]
source = "sales.parquet"
user = "who"
levels = ["columns:shop,town", "date:day"]
bounds = {{ paid = [0, 50] }}
filters = ["town"]
period = "day"
epsilon = 10.0
delta = 1e-5
largest = 2.0
default = 0.5

[analyst.ann]
token = "{hash_token("dpf_ann")}"
shares = {{ sales = 4.0 }}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    ROWS.to_parquet(tmp_path / "sales.parquet")
    (tmp_path / "policy.toml").write_text(GOOD)
    return tmp_path


def mistakes(folder: Path, text: str) -> list[tuple[int, str]]:
    """Lines and messages of all mistakes of a policy."""
    path = folder / "policy.toml"
    path.write_text(text)
    try:
        read_policy(path)
    except PolicyError as error:
        found = [
            re.fullmatch(r".*?policy\.toml, line (\d+): (.*)", m) for m in str(error).split("\n")
        ]
        return [(int(one[1]), one[2]) for one in found if one is not None]
    return []


def test_a_good_policy_has_no_mistakes(folder: Path) -> None:
    policy = read_policy(folder / "policy.toml")
    data = policy.data["sales"]
    assert {*data.columns} == {*ROWS.columns}
    assert data.bounded_columns == {"paid"}
    assert policy.analyst_of("dpf_ann") is policy.analysts["ann"]
    assert policy.analyst_of("dpf_ben") is policy.analyst_of("") is None


def line_of(text: str, part: str) -> int:
    """The number of the first line that has a part."""
    return next(i for i, line in enumerate(text.split("\n"), 1) if part in line)


WRONG = [
    ("[gateway]", "[gatway]", "[gatway]", "Did you mean 'gateway'?"),
    ("floor =", "flor =", "flor", "Did you mean 'floor'?"),
    ("user =", "usr =", "usr", "Did you mean 'user'?"),
    ("floor = 0.01", "floor = 0", "floor", "must be a number from 0.01 to 60"),
    ("floor = 0.01", "floor = true", "floor", "must be a number from 0.01 to 60"),
    ("floor = 0.01", "failures = 1.5", "failures", "must be a whole number"),
    ("floor = 0.01", "behind_proxy = 1", "behind_proxy", "must be true or false; got 1"),
    ("floor = 0.01", "address = '0.0.0.0:80'", "address", "certificate and key, or write"),
    ("floor = 0.01", "address = 'x'", "address", "must be HOST:PORT"),
    ("floor = 0.01", "address = '127.0.0.1:99999'", "address", "must be HOST:PORT"),
    ("floor = 0.01", "memory = 5", "memory", "must be a whole number from"),
    ("floor = 0.01", "key = 'x.pem'", "[gateway]", "go together. Name both"),
    ('"who"', '"wo"', "user", "no column 'wo' for user. Did you mean 'who'?"),
    ('"who"', "3", "user", "user must be text; got 3"),
    ("shop,town", "shop,city", "levels", "no column 'city' for levels"),
    ("columns:shop", "colums:shop", "levels", "Did you mean 'columns'?"),
    ("columns:shop,town", "columns:shop,who", "levels", "a group of one is never shown"),
    ("date:day", "date:paid", "levels", "has type DOUBLE; date reads dates"),
    ('["columns:shop,town", "date:day"]', "[]", "[data.sales]", "Write levels = ["),
    ('["columns:shop,town", "date:day"]', "'shop'", "levels", "must be a list of texts"),
    ("paid = [0, 50]", "paid = [50, 0]", "bounds", "the lower one first"),
    ("paid = [0, 50]", "paid = [0, inf]", "bounds", "must be two numbers"),
    ("paid = [0, 50]", "paid = [0, nan]", "bounds", "must be two numbers"),
    ("paid = [0, 50]", "paid = [0]", "bounds", "must be two values, such as [0, 500]"),
    ("paid = [0, 50]", "town = [0, 50]", "bounds", "has type VARCHAR; a measure adds up"),
    ("paid = [0, 50]", '"sum(pay)" = [0, 50]', "bounds", "no column 'pay'"),
    ("paid = [0, 50]", '"sum(paid)" = [1, 50]', "bounds", "without 0 between them"),
    ('["town"]', '["city"]', "filters", "no column 'city' for filters"),
    ('period = "day"', 'period = "paid"', "period", "period reads dates"),
    ('period = "day"', 'period = "day"\nzone = "Mars/X"', "zone", "is unknown to this machine"),
    ('period = "day"', 'zone = "UTC"', "zone", "Write period, too"),
    ("epsilon = 10.0\n", "", "[data.sales]", "has no epsilon"),
    ("epsilon = 10.0", "epsilon = 1e9", "epsilon", "must be above 0 and below 1e+06"),
    ("epsilon = 10.0", "epsilon = nan", "epsilon", "must be above 0"),
    ("delta = 1e-5", "delta = 0", "delta", "must be above 0 and below 1"),
    ("delta = 1e-5", "delta = '1'", "delta", "delta must be a number"),
    ("largest = 2.0", "largest = 11", "largest", "to 10, the total epsilon"),
    ("default = 0.5", "default = 3", "default", "to 2, its largest"),
    ("default = 0.5", "accountant = 'rdp'", "accountant", "accountant has no 'rdp'"),
    ("default = 0.5", "questions = ['rolup']", "questions", "Did you mean 'rollup'?"),
    ("default = 0.5", "state = 2", "state", "state must be text; got 2"),
    ("sales.parquet", "sale.parquet", "source", "does not exist. Check the path"),
    ('"sales.parquet"', "{ file = 'a', fil = 'b' }", "source", "has no 'fil'"),
    ('"sales.parquet"', "7", "source", "must be a file or a table"),
    ('source = "sales.parquet"\n', "", "[data.sales]", "Write source = 'FILE'"),
    ("[data.sales]", "[data.'our sales']", "our sales", "a name that SQL can read"),
    ("sales = 4.0", "sales = 40", "shares", "is above its total epsilon, 10"),
    ("sales = 4.0", "sale = 4", "shares", "is no data set. Did you mean 'sales'?"),
    ("sales = 4.0", "sales = 0", "shares", "must be a number above 0"),
    ("shares = { sales = 4.0 }", "", "analyst", "has no share. Write shares"),
    ("shares = { sales = 4.0 }", "group = 'team'", "group", "Write [group.team], or leave it"),
    ("[analyst.ann]", "[analyst.'a b']", "analyst", "Use letters, digits"),
]


@pytest.mark.parametrize(("good", "bad", "at", "says"), WRONG)
def test_a_mistake_has_its_line_and_a_remedy(
    folder: Path, good: str, bad: str, at: str, says: str
) -> None:
    assert good in GOOD
    text = GOOD.replace(good, bad, 1)
    found = mistakes(folder, text)
    assert any(says in message and line == line_of(text, at) for line, message in found), found
    assert len(found) <= 3, found  # what follows from one mistake is not told at length


def test_all_mistakes_are_told_at_once_by_line(folder: Path) -> None:
    text = GOOD
    for good, bad in (("floor", "flor"), ('"who"', '"wo"'), ("[0, 50]", "[9, 1]"), ("4.0", "99")):
        text = text.replace(good, bad, 1)
    lines = [line for line, _ in mistakes(folder, text)]
    assert lines == sorted(lines)
    assert {*lines} >= {line_of(text, part) for part in ("flor", "wo", "[9, 1]", "99")}


def test_own_messages_have_at_most_30_words() -> None:
    tree = ast.parse(Path(policy_reader.__file__).read_text())
    told = [one for one in ast.walk(tree) if isinstance(one, ast.Call) and len(one.args) > 1]
    texts = [one.args[1] for one in told if getattr(one.func, "attr", "") == "mistake"]
    assert len(texts) > 30
    for text in texts:
        parts = [p.value for p in ast.walk(text) if isinstance(p, ast.Constant)]
        values = [p for p in ast.walk(text) if isinstance(p, ast.FormattedValue)]
        assert len(" ".join(map(str, parts)).split()) + len(values) <= 30, parts


@pytest.mark.parametrize(
    ("bad", "says"),
    [
        ("token = 'dpf_AbCdEf0123456789'", "looks like the token itself, no hash"),
        ("token = 'AbCdEf0123456789'", "is no hash of a token"),
        ("token = ['dpf_AbCdEf0123456789']", "is no hash of a token"),
        ("tokn = 'dpf_AbCdEf0123456789'", "Did you mean 'token'?"),
        ("group = ['dpf_AbCdEf0123456789']", "group must be text"),
        ("shares.sales = 'dpf_AbCdEf0123456789'", "must be a number above 0"),
        ("owner = 'dpf_AbCdEf0123456789'", "must be true or false"),
    ],
)
def test_no_message_shows_a_token(folder: Path, bad: str, says: str) -> None:
    found = mistakes(folder, GOOD.partition("[analyst.ann]")[0] + f"[analyst.ann]\n{bad}\n")
    assert any(says in message for _, message in found), found
    assert "AbCdEf" not in str(found)


def test_a_token_in_the_place_of_a_table_or_a_name_is_not_shown(folder: Path) -> None:
    start = GOOD.partition("[analyst.ann]")[0]
    for text in ("[analyst]\nann = 'dpf_AbCdEf'", "[analyst.dpf_AbCdEf]\ngroup = 'x'"):
        found = mistakes(folder, f"{start}\n{text}\n")
        assert found
        assert "AbCdEf" not in str(found)


def test_an_analyst_is_there_once(folder: Path) -> None:
    other = f'[analyst.ANN]\ntoken = "{hash_token("dpf_x")}"\nowner = true\n'
    assert ["there twice" in m for _, m in mistakes(folder, GOOD + other)] == [True]
    same = f'[analyst.ben]\ntoken = "{hash_token("dpf_ann")}"\nowner = true\n'
    assert ["another analyst's" in m for _, m in mistakes(folder, GOOD + same)] == [True]


def test_public_tables_and_key_lists_are_checked(folder: Path) -> None:
    pd.DataFrame({"code": ["x", "x"], "state": ["s", "s"]}).to_csv(
        folder / "twice.csv", index_label="n"
    )
    pd.DataFrame({"code": ["x", "x"], "state": ["s", "s"]}).to_csv(folder / "same.csv", index=False)
    pd.DataFrame({"shop": ["a"], "town": ["x"]}).to_csv(folder / "keys.csv", index=False)

    def found(added: str) -> list[tuple[int, str]]:
        return mistakes(folder, GOOD.replace("[analyst.ann]", f"{added}\n[analyst.ann]"))

    line = line_of(GOOD, "[analyst.ann]") + 1
    assert found("[data.sales.public]\ntowns = 'twice.csv'") == []
    (same,) = found("[data.sales.public]\ntowns = 'same.csv'")
    assert same[0] == line
    assert "has a row twice" in same[1]
    (clash,) = found("[data.sales.public]\nSales = 'twice.csv'")
    assert clash[0] == line
    assert "named twice" in clash[1]
    (missing,) = found("[data.sales.public]\ntowns = 'none.csv'")
    assert "does not exist" in missing[1]
    assert found("[data.sales.keys]\nall = [['a', 'x'], ['b', 'y']]") == []
    assert found("[data.sales.keys]\nall = 'keys.csv'") == []
    for bad in ("['2026-13-45']", "[['a', 'x', 'y']]", "[]", "[['a', 'x'], ['a', 'x']]"):
        (one,) = found(f"[data.sales.keys]\nall = {bad}")
        assert one[0] == line
        assert "fits no level" in one[1]


def test_what_is_no_policy_is_said(tmp_path: Path) -> None:
    path = tmp_path / "policy.toml"
    with pytest.raises(PolicyError, match="no such file or directory"):
        read_policy(path)
    with pytest.raises(PolicyError, match="is a directory"):
        read_policy(tmp_path)
    for content, says in ((b"\xff", "decode"), (b"a = \nb = 1", "line 1"), (b"[a]\n[a]", "twice")):
        path.write_bytes(content)
        with pytest.raises(PolicyError, match=says):
            read_policy(path)
    path.write_text("a = " + "[" * 5000 + "]" * 5000)
    with pytest.raises(PolicyError):
        read_policy(path)
    path.write_text("")
    with pytest.raises(PolicyError, match=r"needs a data set(.|\n)*needs an analyst"):
        read_policy(path)


def test_who_can_change_a_policy_is_its_owner_alone(folder: Path) -> None:
    path = folder / "policy.toml"
    for mode in (0o644, 0o600, 0o444):
        path.chmod(mode)
        assert read_policy(path).data
    for mode in (0o664, 0o646, 0o666):
        path.chmod(mode)
        with pytest.raises(PolicyError, match="others can change it"):
            read_policy(path)
    path.chmod(0o644)
    for mode in (0o770, 0o707, 0o777):
        folder.chmod(mode)
        with pytest.raises(PolicyError, match="others can change its folder"):
            read_policy(path)
    folder.chmod(0o1777)  # as /tmp: nobody replaces a file of another
    assert read_policy(path).data
    folder.chmod(0o700)
    if os.geteuid() == 0:
        os.chown(path, 12345, 12345)
        with pytest.raises(PolicyError, match="belongs to another user"):
            read_policy(path)


def test_a_database_is_a_source_and_its_faults_are_mistakes(folder: Path) -> None:
    with duckdb.connect(folder / "shop.duckdb") as db:
        db.execute(
            "CREATE TABLE sales AS SELECT * FROM read_parquet($1)", [str(folder / "sales.parquet")]
        )

    def found(source: str) -> list[str]:
        text = GOOD.replace('"sales.parquet"', source)
        return [m for line, m in mistakes(folder, text) if line == line_of(text, "source")]

    assert found("{ database = 'shop.duckdb', table = 'sales' }") == []
    (none,) = found("{ database = 'none.duckdb', table = 'sales' }")
    assert "does not exist" in none
    (table,) = found("{ database = 'shop.duckdb', table = 'orders' }")
    assert "cannot be read" in table
    (both,) = found("{ database = 'shop.duckdb', table = 'sales', sql = 'SELECT 1' }")
    assert "either table or sql" in both
    secret = "postgresql://me:hunter2@127.0.0.1:1/x"
    assert "hunter2" not in str(found(f"{{ database = '{secret}', table = 'sales' }}"))


# -- anything at all -------------------------------------------------------------------------------

JUNK = (
    *("0", "-1", "1e308", "nan", "-inf", "true", '""', '"x"', '"\\u0000"', "9223372036854775807"),
    *("[]", "[[]]", "{}", "{a={b=1}}", "2026-01-01", "2026-01-01T00:00:00Z", "10:00:00"),
    *('[1, "a", {x=1}]', '["\\u0000"]', '["columns:"]', '["sets:a;b"]', '[["a","b"]]'),
    *('"bad.parquet"', '"inner"', '"*.parquet"', '"~/x"', '"https://127.0.0.1:1/x.parquet"'),
    *('"dpf_SECRET"', f'"{"a" * 5000}"', "{database='bad.parquet', table='x'}"),
    *("{file='sales.parquet', delimiter='\\u0000'}", "{file='sales.parquet', encoding='nope'}"),
    "{database='postgresql://me:SECRET@127.0.0.1:1/x', table='t'}",
)

KEYS = {
    "gateway": (*policy_reader.OF_GATEWAY, "identity.header", "identity.key"),
    "data.sales": (
        *policy_reader.OF_DATA,
        *("bounds.paid", "bounds.'sum(paid)'", "bounds.'*'", "bounds.''", "public.p", "keys.k"),
    ),
    "analyst.ann": (*policy_reader.OF_ANALYST, "shares.sales"),
}

CASES = [(table, key, junk) for table, keys in KEYS.items() for key in keys for junk in JUNK]


def try_junk(folder: Path, cases: list[tuple[str, str, str]]) -> int:
    """Policies with a value of any kind at a key: each is read, or has mistakes, with lines."""
    (folder / "bad.parquet").write_text("no Parquet")
    (folder / "inner").mkdir()
    path = folder / "policy.toml"
    told: dict[tuple[str, str], str] = {}
    for table, key, junk in cases:
        head = f"[{table}]"
        before, _, after = GOOD.partition(f"{head}\n")
        own, sign, rest = after.partition("\n[")
        kept = [one for one in own.split("\n") if one.split(" =")[0] != key.partition(".")[0]]
        text = "\n".join([f"{before}{head}", f"{key} = {junk}", *kept])
        path.write_text(f"{text}{sign}{rest}")
        try:
            read_policy(path)
        except PolicyError as error:
            told[key, junk] = str(error)
    for case, text in told.items():
        assert all(f"{path}, line " in line for line in text.split("\n")), (case, text)
        assert "SECRET" not in text, (case, text)
    return len(told)


def test_no_value_at_any_key_ends_a_check(folder: Path) -> None:
    assert try_junk(folder, CASES[::41]) > 15


@pytest.mark.evidence
def test_no_value_of_many_at_any_key_ends_a_check(folder: Path) -> None:
    assert try_junk(folder, CASES) > 700


# -- lines of keys ---------------------------------------------------------------------------------

TOML = '''\
a = 1 # [x]
"b c".d = "]"
[t."u.v"] # head
list = [
  "one, [two]", # three
  """text
[no] = key
""", 4.5,
  { x = 1, y.z = [
      2026-01-01 10:00:00,
      'q'] },
]
w = {"k" = {m = 1}}
  [[many]]
  n = \'\'\'
x = 1
\'\'\'
  o = -1e-5
'''


def test_lines_of_keys_are_right() -> None:
    assert key_lines(TOML) == {
        (): 1,
        ("a",): 1,
        ("b c",): 2,
        ("b c", "d"): 2,
        ("t",): 3,
        ("t", "u.v"): 3,
        ("t", "u.v", "list"): 4,
        ("t", "u.v", "list", "0"): 5,
        ("t", "u.v", "list", "1"): 6,
        ("t", "u.v", "list", "2"): 8,
        ("t", "u.v", "list", "3"): 9,
        ("t", "u.v", "list", "3", "x"): 9,
        ("t", "u.v", "list", "3", "y"): 9,
        ("t", "u.v", "list", "3", "y", "z"): 9,
        ("t", "u.v", "list", "3", "y", "z", "0"): 10,
        ("t", "u.v", "list", "3", "y", "z", "1"): 11,
        ("t", "u.v", "w"): 13,
        ("t", "u.v", "w", "k"): 13,
        ("t", "u.v", "w", "k", "m"): 13,
        ("many",): 14,
        ("many", "n"): 15,
        ("many", "o"): 18,
    }
    assert key_lines(TOML.replace("\n", "\r\n")) == key_lines(TOML)


# -- ledgers and rows ------------------------------------------------------------------------------


def gate_of(folder: Path) -> Gate:
    return Gate(read_policy(folder / "policy.toml"))


def asked(gate: Gate) -> object:
    ann = gate.policy.analysts["ann"]
    return gate.ask(
        ann, "sales", "rollup", {"by": ["shop"], "measures": "count", "epsilon": 0.5}
    ).free


def test_a_folder_of_ledgers_is_for_one_owner_and_one_process(folder: Path) -> None:
    gate = gate_of(folder)
    with pytest.raises(LedgerError, match="held by another gateway"):
        gate_of(folder)
    gate.close()
    ledgers = folder / "policy.ledgers"
    for path, mode in (
        (ledgers, 0o750),
        (ledgers / "sales.db", 0o640),
        (ledgers / "gateway.json", 0o604),
    ):
        before = path.stat().st_mode
        path.chmod(mode)
        with pytest.raises(LedgerError, match=r"can be read by others. Run chmod \d00"):
            gate_of(folder)
        path.chmod(before & 0o577)
        with pytest.raises(LedgerError, match=r"cannot be written. Run chmod \d00"):
            gate_of(folder)
        path.chmod(before)
        if os.geteuid() == 0:
            os.chown(path, 12345, -1)
            with pytest.raises(LedgerError, match="belongs to another user"):
                gate_of(folder)
            os.chown(path, 0, -1)
    gate_of(folder).close()


@pytest.mark.parametrize(
    ("good", "bad"),
    [
        ("epsilon = 10.0", "epsilon = 11.0"),
        ("delta = 1e-5", "delta = 1e-6"),
        ("= 0.5", "= 0.5\naccountant='pld'"),
        ('"who"', '"town"'),
    ],
)
def test_a_ledger_of_another_policy_is_refused(folder: Path, good: str, bad: str) -> None:
    gate_of(folder).close()
    text = GOOD.replace(good, bad).replace('filters = ["town"]', "").replace("shop,town", "shop")
    (folder / "policy.toml").write_text(text)
    with pytest.raises(LedgerError):
        gate_of(folder)
    (folder / "policy.toml").write_text(GOOD)
    gate_of(folder).close()  # what refused holds nothing


def test_what_is_no_ledger_is_refused(folder: Path) -> None:
    gate_of(folder).close()
    path = folder / "policy.ledgers" / "sales.db"
    before = path.read_bytes()
    path.write_bytes(b"nothing of ours" * 300)
    with pytest.raises(LedgerError):
        gate_of(folder)
    path.write_bytes(before)
    gate_of(folder).close()


def test_rows_that_change_are_answered_no_more(folder: Path) -> None:
    gate = gate_of(folder)
    ROWS.iloc[:-1].to_parquet(folder / "sales.parquet")
    with pytest.raises(ClosedError, match="changed while the gateway runs"):
        asked(gate)
    gate.close()
    with pytest.raises(DpframeError, match="still called state '1'"):
        gate_of(folder)
    (folder / "policy.toml").write_text(GOOD.replace("default = 0.5", "default = 0.5\nstate = '2'"))
    gate = gate_of(folder)
    assert asked(gate) is None
    gate.close()


# -- the demonstration -----------------------------------------------------------------------------


def test_a_second_demonstration_keeps_its_ledger_and_makes_a_token(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    path, token = write_demo("there")
    gate = Gate(read_policy(path))
    demo = gate.policy.analyst_of(token)
    assert demo is not None
    gate.ask(demo, "flights", "rollup", {"by": ["carrier"], "measures": "count", "epsilon": 0.5})
    gate.close()
    path, other = write_demo("there")
    assert other != token
    gate = Gate(read_policy(path))
    demo = gate.policy.analyst_of(other)
    assert demo is not None
    assert gate.policy.analyst_of(token) is None
    assert gate.budget(demo, "flights")[-1]["spent"] == pytest.approx(0.5)
    gate.close()


def test_a_demonstration_overwrites_no_policy(folder: Path) -> None:
    with pytest.raises(ParameterError, match="is no demonstration"):
        write_demo(str(folder))
    assert (folder / "policy.toml").read_text() == GOOD
    (folder / "file").write_text("")
    with pytest.raises(ParameterError, match="cannot be used"):
        write_demo(str(folder / "file"))
