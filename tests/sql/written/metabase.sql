-- # Metabase

-- Rows by a column, the first chart that a table offers
-- by: country
-- of: rows
SELECT "public"."sales"."country" AS "country", COUNT(*) AS "count" FROM "public"."sales" GROUP BY "public"."sales"."country" ORDER BY "public"."sales"."country" ASC;

-- Rows in all
-- of: rows
SELECT COUNT(*) AS "count" FROM "public"."sales";

-- Sum by month
-- by: ordered_at = date_trunc('month', ordered_at)
-- of: sum amount
SELECT DATE_TRUNC('month', "public"."sales"."ordered_at") AS "ordered_at", SUM("public"."sales"."amount") AS "sum" FROM "public"."sales" GROUP BY DATE_TRUNC('month', "public"."sales"."ordered_at") ORDER BY DATE_TRUNC('month', "public"."sales"."ordered_at") ASC;

-- Several summaries by two columns, the largest first
-- by: country; category
-- of: rows; sum amount; mean amount
SELECT "public"."sales"."country" AS "country", "public"."sales"."category" AS "category", COUNT(*) AS "count", SUM("public"."sales"."amount") AS "sum", AVG("public"."sales"."amount") AS "avg" FROM "public"."sales" GROUP BY "public"."sales"."country", "public"."sales"."category" ORDER BY "count" DESC, "public"."sales"."country" ASC, "public"."sales"."category" ASC;

-- People by a column
-- by: channel
-- of: people
SELECT "public"."sales"."channel" AS "channel", COUNT(DISTINCT "public"."sales"."customer_id") AS "count" FROM "public"."sales" GROUP BY "public"."sales"."channel" ORDER BY "public"."sales"."channel" ASC;

-- A filter of several values
-- by: product
-- of: rows
-- where: country IN ('FR', 'DE')
SELECT "public"."sales"."product" AS "product", COUNT(*) AS "count" FROM "public"."sales" WHERE ("public"."sales"."country" = 'FR') OR ("public"."sales"."country" = 'DE') GROUP BY "public"."sales"."product" ORDER BY "count" DESC, "public"."sales"."product" ASC;

-- A filter that keeps missing values
-- by: country
-- of: rows
-- where: channel <> 'web' OR channel IS NULL
SELECT "public"."sales"."country" AS "country", COUNT(*) AS "count" FROM "public"."sales" WHERE (("public"."sales"."channel" <> 'web') OR ("public"."sales"."channel" IS NULL)) GROUP BY "public"."sales"."country" ORDER BY "public"."sales"."country" ASC;

-- A filter of months
-- by: country
-- of: sum amount
-- where: ordered_at >= '2026-01-01' AND ordered_at < '2026-07-01'
SELECT "public"."sales"."country" AS "country", SUM("public"."sales"."amount") AS "sum" FROM "public"."sales" WHERE ("public"."sales"."ordered_at" >= timestamp '2026-01-01 00:00:00.000') AND ("public"."sales"."ordered_at" < timestamp '2026-07-01 00:00:00.000') GROUP BY "public"."sales"."country" ORDER BY "public"."sales"."country" ASC;

-- A filter that text contains, in small letters
-- by: category
-- of: rows
-- where: lower(product) LIKE '%1%'
SELECT "public"."sales"."category" AS "category", COUNT(*) AS "count" FROM "public"."sales" WHERE (LOWER("public"."sales"."product") LIKE '%1%') GROUP BY "public"."sales"."category" ORDER BY "public"."sales"."category" ASC;

-- A histogram of a number
-- by: amount = floor(amount / 100) * 100
-- of: rows
SELECT ((FLOOR((("public"."sales"."amount" - 0.0) / 100.0)) * 100.0) + 0.0) AS "amount", COUNT(*) AS "count" FROM "public"."sales" GROUP BY ((FLOOR((("public"."sales"."amount" - 0.0) / 100.0)) * 100.0) + 0.0) ORDER BY ((FLOOR((("public"."sales"."amount" - 0.0) / 100.0)) * 100.0) + 0.0) ASC;

-- A joined table
-- by: city
-- of: rows; sum amount
-- from: sales LEFT JOIN stores USING (store_id)
SELECT "Stores"."city" AS "Stores__city", COUNT(*) AS "count", SUM("public"."sales"."amount") AS "sum" FROM "public"."sales" LEFT JOIN "public"."stores" AS "Stores" ON "public"."sales"."store_id" = "Stores"."store_id" GROUP BY "Stores"."city" ORDER BY "Stores"."city" ASC;

-- A model as the source, with a column of its own
-- by: country
-- of: sum amount * quantity
-- bounds: turnover = 0, 5000
SELECT "source"."country" AS "country", SUM("source"."turnover") AS "sum" FROM (SELECT "public"."sales"."country" AS "country", "public"."sales"."amount" * "public"."sales"."quantity" AS "turnover" FROM "public"."sales") AS "source" GROUP BY "source"."country" ORDER BY "source"."country" ASC;

