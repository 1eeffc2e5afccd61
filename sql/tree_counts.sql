-- Counts of all nodes of a hierarchy. dpframe.register(con) runs this file on a connection.

CREATE OR REPLACE TEMP MACRO dp_tree_counts(
    tbl := NULL, hierarchy := NULL, epsilon := NULL, delta := NULL, "keys" := NULL,
    "user" := NULL, contribution := NULL, max_contributions := NULL, weight := NULL,
    max_weight := NULL, mechanism := NULL, level_weights := NULL, threshold := NULL,
    consistent := NULL, confidence := NULL, alpha := NULL, largest := NULL, release := NULL,
    query := NULL, data := NULL
) AS TABLE
FROM query(system.main.__dpframe_tree_counts(
    temp.__dpframe_here(), current_setting('search_path'), tbl, query, release, data, hierarchy,
    epsilon, delta, "keys", "user", contribution, max_contributions, weight, max_weight, mechanism,
    level_weights, threshold, consistent, confidence, alpha, largest
));

COMMENT ON MACRO TABLE dp_tree_counts IS 'Counts of all nodes of a table (or query), differentially private, that add up: level, prefix, residual, count, lower, upper. Draws and charges each time it runs, unless release names it; data names the state of the data. See SELECT * FROM dp_functions()';

CREATE OR REPLACE TEMP MACRO dp_explain_tree_counts(
    tbl := NULL, hierarchy := NULL, epsilon := NULL, delta := NULL, "keys" := NULL,
    "user" := NULL, contribution := NULL, max_contributions := NULL, weight := NULL,
    max_weight := NULL, mechanism := NULL, level_weights := NULL, threshold := NULL,
    consistent := NULL, confidence := NULL, alpha := NULL, largest := NULL, query := NULL
) AS TABLE
FROM query(system.main.__dpframe_explain_tree(
    temp.__dpframe_here(), current_setting('search_path'), tbl, query, NULL, hierarchy, epsilon,
    delta, "keys", "user", contribution, max_contributions, weight, max_weight, mechanism,
    level_weights, threshold, consistent, confidence, alpha, largest
));

COMMENT ON MACRO TABLE dp_explain_tree_counts IS 'What dp_tree_counts with these arguments would do: quantity, value, meaning. Spends nothing and reads no data';
