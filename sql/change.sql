-- What changed between two releases that the ledger of this connection keeps.
-- dpframe.register(con, ledger=...) runs this file.

CREATE OR REPLACE TEMP MACRO dp_change(
    "before" := NULL, "after" := NULL, "measure" := NULL, "confidence" := NULL,
    "simultaneous" := NULL
) AS TABLE
FROM query(system.main.__dpframe_change(temp.__dpframe_here(), {
    'before': "before", 'after': "after", 'measure': "measure", 'confidence': "confidence",
    'simultaneous': "simultaneous"
}));

COMMENT ON MACRO TABLE dp_change IS 'What changed between two releases, by their names in the ledger: level, prefix, a column a level, before, after, change and ratio with their intervals, and more_than_noise. Free: charges nothing and reads no data. Arguments as for dp.change in Python';
