-- What each release of a series should ask for, so that all of them stay within one total.
-- dpframe.register(con) runs this file.

CREATE OR REPLACE TEMP MACRO dp_plan_series(
    "question" := NULL, "about" := NULL, "releases" := NULL, "epsilon" := NULL, "delta" := NULL,
    "arguments" := NULL
) AS TABLE
FROM query(system.main.__dpframe_plan_series({
    'question': "question", 'about': "about", 'releases': "releases", 'epsilon': "epsilon",
    'delta': "delta", 'arguments': "arguments"
}));

COMMENT ON MACRO TABLE dp_plan_series IS 'The ways to make so many releases of a question within (epsilon, delta): way, chosen, mechanism, epsilon, delta and threshold of one release, half_width, half_width_so_far of running totals, shown_from, epsilon and delta of all together, meaning. Spends nothing and reads no data. arguments are those of every release, as a struct: {''user'': ''household''}. As dp.plan_series in Python, where a ledger reserves them';
