-- One level a column, and a label column for each; NULL is a value of its own.
SELECT level, prefix, country, city
FROM dp_hhh('sales', ['country', 'city'], epsilon := 2.0, delta := 1e-4, threshold := 90);
VALUES
    (0, '*', NULL, NULL),
    (2, 'France / Lyon', 'France', 'Lyon'),
    (2, 'France / Paris', 'France', 'Paris'),
    (2, 'Germany / Bonn', 'Germany', 'Bonn'),
    (2, 'Germany / <invalid>', 'Germany', '<invalid>'),
    (2, '<invalid> / <invalid>', '<invalid>', '<invalid>');

-- The same as text, and by the query of a view.
SELECT prefix
FROM dp_hhh(
    query := 'SELECT * FROM sales WHERE country = ''France''',
    hierarchy := 'columns:country,city',
    epsilon := 2.0, delta := 1e-4, threshold := 90
);
VALUES ('*'), ('France / Lyon'), ('France / Paris');

-- Paths of any depth.
SELECT level, prefix
FROM dp_hhh('sales', 'path:category?depth=3', epsilon := 2.0, delta := 1e-4, threshold := 90);
VALUES
    (0, '*'), (1, 'garden'), (1, '<invalid>'), (3, 'tools/saws/band'), (3, 'tools/saws/hand');

-- Days are read from text.
SELECT prefix
FROM dp_hhh('sales', 'date:day?levels=year,month', epsilon := 2.0, delta := 1e-4, threshold := 90);
VALUES ('*'), ('<invalid>'), ('2024-01'), ('2024-02');

-- Numbers in halves of bounds that somebody has to know beforehand.
SELECT prefix
FROM dp_hhh('sales', 'number:amount?lower=0&upper=100&depth=2', epsilon := 2.0, delta := 1e-4, threshold := 90);
VALUES ('*'), ('<invalid>'), ('[0, 25)'), ('[75, 100]');

-- Codes by their first letters.
SELECT prefix
FROM dp_hhh('sales', 'code:country?lengths=1,3', epsilon := 2.0, delta := 1e-4, threshold := 90);
VALUES ('*'), ('<invalid>'), ('Fra'), ('Ger');

-- A result is a table like any other.
WITH heavy AS (
    FROM dp_hhh('sales', ['country', 'city'], epsilon := 2.0, delta := 1e-4, threshold := 90)
)
SELECT country, count(*) AS cities
FROM heavy
WHERE level = 2 AND city IN (SELECT city FROM heavy WHERE city <> '<invalid>')
GROUP BY country
ORDER BY country;
VALUES ('France', 2), ('Germany', 1);

-- A name stores the result, and replays it.
CREATE TABLE first AS
FROM dp_hhh('sales', 'columns:country', epsilon := 2.0, delta := 1e-4, release := 'countries');
VALUES (4);

(FROM first EXCEPT ALL FROM dp_hhh('sales', 'columns:country', epsilon := 2.0, delta := 1e-4, release := 'countries'))
UNION ALL
(FROM dp_hhh('sales', 'columns:country', epsilon := 2.0, delta := 1e-4, release := 'countries') EXCEPT ALL FROM first);
FROM first WHERE false;

SELECT number, release, source, epsilon, stored FROM dp_releases() ORDER BY number DESC LIMIT 1;
VALUES (8, 'countries', 'table "sales"', 2.0, true);

-- Counts of all nodes add up; NULL is a value of its own, small nodes are together in <other>.
SELECT level, prefix, country, city
FROM dp_tree_counts('sales', ['country', 'city'], epsilon := 2.0, delta := 1e-4, threshold := 90);
VALUES
    (0, '*', NULL, NULL),
    (1, 'France', 'France', NULL),
    (1, 'Germany', 'Germany', NULL),
    (1, '<invalid>', '<invalid>', NULL),
    (1, '<other>', '<other>', NULL),
    (2, 'France / Lyon', 'France', 'Lyon'),
    (2, 'France / Paris', 'France', 'Paris'),
    (2, 'France / <other>', 'France', '<other>'),
    (2, 'Germany / Bonn', 'Germany', 'Bonn'),
    (2, 'Germany / <invalid>', 'Germany', '<invalid>'),
    (2, 'Germany / <other>', 'Germany', '<other>'),
    (2, '<invalid> / <invalid>', '<invalid>', '<invalid>'),
    (2, '<invalid> / <other>', '<invalid>', '<other>');

-- What is below sums up to what is above.
SELECT
    sum(count) FILTER (level = 0) = sum(count) FILTER (level = 1),
    sum(count) FILTER (level = 1 AND country = 'France')
        = sum(count) FILTER (level = 2 AND country = 'France'),
    min(count) >= 0,
    sum(residual) = max(count),
    bool_and(lower <= count AND count <= upper)
FROM dp_tree_counts('sales', ['country', 'city'], epsilon := 2.0, delta := 1e-4);
VALUES (true, true, true, true, true);

-- Listed keys are all there, those of count 0 too, and no delta is spent.
SELECT level, prefix
FROM dp_tree_counts(
    'sales', ['country', 'city'], epsilon := 2.0,
    "keys" := [('France', 'Paris'), ('Atlantis', 'Port')]
);
VALUES
    (0, '*'), (1, 'Atlantis'), (1, 'France'), (1, '<other>'), (2, 'Atlantis / Port'),
    (2, 'Atlantis / <other>'), (2, 'France / Paris'), (2, 'France / <other>');

-- Counts as they were drawn are near the truth and may be negative.
SELECT prefix, abs(count - 300) < 60
FROM dp_tree_counts(
    'sales', ['city'], epsilon := 2.0, "keys" := ['Paris'], consistent := false
)
WHERE prefix = 'Paris';
VALUES ('Paris', true);
