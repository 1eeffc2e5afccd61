-- The ledger of this connection. dpframe.register(con, ledger=...) runs this file.

CREATE OR REPLACE TEMP MACRO dp_budget() AS TABLE
FROM query(system.main.__dpframe_ledger(temp.__dpframe_here(), 'budget'));

COMMENT ON MACRO TABLE dp_budget IS 'The budget of the ledger: one row with totals, spent, left, the plain sum and what the accountant saves; no row without a ledger';

CREATE OR REPLACE TEMP MACRO dp_releases() AS TABLE
FROM query(system.main.__dpframe_ledger(temp.__dpframe_here(), 'releases'));

COMMENT ON MACRO TABLE dp_releases IS 'Every release charged to the ledger, oldest first, with its receipt as JSON; without a ledger those of this connection';
