-- # Analysts

-- Rows of the table
-- of: rows
SELECT count(*) FROM sales;

-- Several totals without GROUP BY
-- of: rows; sum amount; mean amount; people
SELECT count(*) AS orders, sum(amount) AS revenue, avg(amount) AS ticket, count(DISTINCT customer_id) AS customers FROM sales;

-- A number to group by
-- by: country
-- of: rows
SELECT country, count(*) FROM sales GROUP BY 1 ORDER BY 2 DESC;

-- GROUP BY ALL
-- by: country; channel
-- of: rows
SELECT country, channel, count(*) AS orders FROM sales GROUP BY ALL ORDER BY ALL;

-- FROM before SELECT
-- by: country
-- of: sum amount
FROM sales SELECT country, sum(amount) AS revenue GROUP BY country;

-- ROLLUP of two columns
-- by: country; product
-- levels: rollup
-- of: rows; sum amount
SELECT country, product, count(*) AS orders, sum(amount) AS revenue FROM sales GROUP BY ROLLUP (country, product) ORDER BY country NULLS FIRST, product NULLS FIRST;

-- ROLLUP of three columns
-- few: phone in NL
-- by: country; category; channel
-- levels: rollup
-- of: rows
SELECT country, category, channel, count(*) AS orders FROM sales GROUP BY ROLLUP (country, category, channel);

-- ROLLUP with GROUPING, which tells totals from missing values
-- by: country; channel
-- levels: rollup
-- of: rows
SELECT country, channel, GROUPING(country, channel) AS level, count(*) AS orders FROM sales GROUP BY ROLLUP (country, channel) ORDER BY level, country, channel;

-- ROLLUP of months within a year
-- by: year = extract(year FROM ordered_at); month = date_trunc('month', ordered_at)
-- levels: rollup
-- of: sum amount
SELECT year(ordered_at) AS year, date_trunc('month', ordered_at) AS month, sum(amount) AS revenue FROM sales GROUP BY ROLLUP (year(ordered_at), date_trunc('month', ordered_at));

-- Totals named by COALESCE
-- by: category
-- levels: rollup
-- of: sum amount
SELECT coalesce(category, 'all') AS category_or_all, sum(amount) AS revenue FROM sales GROUP BY ROLLUP (category) ORDER BY revenue DESC;

-- CUBE of two columns
-- by: country; category
-- levels: country, category / country / category / ()
-- of: rows; sum amount
SELECT country, category, count(*) AS orders, sum(amount) AS revenue FROM sales GROUP BY CUBE (country, category);

-- CUBE of three columns
-- by: country; category; channel
-- levels: country, category, channel / country, category / country, channel / category, channel / country / category / channel / ()
-- of: rows
-- only: record
SELECT country, category, channel, count(*) AS orders FROM sales GROUP BY CUBE (country, category, channel);

-- GROUPING SETS of single columns
-- by: country; category
-- levels: country / category
-- of: rows
SELECT country, category, count(*) AS orders FROM sales GROUP BY GROUPING SETS ((country), (category));

-- GROUPING SETS with the total
-- by: country; channel
-- levels: country, channel / channel / ()
-- of: sum amount
SELECT country, channel, sum(amount) AS revenue FROM sales GROUP BY GROUPING SETS ((country, channel), (channel), ());

-- GROUPING SETS that are a ROLLUP
-- by: country; category
-- levels: rollup
-- of: rows; quantile 0.5 amount
-- near: 0.05
SELECT country, category, count(*) AS orders, median(amount) AS middle FROM sales GROUP BY GROUPING SETS ((country, category), (country), ());

-- A level and the finer one, without the total
-- by: country; category
-- levels: country, category / country
-- of: rows
SELECT country, category, count(*) AS orders FROM sales GROUP BY GROUPING SETS ((country), (country, category));

-- A column beside a ROLLUP
-- by: country; category
-- levels: country, category / country
-- of: sum amount
SELECT country, category, sum(amount) AS revenue FROM sales GROUP BY country, ROLLUP (category);