-- A question about the rows of an answered question
-- by: country; product
-- of: rows
SELECT "source"."country" AS "country", AVG("source"."count") AS "avg" FROM (SELECT "public"."sales"."country" AS "country", "public"."sales"."product" AS "product", COUNT(*) AS "count" FROM "public"."sales" GROUP BY "public"."sales"."country", "public"."sales"."product") AS "source" GROUP BY "source"."country" ORDER BY "source"."country" ASC LIMIT 1048575;

-- A filter of the summary
-- by: country
-- of: rows
SELECT "source"."country" AS "country", "source"."count" AS "count" FROM (SELECT "public"."sales"."country" AS "country", COUNT(*) AS "count" FROM "public"."sales" GROUP BY "public"."sales"."country") AS "source" WHERE "source"."count" > 2000 ORDER BY "source"."country" ASC LIMIT 1048575;

-- A share of rows
-- by: country
-- of: sum [0, 1] CASE WHEN channel = 'web' THEN 1 ELSE 0.0 END; rows
SELECT "public"."sales"."country" AS "country", CAST(SUM(CASE WHEN "public"."sales"."channel" = 'web' THEN 1 ELSE 0.0 END) AS float) / NULLIF(CAST(COUNT(*) AS float), 0.0) AS "Share" FROM "public"."sales" GROUP BY "public"."sales"."country" ORDER BY "public"."sales"."country" ASC;

-- A count where a condition holds
-- by: category
-- of: sum [0, 1] CASE WHEN amount > 100 THEN 1 ELSE 0.0 END
SELECT "public"."sales"."category" AS "category", SUM(CASE WHEN "public"."sales"."amount" > 100 THEN 1 ELSE 0.0 END) AS "count-where" FROM "public"."sales" GROUP BY "public"."sales"."category" ORDER BY "public"."sales"."category" ASC;

-- Hours of the day
-- by: ordered_at = extract(hour FROM ordered_at)
-- of: rows
SELECT CAST(extract(hour from "public"."sales"."ordered_at") AS integer) AS "ordered_at", COUNT(*) AS "count" FROM "public"."sales" GROUP BY CAST(extract(hour from "public"."sales"."ordered_at") AS integer) ORDER BY CAST(extract(hour from "public"."sales"."ordered_at") AS integer) ASC;

-- Days, as CAST writes them
-- by: ordered_at = CAST(ordered_at AS date)
-- of: sum quantity
-- where: ordered_at >= '2026-10-01'
SELECT CAST("public"."sales"."ordered_at" AS date) AS "ordered_at", SUM("public"."sales"."quantity") AS "sum" FROM "public"."sales" WHERE "public"."sales"."ordered_at" >= timestamp '2026-10-01 00:00:00' GROUP BY CAST("public"."sales"."ordered_at" AS date) ORDER BY CAST("public"."sales"."ordered_at" AS date) ASC;

-- Quantiles as its percentile summary
-- by: country
-- of: quantile 0.9 amount
-- near: 0.05
SELECT "public"."sales"."country" AS "country", PERCENTILE_CONT(0.9) within group (order by "public"."sales"."amount") AS "percentile" FROM "public"."sales" GROUP BY "public"."sales"."country" ORDER BY "public"."sales"."country" ASC;

-- A running sum by month
-- by: ordered_at = date_trunc('month', ordered_at)
-- of: rows
SELECT DATE_TRUNC('month', "public"."sales"."ordered_at") AS "ordered_at", SUM(COUNT(*)) OVER (ORDER BY DATE_TRUNC('month', "public"."sales"."ordered_at") ASC ROWS UNBOUNDED PRECEDING) AS "sum" FROM "public"."sales" GROUP BY DATE_TRUNC('month', "public"."sales"."ordered_at") ORDER BY DATE_TRUNC('month', "public"."sales"."ordered_at") ASC;

-- The month before, beside each
-- by: ordered_at = date_trunc('month', ordered_at)
-- of: sum amount
SELECT DATE_TRUNC('month', "public"."sales"."ordered_at") AS "ordered_at", SUM("public"."sales"."amount") AS "sum", LAG(SUM("public"."sales"."amount"), 1) OVER (ORDER BY DATE_TRUNC('month', "public"."sales"."ordered_at") ASC) AS "lag" FROM "public"."sales" GROUP BY DATE_TRUNC('month', "public"."sales"."ordered_at") ORDER BY DATE_TRUNC('month', "public"."sales"."ordered_at") ASC;

-- Rows of a table, as it is opened
-- refused: query shows rows of a private table. Group them: SELECT column, count(*) FROM ... GROUP BY column.
SELECT "public"."sales"."country" AS "country", "public"."sales"."amount" AS "amount" FROM "public"."sales" LIMIT 2000;

-- The least and the largest value
-- refused: MIN("public"."sales"."amount") (line 1, column 8): a least value is one record's. Ask quantile_cont(column, 0.01).
SELECT MIN("public"."sales"."amount") AS "min", MAX("public"."sales"."amount") AS "max" FROM "public"."sales";

-- A spread
-- refused: STDDEV_POP("public"."sales"."amount") (line 1, column 49): a spread is not measured. Ask for quantiles: quantile_cont(column, 0.9).
SELECT "public"."sales"."country" AS "country", STDDEV_POP("public"."sales"."amount") AS "stddev" FROM "public"."sales" GROUP BY "public"."sales"."country";
