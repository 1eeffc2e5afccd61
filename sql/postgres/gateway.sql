-- Questions to a gateway of dpframe, in PostgreSQL.
-- `dpframe install-postgres` runs this file, questions.sql and rights.sql in one transaction, as a
-- superuser, and keeps the token out of the server's log. By hand:
-- psql --single-transaction -f gateway.sql -f questions.sql -f rights.sql, and then, as the same user,
-- INSERT INTO dpframe.gateway (url, token) VALUES ('https://...', 'dpf_...');
--
-- Who asks is the session's user, whatever SET ROLE says. Only dpframe_owner, which nobody can be,
-- reads the token and calls the function that sends; analysts get EXECUTE on the functions dp_*.

SET search_path = pg_catalog, pg_temp;  -- else operators of others could run here, as a superuser

CREATE EXTENSION IF NOT EXISTS plpython3u;

DO $do$
DECLARE
    one record;
BEGIN
    IF pg_catalog.current_setting('server_encoding') <> 'UTF8' THEN
        RAISE EXCEPTION USING MESSAGE = 'answers are in UTF8, and this database '
            'is not. Make one with ENCODING UTF8.';
    END IF;
    FOR one IN SELECT * FROM (VALUES ('dpframe_owner'), ('dpframe_analyst')) AS t(role) LOOP
        IF NOT EXISTS (SELECT FROM pg_catalog.pg_roles WHERE rolname = one.role) THEN
            EXECUTE pg_catalog.format('CREATE ROLE %I NOLOGIN', one.role);
        END IF;
    END LOOP;
    IF EXISTS (
        SELECT FROM pg_catalog.pg_roles AS r WHERE r.rolname IN ('dpframe_owner', 'dpframe_analyst')
        AND (r.rolcanlogin OR r.rolsuper OR r.rolcreaterole OR r.rolreplication OR r.rolbypassrls)
    ) OR EXISTS (
        SELECT FROM pg_catalog.pg_auth_members AS m JOIN pg_catalog.pg_roles AS r
        ON r.oid IN (m.roleid, m.member) WHERE r.rolname = 'dpframe_owner'
    ) THEN
        RAISE EXCEPTION USING ERRCODE = '42710', MESSAGE = 'the roles dpframe_owner and '
            'dpframe_analyst must not log in, nor have rights; dpframe_owner must have '
            'and be no member. Drop or correct them.';
    END IF;
    IF EXISTS (
        SELECT FROM pg_catalog.pg_namespace AS n JOIN pg_catalog.pg_roles AS r ON r.oid = n.nspowner
        WHERE n.nspname = 'dpframe' AND r.rolname <> 'dpframe_owner'
    ) THEN
        RAISE EXCEPTION USING ERRCODE = '42P06', MESSAGE = 'the schema dpframe is there, and was '
            'not made by dpframe. Rename it.';
    END IF;
END
$do$;

CREATE SCHEMA IF NOT EXISTS dpframe AUTHORIZATION dpframe_owner;
COMMENT ON SCHEMA dpframe IS 'Questions to a gateway of dpframe, for the session''s user. The rows are not in this database';

DROP TABLE IF EXISTS dpframe.gateway;  -- with triggers, rules and parents that somebody gave it
CREATE TABLE dpframe.gateway (
    url text NOT NULL,
    token text NOT NULL,
    only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row)
);
ALTER TABLE dpframe.gateway OWNER TO dpframe_owner;
ALTER TABLE dpframe.gateway ENABLE ROW LEVEL SECURITY;  -- members of pg_read_all_data see no row
COMMENT ON TABLE dpframe.gateway IS 'The address of the gateway, and the token of this database, which speaks for its analysts';

-- Functions of an earlier version. What was made of them, such as a view, stops this; those of an
-- extension stay, which the owner of a database can put into any schema.
DO $do$
DECLARE
    one record;
