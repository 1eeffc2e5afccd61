"""``dpframe install-postgres``: the questions of a gateway as functions of PostgreSQL.

The files in ``sql/postgres`` make them. ``questions.sql`` is written from the declarations of
questions by ``python -m dpframe.doors.postgres``.
"""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import urlsplit

from dpframe.common.files import postgres_driver
from dpframe.common.texts import literal
from dpframe.doors.gateway import LOOPBACK
from dpframe.doors.sql.macros import EXPLAINS, macro_folder, parameters_of
from dpframe.errors import ParameterError, SourceError
from dpframe.questions.question_list import QUESTIONS

FILES = ("gateway.sql", "questions.sql", "rights.sql")
"""The files in their order."""

HEAD = (
    "LANGUAGE sql VOLATILE SECURITY DEFINER\n"
    "SET search_path = pg_catalog, pg_temp SET extra_float_digits = 1"
)

NODES = (
    "level integer, prefix text, residual double precision, count double precision, "
    "lower double precision, upper double precision"
)
VALUES = "item text, count double precision, lower double precision, upper double precision"
LONG = (
    "level integer, prefix text, node jsonb, measure text, "
    "value double precision, lower double precision, upper double precision"
)

ROWS_OF = {
    "hierarchy": (NODES, f"SELECT * FROM json_to_recordset({{}} -> 'rows') AS t({NODES})"),
    "by": (LONG, "SELECT * FROM dpframe.measures({})"),
    "column": (VALUES, "SELECT * FROM dpframe.values({})"),
}
"""Columns of an answer, by what a question is about, and the statement that makes its rows."""

WRITTEN = {
    "text": 'dpframe.argument("{}")',
    "anyelement": 'CASE WHEN "{0}" IS NOT NULL THEN format(\'%s\', "{0}")::json END',
}
"""How arguments are written as JSON. ``format`` calls no cast to json that somebody made for a type
of theirs: it would run as dpframe_owner, who can read the token."""

COMMENTS = {
    "hierarchy": "Rows: level, prefix, residual, count, lower, upper.",
    "by": "Rows: level, prefix, node (its key, as JSON), measure, value, lower, upper.",
    "column": "Rows: item, count, lower, upper, largest first.",
}


def install(address: str, gateway: str, token: str) -> str:
    """Make the functions in a database, or those of this version in place of older ones.

    Parameters
    ----------
    address
        The database, as ``postgresql://host/name``; its user is a superuser, since functions in
        Python need one.
    gateway
        The address of the gateway, as the server of PostgreSQL reaches it.
    token
        The token of an analyst of the gateway's policy who has ``speaks_for``.

    Returns
    -------
    str
        The name of the analyst whose token it is.

    Raises
    ------
    ParameterError
        The address or the gateway's is wrong, or the user is no superuser.
    SourceError
        The database or, from there, the gateway cannot be used. Nothing was changed.
    """
    _check_gateway(gateway)
    if not (token.isascii() and token.isprintable() and " " not in token):
        raise ParameterError("the token has one line without blanks. Copy it again.")
    psycopg = postgres_driver("install-postgres")
    _check_address(psycopg, address)
    script = "\n".join((macro_folder() / "postgres" / name).read_text("utf-8") for name in FILES)
    try:
        with psycopg.connect(address, client_encoding="UTF8", autocommit=False) as db:
            _check_server(db)
            db.execute(script)
            db.execute("INSERT INTO dpframe.gateway (url, token) VALUES (%s, %s)", (gateway, token))
            status, answer = db.execute(
                "SELECT status, answer::jsonb FROM dpframe.send(NULL, ARRAY['analyst'], NULL)"
            ).fetchone()
            return _deputy_of(gateway, status, answer)
    except psycopg.Error as error:
        refusal = _refusal(psycopg.errors, error)
    raise refusal  # outside of the handler: no context holds the password


def _refusal(kinds: Any, error: Any) -> ParameterError | SourceError:
    """A sentence of what the server said, and what to do."""
    if isinstance(error, kinds.DependentObjectsStillExist):
        found = ", ".join(re.findall(r"^(.*?) depends on ", error.diag.message_detail or "", re.M))
        return ParameterError(
            f"the functions of an earlier version are used by {found}. Drop that first, and make "
            "it anew afterwards."
        )
    if isinstance(error, kinds.UndefinedFile):
        return ParameterError(NO_PYTHON)
    if isinstance(error, kinds.LockNotAvailable | kinds.UniqueViolation):
        return SourceError(
            "nothing was changed, because somebody who asked has a transaction open, or this "
            "command runs twice. Try again when it has ended."
        )
    said = error.diag.message_primary or error
    return SourceError(f"nothing was changed, because the server says: {said}")


def _check_gateway(gateway: str) -> None:
    try:
        url = urlsplit(gateway)
        plain = not (url.query or url.fragment or url.username or url.password or url.port == 0)
    except ValueError:
        url, plain = urlsplit(""), False
    if not (url.hostname and plain and gateway.isprintable() and " " not in gateway):
        raise ParameterError(
            "gateway must be an address such as https://data.example.org, without name, password "
            "or query."
        )
    if url.scheme != "https" and not (url.scheme == "http" and url.hostname in LOOPBACK):
        raise ParameterError(
            f"gateway ({gateway!r}) must begin with https://, or be on the server's own machine: "
            "http://127.0.0.1:8722. Else the token could be read on its way."
        )