-- FILTER beside the whole
-- by: country
-- of: rows; rows if channel = 'web'
SELECT country, count(*) AS orders, count(*) FILTER (WHERE channel = 'web') AS web FROM sales GROUP BY country;

-- FILTER of a sum
-- by: country
-- of: sum amount if channel = 'web'; sum amount
SELECT country, sum(amount) FILTER (WHERE channel = 'web') / sum(amount) AS web_share FROM sales GROUP BY country;

-- FILTER of people
-- by: country
-- of: people if amount > 100
SELECT country, count(DISTINCT customer_id) FILTER (WHERE amount > 100) AS customers FROM sales GROUP BY country;

-- CASE as a count
-- by: country
-- of: rows if channel = 'web'
SELECT country, count(CASE WHEN channel = 'web' THEN 1 END) AS web FROM sales GROUP BY country;

-- CASE as a sum of ones
-- by: country
-- of: sum [0, 1] CASE WHEN amount > 100 THEN 1 ELSE 0 END
SELECT country, sum(CASE WHEN amount > 100 THEN 1 ELSE 0 END) AS large FROM sales GROUP BY country;

-- A rate as a mean of ones
-- differs by user: each person weighs 1
-- by: country
-- of: mean [0, 1] CASE WHEN amount > 100 THEN 1.0 ELSE 0.0 END
SELECT country, avg(CASE WHEN amount > 100 THEN 1.0 ELSE 0.0 END) AS rate FROM sales GROUP BY country;

-- A count of values that are there
-- by: country
-- of: rows if channel IS NOT NULL
SELECT country, count(channel) AS known FROM sales GROUP BY country;

-- The distinct products that sell
-- by: country
-- of: distinct product
SELECT country, count(DISTINCT product) AS products FROM sales GROUP BY country;

-- A ratio of aggregates
-- by: category
-- of: sum amount; sum quantity
SELECT category, sum(amount) / sum(quantity) AS price FROM sales GROUP BY category ORDER BY price DESC;

-- A percentage, rounded
-- differs by user: noise of small groups moves it
-- by: country
-- of: rows if channel = 'store'; rows
SELECT country, round(100.0 * count(*) FILTER (WHERE channel = 'store') / count(*), 1) AS percent FROM sales GROUP BY country ORDER BY country;

-- A share of the whole by a window
-- by: country
-- of: sum amount
SELECT country, sum(amount) / sum(sum(amount)) OVER () AS share FROM sales GROUP BY country ORDER BY share DESC;

-- A share within a group
-- by: country; category
-- of: sum amount
SELECT country, category, sum(amount) / sum(sum(amount)) OVER (PARTITION BY country) AS share FROM sales GROUP BY country, category ORDER BY country, category;

-- A rank of groups
-- by: product
-- of: sum amount
SELECT product, rank() OVER (ORDER BY sum(amount) DESC) AS place FROM sales GROUP BY product ORDER BY place;

-- The largest three
-- by: product
-- of: sum amount
SELECT product, sum(amount) AS revenue FROM sales GROUP BY product ORDER BY revenue DESC LIMIT 3;

-- The next three
-- by: product
-- of: sum amount
SELECT product, sum(amount) AS revenue FROM sales GROUP BY product ORDER BY sum(amount) DESC LIMIT 3 OFFSET 3;

-- The best product of each country, by QUALIFY
-- by: country; product
-- of: sum amount
SELECT country, product, sum(amount) AS revenue FROM sales GROUP BY country, product QUALIFY row_number() OVER (PARTITION BY country ORDER BY sum(amount) DESC) = 1 ORDER BY country;

-- A running total
-- by: month = date_trunc('month', ordered_at)
-- of: sum amount
SELECT date_trunc('month', ordered_at) AS month, sum(sum(amount)) OVER (ORDER BY date_trunc('month', ordered_at)) AS so_far FROM sales GROUP BY 1 ORDER BY 1;

