-- Frequent values of a flat column. dpframe.register(con) runs this file on a connection.

CREATE OR REPLACE TEMP MACRO dp_heavy_hitters(
    tbl := NULL, "column" := NULL, k := NULL, epsilon := NULL, delta := NULL, threshold := NULL,
    "user" := NULL, contribution := NULL, max_contributions := NULL, mechanism := NULL,
    release_share := NULL, confidence := NULL, counters := NULL, release := NULL, query := NULL,
    data := NULL
) AS TABLE
FROM query(system.main.__dpframe_heavy(
    temp.__dpframe_here(), current_setting('search_path'), tbl, query, release, data, k, "column",
    epsilon, delta, threshold, "user", contribution, max_contributions, mechanism, NULL,
    release_share, confidence, NULL, counters
));

COMMENT ON MACRO TABLE dp_heavy_hitters IS 'Frequent values of one column of a table (or query), differentially private: the column, count, lower, upper, largest first, at most k. Draws and charges each time it runs, unless release names it; data names the state of the data';
