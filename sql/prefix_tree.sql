-- Frequent items of users' devices. dpframe.register(con) runs this file on a connection.

CREATE OR REPLACE TEMP MACRO dp_prefix_tree(
    tbl := NULL, "column" := NULL, epsilon := NULL, delta := NULL, "user" := NULL,
    devices := NULL, iterations := NULL, rounds := NULL, "length" := NULL, "limit" := NULL,
    segments := NULL, false_positives := NULL, selection := NULL, conditioned := NULL,
    "encoding" := NULL, alphabet := NULL, "public" := NULL, deny := NULL, participation := NULL,
    mechanism := NULL, accountant := NULL, neighbours := NULL, confidence := NULL, release := NULL,
    query := NULL, data := NULL
) AS TABLE
FROM query(system.main.__dpframe_prefix_tree(
    temp.__dpframe_here(), current_setting('search_path'), tbl, query, release, data, "column",
    epsilon, delta, "user", devices, iterations, rounds, "length", "limit", segments, false_positives,
    selection, conditioned, "encoding", alphabet, "public", deny, participation, mechanism,
    accountant, neighbours, confidence
));

COMMENT ON MACRO TABLE dp_prefix_tree IS 'Frequent items of the users of a table (or query), each a device that answers with randomised reports, differentially private: the column, count, lower, upper, largest first. Counts and charges each time it runs, unless release names it; data names the state of the data';

CREATE OR REPLACE TEMP MACRO dp_explain_prefix_tree(
    tbl := NULL, "column" := NULL, epsilon := NULL, delta := NULL, "user" := NULL,
    devices := NULL, iterations := NULL, rounds := NULL, "length" := NULL, "limit" := NULL,
    segments := NULL, false_positives := NULL, selection := NULL, conditioned := NULL,
    "encoding" := NULL, alphabet := NULL, "public" := NULL, deny := NULL, participation := NULL,
    mechanism := NULL, accountant := NULL, neighbours := NULL, confidence := NULL, query := NULL
) AS TABLE
FROM query(system.main.__dpframe_explain_prefix_tree(
    temp.__dpframe_here(), current_setting('search_path'), tbl, query, NULL, "column", epsilon,
    delta, "user", devices, iterations, rounds, "length", "limit", segments, false_positives,
    selection, conditioned, "encoding", alphabet, "public", deny, participation, mechanism,
    accountant, neighbours, confidence
));

COMMENT ON MACRO TABLE dp_explain_prefix_tree IS 'What dp_prefix_tree with these arguments would do for so many devices: quantity, value, meaning. Spends nothing and reads no data';
