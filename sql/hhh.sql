-- Hierarchical heavy hitters, differentially private.
-- dpframe.register(con) runs this file on a connection.
-- Written by `python -m dpframe.doors.sql.macros` from the declaration of dp.hhh.

CREATE OR REPLACE TEMP MACRO dp_hhh(
    "tbl" := NULL, "hierarchy" := NULL, "epsilon" := NULL, "delta" := NULL, "threshold" := NULL,
    "user" := NULL, "contribution" := NULL, "max_contributions" := NULL, "mechanism" := NULL,
    "remainder" := NULL, "release_share" := NULL, "confidence" := NULL, "acknowledge" := NULL,
    "counters" := NULL, "release" := NULL, "query" := NULL, "data" := NULL, "weight" := NULL,
    "max_weight" := NULL, "period" := NULL, "totals" := NULL, "at_most" := NULL,
    "nodes_per_user" := NULL
) AS TABLE
FROM query(system.main.__dpframe_ask(
    temp.__dpframe_here(), current_setting('search_path'), 'hhh', {
    'tbl': "tbl", 'hierarchy': "hierarchy", 'epsilon': "epsilon", 'delta': "delta",
    'threshold': "threshold", 'user': "user", 'contribution': "contribution",
    'max_contributions': "max_contributions", 'mechanism': "mechanism", 'remainder': "remainder",
    'release_share': "release_share", 'confidence': "confidence", 'acknowledge': "acknowledge",
    'counters': "counters", 'release': "release", 'query': "query", 'data': "data",
    'weight': "weight", 'max_weight': "max_weight", 'period': "period", 'totals': "totals",
    'at_most': "at_most", 'nodes_per_user': "nodes_per_user"
}));

COMMENT ON MACRO TABLE dp_hhh IS 'Hierarchical heavy hitters, differentially private: level, prefix, residual, count, lower, upper. Of a table (tbl) or of a query. Draws and charges each time it runs, unless release names it; data names the state of the data. Arguments as for dp.hhh in Python';

CREATE OR REPLACE TEMP MACRO dp_explain(
    "tbl" := NULL, "hierarchy" := NULL, "epsilon" := NULL, "delta" := NULL, "threshold" := NULL,
    "user" := NULL, "contribution" := NULL, "max_contributions" := NULL, "mechanism" := NULL,
    "remainder" := NULL, "release_share" := NULL, "confidence" := NULL, "acknowledge" := NULL,
    "counters" := NULL, "query" := NULL, "weight" := NULL, "max_weight" := NULL, "error" := NULL,
    "period" := NULL, "totals" := NULL, "at_most" := NULL, "nodes_per_user" := NULL
) AS TABLE
FROM query(system.main.__dpframe_explain(
    temp.__dpframe_here(), current_setting('search_path'), 'hhh', {
    'tbl': "tbl", 'hierarchy': "hierarchy", 'epsilon': "epsilon", 'delta': "delta",
    'threshold': "threshold", 'user': "user", 'contribution': "contribution",
    'max_contributions': "max_contributions", 'mechanism': "mechanism", 'remainder': "remainder",
    'release_share': "release_share", 'confidence': "confidence", 'acknowledge': "acknowledge",
    'counters': "counters", 'query': "query", 'weight': "weight", 'max_weight': "max_weight",
    'error': "error", 'period': "period", 'totals': "totals", 'at_most': "at_most",
    'nodes_per_user': "nodes_per_user"
}));

COMMENT ON MACRO TABLE dp_explain IS 'What dp_hhh with these arguments would do: quantity, value, meaning. Spends nothing and reads no data. error in the place of epsilon finds the smallest one whose intervals are at most so wide to each side: a number, or numbers by the name of a measure';
