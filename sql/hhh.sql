-- Hierarchical heavy hitters. dpframe.register(con) runs this file on a connection.

CREATE OR REPLACE TEMP MACRO dp_hhh(
    tbl := NULL, hierarchy := NULL, epsilon := NULL, delta := NULL, threshold := NULL,
    "user" := NULL, contribution := NULL, max_contributions := NULL, mechanism := NULL,
    remainder := NULL, release_share := NULL, confidence := NULL, acknowledge := NULL,
    counters := NULL, release := NULL, query := NULL, data := NULL
) AS TABLE
FROM query(system.main.__dpframe_hhh(
    temp.__dpframe_here(), current_setting('search_path'), tbl, query, release, data, hierarchy,
    epsilon, delta, threshold, "user", contribution, max_contributions, mechanism, remainder, release_share,
    confidence, acknowledge, counters
));

COMMENT ON MACRO TABLE dp_hhh IS 'Hierarchical heavy hitters of a table (or query), differentially private: level, prefix, residual, count, lower, upper. Draws and charges each time it runs, unless release names it; data names the state of the data. See SELECT * FROM dp_functions()';

CREATE OR REPLACE TEMP MACRO dp_explain(
    tbl := NULL, hierarchy := NULL, epsilon := NULL, delta := NULL, threshold := NULL,
    "user" := NULL, contribution := NULL, max_contributions := NULL, mechanism := NULL,
    remainder := NULL, release_share := NULL, confidence := NULL, acknowledge := NULL,
    counters := NULL, query := NULL
) AS TABLE
FROM query(system.main.__dpframe_explain(
    temp.__dpframe_here(), current_setting('search_path'), tbl, query, NULL, hierarchy, epsilon,
    delta, threshold, "user", contribution, max_contributions, mechanism, remainder, release_share,
    confidence, acknowledge, counters
));

COMMENT ON MACRO TABLE dp_explain IS 'What dp_hhh with these arguments would do: quantity, value, meaning. Spends nothing and reads no data';