-- A change since the month before
-- differs by user: noise of small groups moves it
-- near: 0.03
-- by: month = date_trunc('month', ordered_at)
-- of: sum amount
WITH monthly AS (SELECT date_trunc('month', ordered_at) AS month, sum(amount) AS revenue FROM sales GROUP BY 1)
SELECT month, revenue, revenue - lag(revenue) OVER (ORDER BY month) AS change FROM monthly ORDER BY month;

-- Two months beside each other, by FILTER
-- by: country
-- of: sum amount if ordered_at >= '2026-09-01' AND ordered_at < '2026-10-01'; sum amount if ordered_at >= '2026-08-01' AND ordered_at < '2026-09-01'
SELECT country, sum(amount) FILTER (WHERE ordered_at >= '2026-09-01' AND ordered_at < '2026-10-01') AS september, sum(amount) FILTER (WHERE ordered_at >= '2026-08-01' AND ordered_at < '2026-09-01') AS august FROM sales GROUP BY country ORDER BY country;

-- Two years beside each other, by CASE
-- by: category
-- of: rows if extract(year FROM ordered_at) = 2025; rows if extract(year FROM ordered_at) = 2026
SELECT category, count(CASE WHEN year(ordered_at) = 2025 THEN 1 END) AS y2025, count(CASE WHEN year(ordered_at) = 2026 THEN 1 END) AS y2026 FROM sales GROUP BY category;

-- HAVING of a count
-- by: product
-- of: rows
SELECT product, count(*) AS orders FROM sales GROUP BY product HAVING count(*) >= 1500 ORDER BY product;

-- HAVING of what is not shown
-- by: country
-- of: mean amount; rows
SELECT country, avg(amount) AS ticket FROM sales GROUP BY country HAVING count(*) > 1000 ORDER BY country;

-- A filter of several columns
-- by: product
-- of: rows
-- where: country = 'FR' AND channel IN ('web', 'store') AND quantity BETWEEN 2 AND 8 AND NOT (amount < 20)
SELECT product, count(*) AS orders FROM sales WHERE country = 'FR' AND channel IN ('web', 'store') AND quantity BETWEEN 2 AND 8 AND NOT (amount < 20) GROUP BY product;

-- A filter by LIKE and a part of the date
-- by: country
-- of: rows
-- where: product LIKE 'P0%' AND extract(dow FROM ordered_at) IN (0, 6)
SELECT country, count(*) AS orders FROM sales WHERE product LIKE 'P0%' AND date_part('dow', ordered_at) IN (0, 6) GROUP BY country;

-- The weekdays
-- by: weekday = extract(isodow FROM ordered_at)
-- of: rows; mean amount
SELECT isodow(ordered_at) AS weekday, count(*) AS orders, avg(amount) AS ticket FROM sales GROUP BY weekday ORDER BY weekday;

-- The month as a text
-- by: month = strftime(ordered_at, '%Y-%m')
-- of: rows
SELECT strftime(ordered_at, '%Y-%m') AS month, count(*) AS orders FROM sales GROUP BY 1 ORDER BY 1;

-- Classes of a number
-- by: class = CASE WHEN quantity <= 3 THEN 'few' WHEN quantity <= 6 THEN 'some' ELSE 'many' END
-- of: rows; sum amount
SELECT CASE WHEN quantity <= 3 THEN 'few' WHEN quantity <= 6 THEN 'some' ELSE 'many' END AS class, count(*) AS orders, sum(amount) AS revenue FROM sales GROUP BY class;

-- Whole numbers as keys
-- by: quantity
-- of: rows
SELECT quantity, count(*) AS orders FROM sales GROUP BY quantity ORDER BY quantity;

-- A condition as a key
-- by: large = amount >= 100
-- of: rows
SELECT amount >= 100 AS large, count(*) AS orders FROM sales GROUP BY large;

