-- Queries in SQL, answered privately.
-- dpframe.register(con) runs this file.

CREATE OR REPLACE TEMP MACRO dp_sql(
    "query" := NULL, "epsilon" := NULL, "delta" := NULL, "user" := NULL, "bounds" := NULL,
    "public" := NULL, "intervals" := NULL, "threshold" := NULL, "confidence" := NULL,
    "release" := NULL, "data" := NULL
) AS TABLE
FROM query(system.main.__dpframe_sql(
    temp.__dpframe_here(), current_setting('search_path'), {
    'query': "query", 'epsilon': "epsilon", 'delta': "delta", 'user': "user", 'bounds': "bounds",
    'public': "public", 'intervals': "intervals", 'threshold': "threshold",
    'confidence': "confidence", 'release': "release", 'data': "data"
}));

COMMENT ON MACRO TABLE dp_sql IS 'The answer to a query in SQL, differentially private: the columns of the query, and for each aggregate its name_lower and name_upper. The query is one SELECT that groups the rows of one table; public lists the tables that it may join by their keys. Draws and charges each time it runs, unless release names it. Arguments as for dp.sql in Python';

CREATE OR REPLACE TEMP MACRO dp_explain_sql(
    "query" := NULL, "epsilon" := NULL, "delta" := NULL, "user" := NULL, "bounds" := NULL,
    "public" := NULL, "intervals" := NULL, "threshold" := NULL, "confidence" := NULL,
    "error" := NULL
) AS TABLE
FROM query(system.main.__dpframe_explain_sql(
    temp.__dpframe_here(), current_setting('search_path'), {
    'query': "query", 'epsilon': "epsilon", 'delta': "delta", 'user': "user", 'bounds': "bounds",
    'public': "public", 'intervals': "intervals", 'threshold': "threshold",
    'confidence': "confidence", 'error': "error"
}));

COMMENT ON MACRO TABLE dp_explain_sql IS 'What dp_sql with these arguments would do: quantity, value, meaning. Spends nothing. error in the place of epsilon finds the smallest one whose intervals are at most so wide to each side';
