-- Frequent items of users who each hold many, found without collecting them.
-- dpframe.register(con) runs this file on a connection.
-- Written by `python -m dpframe.doors.sql.macros` from the declaration of dp.prefix_tree.

CREATE OR REPLACE TEMP MACRO dp_prefix_tree(
    "tbl" := NULL, "column" := NULL, "epsilon" := NULL, "delta" := NULL, "user" := NULL,
    "devices" := NULL, "iterations" := NULL, "rounds" := NULL, "length" := NULL, "limit" := NULL,
    "segments" := NULL, "false_positives" := NULL, "selection" := NULL, "conditioned" := NULL,
    "encoding" := NULL, "alphabet" := NULL, "public" := NULL, "deny" := NULL,
    "participation" := NULL, "mechanism" := NULL, "accountant" := NULL, "neighbours" := NULL,
    "confidence" := NULL, "release" := NULL, "query" := NULL, "data" := NULL, "period" := NULL
) AS TABLE
FROM query(system.main.__dpframe_ask(
    temp.__dpframe_here(), current_setting('search_path'), 'prefix_tree', {
    'tbl': "tbl", 'column': "column", 'epsilon': "epsilon", 'delta': "delta", 'user': "user",
    'devices': "devices", 'iterations': "iterations", 'rounds': "rounds", 'length': "length",
    'limit': "limit", 'segments': "segments", 'false_positives': "false_positives",
    'selection': "selection", 'conditioned': "conditioned", 'encoding': "encoding",
    'alphabet': "alphabet", 'public': "public", 'deny': "deny", 'participation': "participation",
    'mechanism': "mechanism", 'accountant': "accountant", 'neighbours': "neighbours",
    'confidence': "confidence", 'release': "release", 'query': "query", 'data': "data",
    'period': "period"
}));

COMMENT ON MACRO TABLE dp_prefix_tree IS 'Frequent items of users who each hold many, found without collecting them: the column, count, lower, upper, largest first. Of a table (tbl) or of a query. Draws and charges each time it runs, unless release names it; data names the state of the data. Arguments as for dp.prefix_tree in Python';

CREATE OR REPLACE TEMP MACRO dp_explain_prefix_tree(
    "tbl" := NULL, "column" := NULL, "epsilon" := NULL, "delta" := NULL, "user" := NULL,
    "devices" := NULL, "iterations" := NULL, "rounds" := NULL, "length" := NULL, "limit" := NULL,
    "segments" := NULL, "false_positives" := NULL, "selection" := NULL, "conditioned" := NULL,
    "encoding" := NULL, "alphabet" := NULL, "public" := NULL, "deny" := NULL,
    "participation" := NULL, "mechanism" := NULL, "accountant" := NULL, "neighbours" := NULL,
    "confidence" := NULL, "query" := NULL, "error" := NULL, "period" := NULL
) AS TABLE
FROM query(system.main.__dpframe_explain(
    temp.__dpframe_here(), current_setting('search_path'), 'prefix_tree', {
    'tbl': "tbl", 'column': "column", 'epsilon': "epsilon", 'delta': "delta", 'user': "user",
    'devices': "devices", 'iterations': "iterations", 'rounds': "rounds", 'length': "length",
    'limit': "limit", 'segments': "segments", 'false_positives': "false_positives",
    'selection': "selection", 'conditioned': "conditioned", 'encoding': "encoding",
    'alphabet': "alphabet", 'public': "public", 'deny': "deny", 'participation': "participation",
    'mechanism': "mechanism", 'accountant': "accountant", 'neighbours': "neighbours",
    'confidence': "confidence", 'query': "query", 'error': "error", 'period': "period"
}));

COMMENT ON MACRO TABLE dp_explain_prefix_tree IS 'What dp_prefix_tree with these arguments would do: quantity, value, meaning. Spends nothing and reads no data. error in the place of epsilon finds the smallest one whose intervals are at most so wide to each side: a number, or numbers by the name of a measure';