-- Parts of a text
-- by: letter = substr(product, 1, 2)
-- of: rows
SELECT left(product, 2) AS letter, count(*) AS orders FROM sales GROUP BY 1 ORDER BY 1;

-- Texts that are joined
-- by: both = country || '-' || category
-- of: rows
SELECT country || '-' || category AS both, count(*) AS orders FROM sales GROUP BY 1;

-- A name for missing values
-- by: channel = coalesce(channel, 'unknown')
-- of: rows
SELECT coalesce(channel, 'unknown') AS channel, count(*) AS orders FROM sales GROUP BY coalesce(channel, 'unknown');

-- A public dimension by USING
-- by: region
-- of: rows; people
-- from: sales JOIN stores USING (store_id)
SELECT region, count(*) AS orders, count(DISTINCT customer_id) AS customers FROM sales JOIN stores USING (store_id) GROUP BY region ORDER BY region;

-- A star of two dimensions
-- by: region; brand
-- of: sum amount
-- from: sales JOIN stores USING (store_id) JOIN products USING (product)
SELECT t.region, p.brand, sum(s.amount) AS revenue FROM sales AS s JOIN stores AS t ON s.store_id = t.store_id JOIN products AS p ON p.product = s.product GROUP BY t.region, p.brand ORDER BY revenue DESC;

-- A ROLLUP over a dimension
-- by: region; city
-- levels: rollup
-- of: rows; sum amount
-- from: sales JOIN stores USING (store_id)
SELECT region, city, count(*) AS orders, sum(amount) AS revenue FROM sales JOIN stores USING (store_id) GROUP BY ROLLUP (region, city);

-- A value of a dimension in a measure
-- by: country
-- of: sum quantity * list_price
-- from: sales JOIN products USING (product)
SELECT s.country, sum(s.quantity * p.list_price) AS list_value FROM sales s JOIN products p ON s.product = p.product GROUP BY s.country;

-- A filter of a dimension
-- by: product
-- of: rows
-- from: sales JOIN stores USING (store_id)
-- where: region = 'North' AND square_metres > 500
SELECT product, count(*) AS orders FROM sales JOIN stores USING (store_id) WHERE region = 'North' AND square_metres > 500 GROUP BY product;

-- A dimension that is joined after the grouping
-- by: store_id
-- of: sum amount
SELECT stores.city, totals.revenue FROM (SELECT store_id, sum(amount) AS revenue FROM sales GROUP BY store_id) AS totals JOIN stores ON stores.store_id = totals.store_id ORDER BY totals.revenue DESC;

-- Groups that are filled with zeros
-- by: store_id
-- of: rows
SELECT stores.city, coalesce(totals.orders, 0) AS orders FROM stores LEFT JOIN (SELECT store_id, count(*) AS orders FROM sales GROUP BY store_id) AS totals USING (store_id) ORDER BY stores.city;

-- Quartiles
-- by: country
-- of: quantile 0.25 amount; quantile 0.5 amount; quantile 0.75 amount
-- near: 0.06
SELECT country, quantile_cont(amount, 0.25) AS q1, median(amount) AS q2, quantile_cont(amount, 0.75) AS q3 FROM sales GROUP BY country;

-- A quantile of all rows
-- of: quantile 0.9 amount
-- near: 0.05
SELECT percentile_cont(0.9) WITHIN GROUP (ORDER BY amount) AS p90 FROM sales;

-- The distance of quartiles
-- by: category
-- of: quantile 0.75 amount; quantile 0.25 amount
-- near: 0.08
SELECT category, quantile_cont(amount, 0.75) - quantile_cont(amount, 0.25) AS spread FROM sales GROUP BY category;

-- DISTINCT keys of two columns
-- by: country; category
SELECT DISTINCT country, category FROM sales ORDER BY country, category;

-- The number of groups
-- by: product
SELECT count(*) AS products FROM (SELECT DISTINCT product FROM sales);

