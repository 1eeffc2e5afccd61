-- Generated addresses, the same on every machine: half of the rows from a Zipf head of 1e5, half
-- uniform over 2e7, octets skewed so that every level has heavy prefixes. One row a user.
-- $rows is the number of rows; 3e7 rows have about 1e7 distinct leaves.
WITH r AS (
    SELECT
        i AS uid,
        (hash(i, 11) % 1000000007) / 1000000007.0::DOUBLE AS u,
        hash(i, 22) % 2 AS coin
    FROM range($rows) t(i)
),
ids AS (
    SELECT
        uid,
        CASE
            WHEN coin = 0 THEN floor(exp(u * ln(100000.0)))::BIGINT
            ELSE 1000000 + floor(u * 20000000)::BIGINT
        END AS id
    FROM r
),
h AS (
    SELECT
        uid,
        (hash(id, 1) % 1000003) / 1000003.0::DOUBLE AS u1,
        (hash(id, 2) % 1000003) / 1000003.0::DOUBLE AS u2,
        (hash(id, 3) % 1000003) / 1000003.0::DOUBLE AS u3,
        (hash(id, 4) % 256)::INTEGER AS d
    FROM ids
)
SELECT
    uid,
    floor(256 * u1 * u1)::INTEGER AS a,
    floor(256 * u2 * u2)::INTEGER AS b,
    floor(256 * pow(u3, 1.5))::INTEGER AS c,
    d
FROM h
