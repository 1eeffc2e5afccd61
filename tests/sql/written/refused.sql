-- # What is mostly refused

-- Rows, not groups
-- refused: query shows rows of a private table. Group them: SELECT column, count(*) FROM ... GROUP BY column.
SELECT * FROM sales WHERE country = 'FR';

-- Texts put together
-- refused: string_agg(product, ', ') (line 1, column 17): string_agg has no private form. Ask count, sum, avg, median or quantile_cont.
SELECT country, string_agg(product, ', ') FROM sales GROUP BY country;

-- A value of any row
-- refused: any_value(product) (line 1, column 17): any_value has no private form. Ask count, sum, avg, median or quantile_cont.
SELECT country, any_value(product) FROM sales GROUP BY country;

-- The value of the largest row
-- refused: arg_max(product, amount) (line 1, column 17): arg_max has no private form. Ask count, sum, avg, median or quantile_cont.
SELECT country, arg_max(product, amount) FROM sales GROUP BY country;

-- A self join
-- refused: JOIN sales b ON a.customer_id = b.cus... (line 1, column 41): a second private table is not read: a record could meet many others. Join public tables only, or join before you ask.
SELECT a.country, count(*) FROM sales a JOIN sales b ON a.customer_id = b.customer_id GROUP BY a.country;

-- A list of customers by a subquery
-- refused: (SELECT customer_id FROM sales WHERE ... (line 1, column 58): a subquery beside private rows is not read. JOIN a public table by its key.
SELECT country, count(*) FROM sales WHERE customer_id IN (SELECT customer_id FROM sales WHERE amount > 400) GROUP BY country;

-- A value compared with the mean of all
-- refused: (SELECT avg(amount) FROM sales) (line 1, column 52): a subquery beside private rows is not read. JOIN a public table by its key.
SELECT country, count(*) FROM sales WHERE amount > (SELECT avg(amount) FROM sales) GROUP BY country;

-- LIMIT before the grouping
-- refused: ordered_at (line 1, column 61): LIMIT before the grouping would let one row decide about others. Write it after the grouping.
SELECT country, count(*) FROM (SELECT * FROM sales ORDER BY ordered_at LIMIT 1000) GROUP BY country;

-- DISTINCT before the grouping
-- by: country; customer_id
-- differs: groups of few records are missing
-- refused by user: customer_id (line 1, column 57): a group of one user is never shown. Ask count(DISTINCT customer_id).
SELECT country, count(*) FROM (SELECT DISTINCT country, customer_id FROM sales) GROUP BY country;

-- A sum of distinct values
-- refused: sum(DISTINCT amount) (line 1, column 17): only count(DISTINCT column) is measured. Leave DISTINCT out.
SELECT country, sum(DISTINCT amount) FROM sales GROUP BY country;

-- A function that is not known to be of one row
-- refused: random() (line 1, column 43): function random is not read here. Compute the column before you ask.
SELECT country, count(*) FROM sales WHERE random() < 0.1 GROUP BY country;

-- A sample
-- refused: sales TABLESAMPLE 10 PERCENT (line 1, column 31): a sample is not read. Name the table alone.
SELECT country, count(*) FROM sales TABLESAMPLE 10 PERCENT GROUP BY country;

-- A file
-- refused: read_csv('sales.csv') (line 1, column 22): a table function is not read. Name a table, and pass its rows.
SELECT count(*) FROM read_csv('sales.csv');

-- A table that was not named
-- refused: sale (line 1, column 22): there is no table 'sale'. Did you mean 'sales'?
SELECT count(*) FROM sale;

-- A column that is not there
-- refused: query cannot be bound: Binder Error: Referenced column "county" not found in FROM clause.
SELECT county, count(*) FROM sales GROUP BY county;

-- A sum without bounds
-- refused: sum(store_id) (line 1, column 17): bounds are missing, the least and most that a row has. Pass bounds={'store_id': (LOWEST, HIGHEST)}.
-- refused by user: sum(store_id) (line 1, column 17): bounds are missing, the least and most that a user has at a row of the result. Pass bounds={'store_id': (LOWEST, HIGHEST)}.
SELECT country, sum(store_id) FROM sales GROUP BY country;

-- A comparison of ranges as a join
-- refused: s.ordered_at >= t.opened_on (line 1, column 57): a public table is joined by its key alone. Write ON private.key = public.key, and conditions in WHERE.
SELECT t.region, count(*) FROM sales s JOIN stores t ON s.ordered_at >= t.opened_on GROUP BY t.region;

-- A full join
-- refused: FULL JOIN stores t ON s.store_id = t.... (line 1, column 40): this join could make rows that no record has. Write LEFT JOIN ... ON private.key = public.key.
SELECT t.region, count(*) FROM sales s FULL JOIN stores t ON s.store_id = t.store_id GROUP BY t.region;

-- Groups of a private table, and groups of it again
-- refused: 'all' (line 1, column 71): private rows are grouped a second time. Ask once, by GROUP BY ROLLUP, or ask twice.
SELECT country, count(*) FROM sales GROUP BY country UNION ALL SELECT 'all', count(*) FROM sales;

-- Groups of people, and groups of the groups
-- by: customer_id
-- of: rows
-- differs: groups of few records are missing
-- refused by user: customer_id (line 1, column 103): a group of one user is never shown. Ask count(DISTINCT customer_id).
SELECT orders, count(*) AS customers FROM (SELECT customer_id, count(*) AS orders FROM sales GROUP BY customer_id) GROUP BY orders;

-- A window over rows
-- refused: query shows rows of a private table. Group them: SELECT column, count(*) FROM ... GROUP BY column.
SELECT country, sum(amount) OVER (PARTITION BY country) FROM sales;

-- A change of the data
-- refused: query cannot be parsed: it is no SELECT. Write one SELECT.
DELETE FROM sales;

-- A correlation
-- refused: corr(amount, quantity) (line 1, column 17): corr has no private form. Ask count, sum, avg, median or quantile_cont.
SELECT country, corr(amount, quantity) FROM sales GROUP BY country;

-- The most frequent value
-- refused: mode(product) (line 1, column 17): mode has no private form. Ask count, sum, avg, median or quantile_cont.
SELECT country, mode(product) FROM sales GROUP BY country;

-- Only public tables
-- refused: query reads no private table. Ask DuckDB itself.
SELECT region, count(*) FROM stores GROUP BY region;

-- Two queries
-- refused: query has 2 statements. Write one SELECT.
SELECT count(*) FROM sales; SELECT sum(amount) FROM sales;