BEGIN
    FOR one IN
        SELECT p.oid::pg_catalog.regprocedure AS function FROM pg_catalog.pg_proc AS p
        WHERE p.pronamespace = 'dpframe'::pg_catalog.regnamespace
        AND NOT EXISTS (SELECT FROM pg_catalog.pg_depend AS d WHERE d.classid = 'pg_catalog.pg_proc'::pg_catalog.regclass
            AND d.objid = p.oid AND d.deptype = 'e')
    LOOP
        EXECUTE 'DROP FUNCTION ' || one.function;
    END LOOP;
END
$do$;

-- Send a request for a role; status 0 where no gateway answers. A wait can be cancelled.
CREATE FUNCTION dpframe.send(role text, parts text[], body text, OUT status integer, OUT answer text)
LANGUAGE plpython3u SET search_path = pg_catalog, pg_temp AS $python$
import http.client
import io
import json
import re
import socket
import time
import urllib.parse

class Stream(io.RawIOBase):
    """What a socket sends. While nothing comes, a statement can be cancelled."""
    def __init__(self, sock):
        sock.settimeout(0.2)
        self.sock = sock
    def makefile(self, mode):
        return io.BufferedReader(self)
    def readable(self):
        return True
    def readinto(self, buffer):
        while time.monotonic() < until:
            try:
                return self.sock.recv_into(buffer)
            except socket.timeout:
                plpy.execute("SELECT 1")
        raise TimeoutError("it gives no answer")

row = plpy.execute("SELECT url, token FROM dpframe.gateway")
if not row:
    return 0, json.dumps({"detail": "no gateway is named. Run dpframe install-postgres."})
if not all(re.fullmatch(r"[\w-]{1,100}", part) for part in parts):  # a proxy would resolve a/../b
    return 404, json.dumps({"detail": "no data set or release has such a name. dp_datasets() and "
                            "dp_releases() list yours."})
url = urllib.parse.urlsplit(row[0]["url"])
kind = http.client.HTTPSConnection if url.scheme == "https" else http.client.HTTPConnection
path = url.path.rstrip("/") + "/api/" + "/".join(urllib.parse.quote(p, safe="") for p in parts)
head = {"Accept": "application/json", "Authorization": "Bearer " + row[0]["token"]}
if role is not None:
    head["Dpframe-Analyst"] = urllib.parse.quote(role, safe="")
if body is not None:
    head["Content-Type"] = "application/json"
until = time.monotonic() + 600
while True:
    connection = kind(url.hostname, url.port, timeout=10)
    try:
        connection.request("GET" if body is None else "POST", path, body and body.encode(), head)
        response = http.client.HTTPResponse(Stream(connection.sock))
        response.begin()
        text = response.read().decode()
        again = response.getheader("Retry-After", "") if response.status == 429 else ""
        if not again.isdigit() or time.monotonic() + int(again) > until:
            if "json" not in response.getheader("Content-Type", ""):
                return 0, json.dumps({"detail": "what answers is no gateway. Ask its owner."})
            # a text of PostgreSQL has no character 0
            return response.status, re.sub(r"(?<!\\)((?:\\\\)*)\\u0000", r"\1\\ufffd", text)
    except (OSError, ValueError, http.client.HTTPException) as error:
        said = getattr(error, "strerror", None) or type(error).__name__
        return 0, json.dumps({"detail": "no gateway answers: %s. Ask its owner; what is published "
                              "can be read." % said})
    finally:
        connection.close()
    for _ in range(int(again) * 5):
        time.sleep(0.2)
        plpy.execute("SELECT 1")
$python$;

-- The answer to a request of the session's user, or an error with its SQLSTATE.
CREATE FUNCTION dpframe.answer(parts text[], body json DEFAULT NULL) RETURNS json
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    found record;
    told json;
