-- Counts of all nodes of a hierarchy, differentially private, that add up.
-- dpframe.register(con) runs this file on a connection.
-- Written by `python -m dpframe.doors.sql.macros` from the declaration of dp.tree_counts.

CREATE OR REPLACE TEMP MACRO dp_tree_counts(
    "tbl" := NULL, "hierarchy" := NULL, "epsilon" := NULL, "delta" := NULL, "keys" := NULL,
    "user" := NULL, "contribution" := NULL, "max_contributions" := NULL, "weight" := NULL,
    "max_weight" := NULL, "mechanism" := NULL, "level_weights" := NULL, "threshold" := NULL,
    "consistent" := NULL, "confidence" := NULL, "alpha" := NULL, "largest" := NULL,
    "release" := NULL, "query" := NULL, "data" := NULL, "period" := NULL, "at_most" := NULL
) AS TABLE
FROM query(system.main.__dpframe_ask(
    temp.__dpframe_here(), current_setting('search_path'), 'tree_counts', {
    'tbl': "tbl", 'hierarchy': "hierarchy", 'epsilon': "epsilon", 'delta': "delta", 'keys': "keys",
    'user': "user", 'contribution': "contribution", 'max_contributions': "max_contributions",
    'weight': "weight", 'max_weight': "max_weight", 'mechanism': "mechanism",
    'level_weights': "level_weights", 'threshold': "threshold", 'consistent': "consistent",
    'confidence': "confidence", 'alpha': "alpha", 'largest': "largest", 'release': "release",
    'query': "query", 'data': "data", 'period': "period", 'at_most': "at_most"
}));

COMMENT ON MACRO TABLE dp_tree_counts IS 'Counts of all nodes of a hierarchy, differentially private, that add up: level, prefix, residual, count, lower, upper. Of a table (tbl) or of a query. Draws and charges each time it runs, unless release names it; data names the state of the data. Arguments as for dp.tree_counts in Python';

CREATE OR REPLACE TEMP MACRO dp_explain_tree_counts(
    "tbl" := NULL, "hierarchy" := NULL, "epsilon" := NULL, "delta" := NULL, "keys" := NULL,
    "user" := NULL, "contribution" := NULL, "max_contributions" := NULL, "weight" := NULL,
    "max_weight" := NULL, "mechanism" := NULL, "level_weights" := NULL, "threshold" := NULL,
    "consistent" := NULL, "confidence" := NULL, "alpha" := NULL, "largest" := NULL, "query" := NULL,
    "error" := NULL, "period" := NULL, "at_most" := NULL
) AS TABLE
FROM query(system.main.__dpframe_explain(
    temp.__dpframe_here(), current_setting('search_path'), 'tree_counts', {
    'tbl': "tbl", 'hierarchy': "hierarchy", 'epsilon': "epsilon", 'delta': "delta", 'keys': "keys",
    'user': "user", 'contribution': "contribution", 'max_contributions': "max_contributions",
    'weight': "weight", 'max_weight': "max_weight", 'mechanism': "mechanism",
    'level_weights': "level_weights", 'threshold': "threshold", 'consistent': "consistent",
    'confidence': "confidence", 'alpha': "alpha", 'largest': "largest", 'query': "query",
    'error': "error", 'period': "period", 'at_most': "at_most"
}));

COMMENT ON MACRO TABLE dp_explain_tree_counts IS 'What dp_tree_counts with these arguments would do: quantity, value, meaning. Spends nothing and reads no data. error in the place of epsilon finds the smallest one whose intervals are at most so wide to each side: a number, or numbers by the name of a measure';
