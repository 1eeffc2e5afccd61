-- Synthetic rows. dpframe.register(con) runs this file on a connection.

CREATE OR REPLACE TEMP MACRO dp_synthesize(
    tbl := NULL, columns := NULL, n := NULL, epsilon := NULL, k := NULL, width := NULL,
    "rows" := NULL, depth := NULL, "keys" := NULL, split := NULL, "user" := NULL,
    max_contributions := NULL, release := NULL, query := NULL, data := NULL
) AS TABLE
FROM query(system.main.__dpframe_synthesize(
    temp.__dpframe_here(), current_setting('search_path'), tbl, query, release, data, n, columns,
    epsilon, k, width, "rows", depth, "keys", split, "user",
    max_contributions
));

COMMENT ON MACRO TABLE dp_synthesize IS 'n synthetic rows like those of a table (or query), differentially private, with the names and types of the columns. Counts and charges each time it runs, unless release names it: then rows are drawn for free from what is stored; data names the state of the data';

CREATE OR REPLACE TEMP MACRO dp_explain_synthesize(
    tbl := NULL, columns := NULL, epsilon := NULL, k := NULL, width := NULL, "rows" := NULL,
    depth := NULL, "keys" := NULL, split := NULL, "user" := NULL, max_contributions := NULL,
    query := NULL
) AS TABLE
FROM query(system.main.__dpframe_explain_synthesize(
    temp.__dpframe_here(), current_setting('search_path'), tbl, query, NULL, columns, epsilon, k,
    width, "rows", depth, "keys", split, "user",
    max_contributions
));

COMMENT ON MACRO TABLE dp_explain_synthesize IS 'What dp_synthesize with these arguments would do: quantity, value, meaning. Spends nothing and reads no data';