def _check_address(psycopg: Any, address: str) -> None:
    """Raise ParameterError for an address of which libpq would quote a part: it can be a password
    with a character that ends it."""
    try:
        known = psycopg.conninfo.conninfo_to_dict(address)
    except psycopg.Error:
        known = {"host": "@"}
    told = f"{known.get('host')}{known.get('dbname')}{known.get('user')}"
    ports = str(known.get("port") or "5432").split(",")
    if "@" in told or not all(one.isdigit() for one in ports):
        raise ParameterError(
            "the address of the database cannot be read. Write postgresql://user@host/name, and "
            "set PGPASSWORD to the password."
        )


QUIET = (
    "search_path = pg_catalog, pg_temp",  # nothing of somebody else runs here
    "lock_timeout = '10s'",
    "statement_timeout = '60s'",
    "client_min_messages = 'warning'",
    # the token is in no log, and in no statistics of statements
    "log_statement = 'none'",
    "log_min_duration_statement = -1",
    "log_min_error_statement = 'panic'",
    "log_parameter_max_length = 0",
    "log_parameter_max_length_on_error = 0",
    "auto_explain.log_min_duration = -1",
    "pgaudit.log_parameter = off",
)
"""Settings of the transaction that installs."""


def _check_server(db: Any) -> None:
    version = db.info.server_version
    if version < 130000:
        raise ParameterError(f"PostgreSQL {version // 10000} is too old. 13 is the oldest.")
    if db.execute("SHOW is_superuser").fetchone() != ("on",):
        raise ParameterError(
            "only a superuser can make functions in Python. Connect as one, such as postgres."
        )
    for setting in QUIET:
        db.execute(f"SET LOCAL {setting}")
    known = "SELECT count(*) FROM pg_available_extensions WHERE name = 'plpython3u'"
    if db.execute(known).fetchone() == (0,):
        raise ParameterError(NO_PYTHON)


NO_PYTHON = (
    "this server has no PL/Python. Install it there (on Debian postgresql-plpython3-NN); managed "
    "services have none: publish releases there instead."
)


def _deputy_of(gateway: str, status: int, answer: Any) -> str:
    """The name of the analyst of a token; SourceError or ParameterError unless it speaks for
    others."""
    facts = answer if isinstance(answer, dict) else {}
    if status != 200:
        raise SourceError(f"{gateway} refuses, asked from the server: {facts.get('detail')}")
    if "name" not in facts:
        raise SourceError(f"what answers at {gateway} is no gateway of dpframe. Look at --gateway.")
    if not answer.get("speaks_for"):
        raise ParameterError(
            f"{answer.get('name')!r} speaks for nobody. Write speaks_for = ['ann'] in the policy, "
            "with the roles that may ask."
        )
    return str(answer["name"])


# -- the file of questions -------------------------------------------------------------------------


def questions_text() -> str:
    """The text of ``questions.sql``."""
    from dpframe.doors.gateway.policy_questions import call_descriptions

    texts = [
        "-- Questions of a gateway, as functions of PostgreSQL; gateway.sql comes before.\n"
        "-- Written by `python -m dpframe.doors.postgres` from the declarations of questions.\n"
    ]
    for one in call_descriptions():
        if one.question != "sql":
            texts.append(_function_text(one))
    return "\n".join(texts)


def _function_text(one: Any) -> str:
    name = f"dp_{one.question}"
    if one.explains:
        name = EXPLAINS.get(one.question, f"dp_explain_{one.question}")
    macros = (macro_folder() / f"{one.question}.sql").read_text("utf-8")
    properties = one.arguments["properties"]
    ordered = parameters_of(name, macros)
    ordered += [name for name in properties if name not in ordered]
    types = {name: _type_of(properties.get(name, {})) for name in ordered}
    parameters = ",\n".join(
        f'    "{name}" {kind} DEFAULT NULL{"::double precision" * (kind == "anyelement")}'
        for name, kind in types.items()
    )
    fields = ",\n".join(
        f"        {literal(name)}, " + WRITTEN.get(kind, '"{}"').format(name)
        for name, kind in types.items()
        if name != "tbl"
    )
    parts = f"ARRAY['datasets', \"tbl\", {literal(one.question)}{', ' * one.explains}"
    parts += "'explain']" if one.explains else "]"
    answer = f"dpframe.answer({parts}, json_build_object(\n{fields}\n    ))"
    subject = next(known.subject for known in QUESTIONS if known.name == one.question)
    columns, statement = ROWS_OF[subject]
    if one.explains:
        columns, statement = EXPLANATION, "SELECT * FROM dpframe.lines({})"
    told = one.summary if one.explains else f"{one.summary} {COMMENTS[subject]}"
    return (
        f"CREATE FUNCTION dpframe.{name}(\n{parameters}\n) RETURNS TABLE (\n    {columns}\n) "
        f"{HEAD} AS $$\n    {statement.format(answer)}\n$$;\n"
        f"COMMENT ON FUNCTION dpframe.{name} IS {literal(told)};\n"
    )


EXPLANATION = "quantity text, value text, meaning text"


def _type_of(schema: Any) -> str:
    """The type of PostgreSQL for an argument; lists and objects are texts of JSON."""
    kinds = {one.get("type") for one in schema.get("anyOf", [schema])}
    if kinds >= {"number", "object"}:  # a number as it stands, or an object: '{"n": 5}'::json
        return "anyelement"
    if "boolean" in kinds:
        return "boolean"
    if "number" in kinds:
        return "double precision"
    return "integer" if "integer" in kinds else "text"


if __name__ == "__main__":
    (macro_folder() / "postgres" / "questions.sql").write_text(questions_text(), "utf-8")