BEGIN
    IF NOT pg_has_role(session_user, 'dpframe_analyst', 'MEMBER') THEN  -- it called a function of an analyst
        RAISE EXCEPTION USING ERRCODE = '42501',
            MESSAGE = format('%I is no member of dpframe_analyst. GRANT it, or ask as another role.', session_user);
    END IF;
    IF array_position(parts, NULL) IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = '22004', MESSAGE = 'tbl is missing. dp_datasets() lists your data sets.';
    END IF;
    BEGIN
        found := dpframe.send(session_user, parts, CASE WHEN body IS NOT NULL THEN coalesce((
            SELECT json_object_agg(key, value) FROM json_each(body) WHERE json_typeof(value) <> 'null'
        )::text, '{}') END);
    EXCEPTION WHEN query_canceled THEN  -- else the context would show lines of Python
        RAISE EXCEPTION USING ERRCODE = '57014', MESSAGE = 'the wait for the gateway was cancelled. It may '
            'answer all the same: asked again, a question costs nothing more.';
    END;
    told := found.answer::json;
    IF found.status BETWEEN 200 AND 299 THEN
        RETURN told;
    END IF;
    RAISE EXCEPTION USING MESSAGE = coalesce(told ->> 'detail', 'what answers is no gateway'),
        ERRCODE = CASE found.status
            WHEN 0 THEN '08001'    -- no gateway answers
            WHEN 401 THEN '28000'  -- the gateway does not know this database
            WHEN 403 THEN '42501'  -- the policy does not know the role
            WHEN 404 THEN '42P01'  -- no such data set or release
            WHEN 409 THEN '53400'  -- too little budget is left
            WHEN 422 THEN '22023'  -- an argument
            WHEN 423 THEN '55000'  -- the data set is closed
            WHEN 429 THEN '53300'  -- too many requests
            WHEN 503 THEN '58000'  -- the question failed, or the ledger cannot be used
            ELSE '58030'
        END;
END
$$;

-- A text that is JSON in brackets or braces as JSON, and any other as a text.
CREATE FUNCTION dpframe.argument(given text) RETURNS json
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT CASE WHEN left(ltrim(given), 1) IN ('[', '{') THEN given::json ELSE to_json(given) END
$$;

