-- The frequent values of one column, with noisy counts, differentially private.
-- dpframe.register(con) runs this file on a connection.
-- Written by `python -m dpframe.doors.sql.macros` from the declaration of dp.heavy_hitters.

CREATE OR REPLACE TEMP MACRO dp_heavy_hitters(
    "tbl" := NULL, "column" := NULL, "k" := NULL, "epsilon" := NULL, "delta" := NULL,
    "threshold" := NULL, "user" := NULL, "contribution" := NULL, "max_contributions" := NULL,
    "mechanism" := NULL, "release_share" := NULL, "confidence" := NULL, "counters" := NULL,
    "release" := NULL, "query" := NULL, "data" := NULL, "period" := NULL, "at_most" := NULL
) AS TABLE
FROM query(system.main.__dpframe_ask(
    temp.__dpframe_here(), current_setting('search_path'), 'heavy_hitters', {
    'tbl': "tbl", 'column': "column", 'k': "k", 'epsilon': "epsilon", 'delta': "delta",
    'threshold': "threshold", 'user': "user", 'contribution': "contribution",
    'max_contributions': "max_contributions", 'mechanism': "mechanism",
    'release_share': "release_share", 'confidence': "confidence", 'counters': "counters",
    'release': "release", 'query': "query", 'data': "data", 'period': "period", 'at_most': "at_most"
}));

COMMENT ON MACRO TABLE dp_heavy_hitters IS 'The frequent values of one column, with noisy counts, differentially private: the column, count, lower, upper, largest first. Of a table (tbl) or of a query. Draws and charges each time it runs, unless release names it; data names the state of the data. Arguments as for dp.heavy_hitters in Python';

CREATE OR REPLACE TEMP MACRO dp_explain_heavy_hitters(
    "tbl" := NULL, "column" := NULL, "k" := NULL, "epsilon" := NULL, "delta" := NULL,
    "threshold" := NULL, "user" := NULL, "contribution" := NULL, "max_contributions" := NULL,
    "mechanism" := NULL, "release_share" := NULL, "confidence" := NULL, "counters" := NULL,
    "query" := NULL, "error" := NULL, "period" := NULL, "at_most" := NULL
) AS TABLE
FROM query(system.main.__dpframe_explain(
    temp.__dpframe_here(), current_setting('search_path'), 'heavy_hitters', {
    'tbl': "tbl", 'column': "column", 'k': "k", 'epsilon': "epsilon", 'delta': "delta",
    'threshold': "threshold", 'user': "user", 'contribution': "contribution",
    'max_contributions': "max_contributions", 'mechanism': "mechanism",
    'release_share': "release_share", 'confidence': "confidence", 'counters': "counters",
    'query': "query", 'error': "error", 'period': "period", 'at_most': "at_most"
}));

COMMENT ON MACRO TABLE dp_explain_heavy_hitters IS 'What dp_heavy_hitters with these arguments would do: quantity, value, meaning. Spends nothing and reads no data. error in the place of epsilon finds the smallest one whose intervals are at most so wide to each side: a number, or numbers by the name of a measure';
