-- Counts, sums and means at every level of a hierarchy, differentially private.
-- dpframe.register(con) runs this file on a connection.
-- Written by `python -m dpframe.doors.sql.macros` from the declaration of dp.rollup.

CREATE OR REPLACE TEMP MACRO dp_rollup(
    "tbl" := NULL, "by" := NULL, "measures" := NULL, "epsilon" := NULL, "delta" := NULL,
    "user" := NULL, "threshold" := NULL, "keys" := NULL, "selection_share" := NULL,
    "confidence" := NULL, "release" := NULL, "query" := NULL, "data" := NULL, "heavy" := NULL,
    "period" := NULL, "contribution" := NULL, "level_importance" := NULL
) AS TABLE
FROM query(system.main.__dpframe_ask(
    temp.__dpframe_here(), current_setting('search_path'), 'rollup', {
    'tbl': "tbl", 'by': "by", 'measures': "measures", 'epsilon': "epsilon", 'delta': "delta",
    'user': "user", 'threshold': "threshold", 'keys': "keys", 'selection_share': "selection_share",
    'confidence': "confidence", 'release': "release", 'query': "query", 'data': "data",
    'heavy': "heavy", 'period': "period", 'contribution': "contribution",
    'level_importance': "level_importance"
}));

COMMENT ON MACRO TABLE dp_rollup IS 'Counts, sums and means at every level of a hierarchy, differentially private: level, prefix, a column a level, and for every measure its name, name_lower, name_upper. Of a table (tbl) or of a query. Draws and charges each time it runs, unless release names it; data names the state of the data. Arguments as for dp.rollup in Python';

CREATE OR REPLACE TEMP MACRO dp_explain_rollup(
    "tbl" := NULL, "by" := NULL, "measures" := NULL, "epsilon" := NULL, "delta" := NULL,
    "user" := NULL, "threshold" := NULL, "keys" := NULL, "selection_share" := NULL,
    "confidence" := NULL, "query" := NULL, "heavy" := NULL, "error" := NULL, "period" := NULL,
    "contribution" := NULL, "level_importance" := NULL
) AS TABLE
FROM query(system.main.__dpframe_explain(
    temp.__dpframe_here(), current_setting('search_path'), 'rollup', {
    'tbl': "tbl", 'by': "by", 'measures': "measures", 'epsilon': "epsilon", 'delta': "delta",
    'user': "user", 'threshold': "threshold", 'keys': "keys", 'selection_share': "selection_share",
    'confidence': "confidence", 'query': "query", 'heavy': "heavy", 'error': "error",
    'period': "period", 'contribution': "contribution", 'level_importance': "level_importance"
}));

COMMENT ON MACRO TABLE dp_explain_rollup IS 'What dp_rollup with these arguments would do: quantity, value, meaning. Spends nothing and reads no data. error in the place of epsilon finds the smallest one whose intervals are at most so wide to each side: a number, or numbers by the name of a measure';