-- A number of an answer: times as seconds since 1970 in UTC, durations as seconds.
CREATE FUNCTION dpframe.number(given json) RETURNS double precision
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp SET timezone = 'UTC' AS $$
    SELECT CASE json_typeof(given)
        WHEN 'number' THEN (given #>> '{}')::double precision
        WHEN 'string' THEN CASE WHEN given #>> '{}' ~ '^-?P'
            THEN extract(epoch FROM (given #>> '{}')::interval)
            ELSE extract(epoch FROM (given #>> '{}')::timestamptz) END
    END
$$;

-- Rows of an answer in the long form: a row for each node and measure.
CREATE FUNCTION dpframe.measures(answer json) RETURNS TABLE (
    level integer, prefix text, node jsonb, measure text,
    value double precision, lower double precision, upper double precision
) LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    WITH columns AS (
        SELECT c ->> 'name' AS name, n FROM json_array_elements(answer -> 'columns') WITH ORDINALITY AS t(c, n)
    ), measured AS (
        SELECT m.name, m.n FROM columns AS m
        JOIN columns AS l ON l.name = m.name || '_lower' JOIN columns AS u ON u.name = m.name || '_upper'
        WHERE m.n > 2
    ), keys AS (
        SELECT name FROM columns WHERE n > 2 AND n < (SELECT min(n) FROM measured)
    )
    SELECT (r ->> 'level')::integer, r ->> 'prefix', (SELECT json_object_agg(name, r -> name)::jsonb FROM keys), m.name,
        dpframe.number(r -> m.name), dpframe.number(r -> (m.name || '_lower')), dpframe.number(r -> (m.name || '_upper'))
    FROM json_array_elements(answer -> 'rows') WITH ORDINALITY AS t(r, i), measured AS m
    ORDER BY i, m.n
$$;

-- Values of one column, with their counts.
CREATE FUNCTION dpframe.values(answer json) RETURNS TABLE (
    item text, count double precision, lower double precision, upper double precision
) LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT r ->> (answer #>> '{columns,0,name}'), (r ->> 'count')::double precision,
        (r ->> 'lower')::double precision, (r ->> 'upper')::double precision
    FROM json_array_elements(answer -> 'rows') WITH ORDINALITY AS t(r, i) ORDER BY i
$$;

-- The lines of an explanation.
CREATE FUNCTION dpframe.lines(answer json) RETURNS TABLE (quantity text, value text, meaning text)
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT l ->> 0, l ->> 1, l ->> 2 FROM json_array_elements(answer -> 'lines') AS t(l)
$$;

CREATE FUNCTION dpframe.dp_sql(
    query text, epsilon double precision DEFAULT NULL, delta double precision DEFAULT NULL,
    "user" text DEFAULT NULL, bounds text DEFAULT NULL, public text DEFAULT NULL, intervals boolean DEFAULT NULL,
    threshold double precision DEFAULT NULL, confidence double precision DEFAULT NULL,
    release text DEFAULT NULL, data text DEFAULT NULL, period text DEFAULT NULL
) RETURNS SETOF record
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET extra_float_digits = 1 AS $$
DECLARE
    found json;
    columns text;
    texts text;
BEGIN
    found := dpframe.answer(ARRAY['sql'], json_build_object(
        'query', query, 'epsilon', epsilon, 'delta', delta, 'user', "user",
        'bounds', dpframe.argument(bounds), 'public', dpframe.argument(public), 'intervals', intervals,
        'threshold', threshold, 'confidence', confidence, 'release', release, 'data', data,
        'period', dpframe.argument(period)
    ));
    SELECT string_agg(format('%I %s', name, type), ', ' ORDER BY n),
        string_agg(format('(r ->> %L)::%s', name, CASE type WHEN 'bigint' THEN 'numeric::bigint' ELSE type END), ', ' ORDER BY n)
        INTO columns, texts FROM (
            SELECT c ->> 'name' AS name, n, CASE
                WHEN c ->> 'type' ~ '^u?int' THEN 'bigint'
                WHEN c ->> 'type' ~ '^(double|float|halffloat|decimal)' THEN 'double precision'
                WHEN c ->> 'type' = 'bool' THEN 'boolean'
                WHEN c ->> 'type' ~ '^date' THEN 'date'
                WHEN c ->> 'type' ~ '^timestamp.*tz=' THEN 'timestamptz'
                WHEN c ->> 'type' ~ '^timestamp' THEN 'timestamp'
                ELSE 'text' END AS type
            FROM json_array_elements(found -> 'columns') WITH ORDINALITY AS t(c, n)
        ) AS s;
    -- by their names as texts: an identifier has 63 bytes at most
    RETURN QUERY EXECUTE format('SELECT %s FROM json_array_elements($1) WITH ORDINALITY AS t(r, i) ORDER BY i', texts)
        USING found -> 'rows';
EXCEPTION WHEN datatype_mismatch THEN
    RAISE EXCEPTION USING ERRCODE = '42804',
        MESSAGE = format('the answer has other columns. Write FROM dp_sql(...) AS t(%s)', columns),
        HINT = 'The same question again costs nothing.';
END
$$;
COMMENT ON FUNCTION dpframe.dp_sql IS 'The answer to a query in SQL, differentially private: the columns of the query, and for each aggregate its name_lower and name_upper. The query names a data set of yours. Name the columns: FROM dp_sql(...) AS t(country text, n bigint, n_lower bigint, n_upper bigint)';

CREATE FUNCTION dpframe.dp_explain_sql(
    query text, epsilon double precision DEFAULT NULL, delta double precision DEFAULT NULL,
    "user" text DEFAULT NULL, bounds text DEFAULT NULL, public text DEFAULT NULL, intervals boolean DEFAULT NULL,
    threshold double precision DEFAULT NULL, confidence double precision DEFAULT NULL,
    error anyelement DEFAULT NULL::double precision, period text DEFAULT NULL
) RETURNS TABLE (quantity text, value text, meaning text)
LANGUAGE sql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET extra_float_digits = 1 AS $$
    SELECT * FROM dpframe.lines(dpframe.answer(ARRAY['sql', 'explain'], json_build_object(
        'query', query, 'epsilon', epsilon, 'delta', delta, 'user', "user",
        'bounds', dpframe.argument(bounds), 'public', dpframe.argument(public), 'intervals', intervals,
        'threshold', threshold, 'confidence', confidence, 'error', CASE WHEN error IS NOT NULL THEN format('%s', error)::json END,
        'period', dpframe.argument(period)
    )))
$$;
COMMENT ON FUNCTION dpframe.dp_explain_sql IS 'What dp_sql with these arguments would do: quantity, value, meaning. Spends nothing. error in the place of epsilon finds the smallest one whose intervals are at most so wide to each side';

CREATE FUNCTION dpframe.dp_datasets() RETURNS TABLE (
    data text, about text, protects text, questions text[], levels text[], bounds jsonb, filters text[],
    period text, largest_epsilon double precision, default_epsilon double precision, state text
) LANGUAGE sql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET extra_float_digits = 1 AS $$
    SELECT d ->> 'name', d ->> 'about', d ->> 'protects',
        ARRAY(SELECT json_array_elements_text(d -> 'questions')), ARRAY(SELECT json_array_elements_text(d -> 'levels')),
        (d -> 'bounds')::jsonb, ARRAY(SELECT json_array_elements_text(d -> 'filters')), d ->> 'period',
        (d ->> 'largest')::double precision, (d ->> 'default')::double precision, d ->> 'state'
    FROM json_array_elements(dpframe.answer(ARRAY['datasets'])) AS t(d)
$$;
COMMENT ON FUNCTION dpframe.dp_datasets IS 'The data sets that you may ask, and what may be asked of them';

CREATE FUNCTION dpframe.dp_budget() RETURNS TABLE (
    data text, of text, epsilon double precision, delta double precision, spent_epsilon double precision,
    spent_delta double precision, left_epsilon double precision
) LANGUAGE sql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET extra_float_digits = 1 AS $$
    SELECT d ->> 'name', b ->> 'of', (b ->> 'epsilon')::double precision, (b ->> 'delta')::double precision,
        (b ->> 'spent')::double precision, (b ->> 'delta_spent')::double precision, (b ->> 'left')::double precision
    FROM json_array_elements(dpframe.answer(ARRAY['datasets'])) AS t(d), json_array_elements(d -> 'budget') AS u(b)
$$;
COMMENT ON FUNCTION dpframe.dp_budget IS 'What is left of each data set: your share, your group''s, and the total of everybody';

CREATE FUNCTION dpframe.dp_releases() RETURNS TABLE (
    data text, release text, "time" timestamptz, question text, arguments jsonb,
    epsilon double precision, delta double precision, yours boolean
) LANGUAGE sql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET extra_float_digits = 1 AS $$
    SELECT d ->> 'name', r ->> 'release', (r ->> 'time')::timestamptz, r ->> 'question', (r -> 'arguments')::jsonb,
        (r ->> 'epsilon')::double precision, (r ->> 'delta')::double precision, (r ->> 'yours')::boolean
    FROM json_array_elements(dpframe.answer(ARRAY['datasets'])) AS t(d),
        json_array_elements(dpframe.answer(ARRAY['datasets', d ->> 'name', 'releases'])) AS u(r)
$$;
COMMENT ON FUNCTION dpframe.dp_releases IS 'Every release that is stored, yours and those of others; whoever asks the same question gets it for nothing';

CREATE FUNCTION dpframe.dp_receipt(tbl text, release text) RETURNS jsonb
LANGUAGE sql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET extra_float_digits = 1 AS $$
    SELECT (dpframe.answer(ARRAY['datasets', tbl, 'releases', release]) -> 'receipt')::jsonb
$$;
COMMENT ON FUNCTION dpframe.dp_receipt IS 'The receipt of a release of a data set: what is promised, and its proof';