-- A value per person
-- by: country
-- of: sum amount; people
SELECT country, sum(amount) / count(DISTINCT customer_id) AS per_customer FROM sales GROUP BY country ORDER BY country;

-- Computed twice in one SELECT
-- by: country
-- of: sum amount; rows
SELECT country, sum(amount) AS revenue, count(*) AS orders, sum(amount) / count(*) AS ticket FROM sales GROUP BY country HAVING sum(amount) > 50000 ORDER BY sum(amount) / count(*) DESC;

-- Numbers that are cut before they are added
-- by: country
-- of: sum least(amount, 100)
-- bounds: least(amount, 100) = 0, 100
SELECT country, sum(least(amount, 100)) AS cut FROM sales GROUP BY country;

-- CAST of a key, and TRY_CAST of a text
-- by: digits = TRY_CAST(substr(product, 2) AS INTEGER)
-- of: rows
SELECT CAST(substr(product, 2) AS INTEGER) AS digits, count(*) AS orders FROM sales GROUP BY 1 ORDER BY 1;

-- A pivot of three channels
-- by: month = date_trunc('month', ordered_at)
-- of: sum amount if channel = 'web'; sum amount if channel = 'store'; sum amount if channel IS NULL
SELECT date_trunc('month', ordered_at) AS month, sum(amount) FILTER (channel = 'web') AS web, sum(amount) FILTER (channel = 'store') AS store, sum(amount) FILTER (channel IS NULL) AS unknown FROM sales GROUP BY month ORDER BY month;

-- The same month a year ago
-- by: month = date_trunc('month', ordered_at)
-- of: rows
WITH m AS (SELECT date_trunc('month', ordered_at) AS month, count(*) AS orders FROM sales GROUP BY 1)
SELECT month, orders, lag(orders, 12) OVER (ORDER BY month) AS year_before FROM m ORDER BY month;

-- The total beside each group, by a subquery of the result
-- by: country
-- of: rows
WITH c AS (SELECT country, count(*) AS orders FROM sales GROUP BY country)
SELECT country, orders, (SELECT sum(orders) FROM c) AS total FROM c ORDER BY country;

-- UNION of the groups and their total
-- by: country
-- of: rows
WITH c AS (SELECT country, count(*) AS orders FROM sales GROUP BY country)
SELECT country, orders FROM c UNION ALL SELECT 'all', sum(orders) FROM c ORDER BY orders DESC;

-- Quarters in two names
-- by: year = extract(year FROM ordered_at); quarter = extract(quarter FROM ordered_at)
-- of: sum amount
SELECT extract(year FROM ordered_at) AS year, extract(quarter FROM ordered_at) AS quarter, sum(amount) AS revenue FROM sales GROUP BY year, quarter ORDER BY year, quarter;

-- Days of one week
-- by: day = CAST(ordered_at AS date)
-- of: rows
-- where: ordered_at >= '2026-10-05' AND ordered_at < '2026-10-12'
SELECT ordered_at::date AS day, count(*) AS orders FROM sales WHERE ordered_at >= DATE '2026-10-05' AND ordered_at < DATE '2026-10-05' + INTERVAL 7 DAY GROUP BY day ORDER BY day;

-- A filter of no row but of all
-- by: country
-- of: rows
SELECT country, count(*) AS orders FROM sales WHERE 1 = 1 GROUP BY country;

-- Arithmetic of keys
-- by: ten = quantity // 5 * 5
-- of: rows; mean amount
SELECT quantity // 5 * 5 AS ten, count(*) AS orders, avg(amount) AS ticket FROM sales GROUP BY ten ORDER BY ten;

-- A mean of a CASE
-- by: country
-- of: mean amount if channel = 'web'
SELECT country, avg(amount) FILTER (WHERE channel = 'web') AS web_ticket FROM sales GROUP BY country;

-- Columns in another order, and a constant
-- by: country; category
-- of: rows
SELECT count(*) AS orders, 'sales' AS source, category, country FROM sales GROUP BY country, category ORDER BY country, category;
