-- A differentially private generator of synthetic rows, fitted in one pass and small memory.
-- dpframe.register(con) runs this file on a connection.
-- Written by `python -m dpframe.doors.sql.macros` from the declaration of dp.synthesize.

CREATE OR REPLACE TEMP MACRO dp_synthesize(
    "tbl" := NULL, "columns" := NULL, "n" := NULL, "epsilon" := NULL, "k" := NULL, "width" := NULL,
    "rows" := NULL, "depth" := NULL, "keys" := NULL, "split" := NULL, "user" := NULL,
    "max_contributions" := NULL, "release" := NULL, "query" := NULL, "data" := NULL,
    "period" := NULL
) AS TABLE
FROM query(system.main.__dpframe_ask(
    temp.__dpframe_here(), current_setting('search_path'), 'synthesize', {
    'tbl': "tbl", 'columns': "columns", 'n': "n", 'epsilon': "epsilon", 'k': "k", 'width': "width",
    'rows': "rows", 'depth': "depth", 'keys': "keys", 'split': "split", 'user': "user",
    'max_contributions': "max_contributions", 'release': "release", 'query': "query",
    'data': "data", 'period': "period"
}));

COMMENT ON MACRO TABLE dp_synthesize IS 'A differentially private generator of synthetic rows, fitted in one pass and small memory: n rows with the names and types of the columns, more of them free if release names it. Of a table (tbl) or of a query. Draws and charges each time it runs, unless release names it; data names the state of the data. Arguments as for dp.synthesize in Python';

CREATE OR REPLACE TEMP MACRO dp_explain_synthesize(
    "tbl" := NULL, "columns" := NULL, "epsilon" := NULL, "k" := NULL, "width" := NULL,
    "rows" := NULL, "depth" := NULL, "keys" := NULL, "split" := NULL, "user" := NULL,
    "max_contributions" := NULL, "query" := NULL, "error" := NULL, "period" := NULL
) AS TABLE
FROM query(system.main.__dpframe_explain(
    temp.__dpframe_here(), current_setting('search_path'), 'synthesize', {
    'tbl': "tbl", 'columns': "columns", 'epsilon': "epsilon", 'k': "k", 'width': "width",
    'rows': "rows", 'depth': "depth", 'keys': "keys", 'split': "split", 'user': "user",
    'max_contributions': "max_contributions", 'query': "query", 'error': "error", 'period': "period"
}));

COMMENT ON MACRO TABLE dp_explain_synthesize IS 'What dp_synthesize with these arguments would do: quantity, value, meaning. Spends nothing and reads no data. error in the place of epsilon finds the smallest one whose intervals are at most so wide to each side: a number, or numbers by the name of a measure';
