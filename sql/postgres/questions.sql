-- Questions of a gateway, as functions of PostgreSQL; gateway.sql comes before.
-- Written by `python -m dpframe.doors.postgres` from the declarations of questions.

CREATE FUNCTION dpframe.dp_hhh(
    "tbl" text DEFAULT NULL,
    "hierarchy" text DEFAULT NULL,
    "epsilon" double precision DEFAULT NULL,
    "delta" double precision DEFAULT NULL,
    "threshold" double precision DEFAULT NULL,
    "user" text DEFAULT NULL,
    "contribution" text DEFAULT NULL,
    "max_contributions" integer DEFAULT NULL,
    "mechanism" text DEFAULT NULL,
    "remainder" boolean DEFAULT NULL,
    "release_share" double precision DEFAULT NULL,
    "confidence" double precision DEFAULT NULL,
    "acknowledge" text DEFAULT NULL,
    "counters" integer DEFAULT NULL,
    "release" text DEFAULT NULL,
    "query" text DEFAULT NULL,
    "data" text DEFAULT NULL,
    "weight" text DEFAULT NULL,
    "max_weight" double precision DEFAULT NULL,
    "period" text DEFAULT NULL,
    "totals" boolean DEFAULT NULL,
    "at_most" integer DEFAULT NULL,
    "nodes_per_user" integer DEFAULT NULL
) RETURNS TABLE (
    level integer, prefix text, residual double precision, count double precision, lower double precision, upper double precision
) LANGUAGE sql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET extra_float_digits = 1 AS $$
    SELECT * FROM json_to_recordset(dpframe.answer(ARRAY['datasets', "tbl", 'hhh'], json_build_object(
        'hierarchy', dpframe.argument("hierarchy"),
        'epsilon', "epsilon",
        'delta', "delta",
        'threshold', "threshold",
        'user', dpframe.argument("user"),
        'contribution', dpframe.argument("contribution"),
        'max_contributions', "max_contributions",
        'mechanism', dpframe.argument("mechanism"),
        'remainder', "remainder",
        'release_share', "release_share",
        'confidence', "confidence",
        'acknowledge', dpframe.argument("acknowledge"),
        'counters', "counters",
        'release', dpframe.argument("release"),
        'query', dpframe.argument("query"),
        'data', dpframe.argument("data"),
        'weight', dpframe.argument("weight"),
        'max_weight', "max_weight",
        'period', dpframe.argument("period"),
        'totals', "totals",
        'at_most', "at_most",
        'nodes_per_user', "nodes_per_user"
    )) -> 'rows') AS t(level integer, prefix text, residual double precision, count double precision, lower double precision, upper double precision)
$$;
COMMENT ON FUNCTION dpframe.dp_hhh IS 'Hierarchical heavy hitters, differentially private. Rows: level, prefix, residual, count, lower, upper.';

CREATE FUNCTION dpframe.dp_explain(
    "tbl" text DEFAULT NULL,
    "hierarchy" text DEFAULT NULL,
    "epsilon" double precision DEFAULT NULL,
    "delta" double precision DEFAULT NULL,
    "threshold" double precision DEFAULT NULL,
    "user" text DEFAULT NULL,
    "contribution" text DEFAULT NULL,
    "max_contributions" integer DEFAULT NULL,
    "mechanism" text DEFAULT NULL,
    "remainder" boolean DEFAULT NULL,
    "release_share" double precision DEFAULT NULL,
    "confidence" double precision DEFAULT NULL,
    "acknowledge" text DEFAULT NULL,
    "counters" integer DEFAULT NULL,
    "query" text DEFAULT NULL,
    "weight" text DEFAULT NULL,
    "max_weight" double precision DEFAULT NULL,
    "error" anyelement DEFAULT NULL::double precision,
    "period" text DEFAULT NULL,
    "totals" boolean DEFAULT NULL,
    "at_most" integer DEFAULT NULL,
    "nodes_per_user" integer DEFAULT NULL
) RETURNS TABLE (
    quantity text, value text, meaning text
) LANGUAGE sql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET extra_float_digits = 1 AS $$
    SELECT * FROM dpframe.lines(dpframe.answer(ARRAY['datasets', "tbl", 'hhh', 'explain'], json_build_object(
        'hierarchy', dpframe.argument("hierarchy"),
        'epsilon', "epsilon",
        'delta', "delta",
        'threshold', "threshold",
        'user', dpframe.argument("user"),
        'contribution', dpframe.argument("contribution"),
        'max_contributions', "max_contributions",
        'mechanism', dpframe.argument("mechanism"),
        'remainder', "remainder",
        'release_share', "release_share",
        'confidence', "confidence",
        'acknowledge', dpframe.argument("acknowledge"),
        'counters', "counters",
        'query', dpframe.argument("query"),
        'weight', dpframe.argument("weight"),
        'max_weight', "max_weight",
        'error', CASE WHEN "error" IS NOT NULL THEN format('%s', "error")::json END,
        'period', dpframe.argument("period"),
        'totals', "totals",
        'at_most', "at_most",
        'nodes_per_user', "nodes_per_user"
    )))
$$;
COMMENT ON FUNCTION dpframe.dp_explain IS 'What hhh with these arguments would do: noise, thresholds, error.';

CREATE FUNCTION dpframe.dp_rollup(
    "tbl" text DEFAULT NULL,
    "by" text DEFAULT NULL,
    "measures" text DEFAULT NULL,
    "epsilon" double precision DEFAULT NULL,
    "delta" double precision DEFAULT NULL,
    "user" text DEFAULT NULL,
    "threshold" double precision DEFAULT NULL,
    "keys" text DEFAULT NULL,
    "selection_share" double precision DEFAULT NULL,
    "confidence" double precision DEFAULT NULL,
    "release" text DEFAULT NULL,
    "query" text DEFAULT NULL,
    "data" text DEFAULT NULL,
    "heavy" text DEFAULT NULL,
    "period" text DEFAULT NULL,
    "contribution" text DEFAULT NULL,
    "level_importance" text DEFAULT NULL,
    "derive" boolean DEFAULT NULL
) RETURNS TABLE (
    level integer, prefix text, node jsonb, measure text, value double precision, lower double precision, upper double precision
) LANGUAGE sql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET extra_float_digits = 1 AS $$
    SELECT * FROM dpframe.measures(dpframe.answer(ARRAY['datasets', "tbl", 'rollup'], json_build_object(
        'by', dpframe.argument("by"),
        'measures', dpframe.argument("measures"),
        'epsilon', "epsilon",
        'delta', "delta",
        'user', dpframe.argument("user"),
        'threshold', "threshold",
        'keys', dpframe.argument("keys"),
        'selection_share', "selection_share",
        'confidence', "confidence",
        'release', dpframe.argument("release"),
        'query', dpframe.argument("query"),
        'data', dpframe.argument("data"),
        'heavy', dpframe.argument("heavy"),
        'period', dpframe.argument("period"),
        'contribution', dpframe.argument("contribution"),
        'level_importance', dpframe.argument("level_importance"),
        'derive', "derive"
    )))
$$;
COMMENT ON FUNCTION dpframe.dp_rollup IS 'Counts, sums and means at every level of a hierarchy, differentially private. Rows: level, prefix, node (its key, as JSON), measure, value, lower, upper.';

CREATE FUNCTION dpframe.dp_explain_rollup(
    "tbl" text DEFAULT NULL,
    "by" text DEFAULT NULL,
    "measures" text DEFAULT NULL,
    "epsilon" double precision DEFAULT NULL,
    "delta" double precision DEFAULT NULL,
    "user" text DEFAULT NULL,
    "threshold" double precision DEFAULT NULL,
    "keys" text DEFAULT NULL,
    "selection_share" double precision DEFAULT NULL,
    "confidence" double precision DEFAULT NULL,
    "query" text DEFAULT NULL,
    "heavy" text DEFAULT NULL,
    "error" anyelement DEFAULT NULL::double precision,
    "period" text DEFAULT NULL,
    "contribution" text DEFAULT NULL,
    "level_importance" text DEFAULT NULL,
    "derive" boolean DEFAULT NULL
) RETURNS TABLE (
    quantity text, value text, meaning text
) LANGUAGE sql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET extra_float_digits = 1 AS $$
    SELECT * FROM dpframe.lines(dpframe.answer(ARRAY['datasets', "tbl", 'rollup', 'explain'], json_build_object(
        'by', dpframe.argument("by"),
        'measures', dpframe.argument("measures"),
        'epsilon', "epsilon",
        'delta', "delta",
        'user', dpframe.argument("user"),
        'threshold', "threshold",
        'keys', dpframe.argument("keys"),
        'selection_share', "selection_share",
        'confidence', "confidence",
        'query', dpframe.argument("query"),
        'heavy', dpframe.argument("heavy"),
        'error', CASE WHEN "error" IS NOT NULL THEN format('%s', "error")::json END,
        'period', dpframe.argument("period"),
        'contribution', dpframe.argument("contribution"),
        'level_importance', dpframe.argument("level_importance"),
        'derive', "derive"
    )))
$$;
COMMENT ON FUNCTION dpframe.dp_explain_rollup IS 'What rollup with these arguments would do: noise, thresholds, error.';

CREATE FUNCTION dpframe.dp_tree_counts(
    "tbl" text DEFAULT NULL,
    "hierarchy" text DEFAULT NULL,
    "epsilon" double precision DEFAULT NULL,
    "delta" double precision DEFAULT NULL,
    "keys" text DEFAULT NULL,
    "user" text DEFAULT NULL,
    "contribution" text DEFAULT NULL,
    "max_contributions" integer DEFAULT NULL,
    "weight" text DEFAULT NULL,
    "max_weight" integer DEFAULT NULL,
    "mechanism" text DEFAULT NULL,
    "level_weights" text DEFAULT NULL,
    "threshold" integer DEFAULT NULL,
    "consistent" boolean DEFAULT NULL,
    "confidence" double precision DEFAULT NULL,
    "alpha" double precision DEFAULT NULL,
    "largest" integer DEFAULT NULL,
    "release" text DEFAULT NULL,
    "query" text DEFAULT NULL,
    "data" text DEFAULT NULL,
    "period" text DEFAULT NULL,
    "at_most" integer DEFAULT NULL
) RETURNS TABLE (
    level integer, prefix text, residual double precision, count double precision, lower double precision, upper double precision
) LANGUAGE sql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET extra_float_digits = 1 AS $$
    SELECT * FROM json_to_recordset(dpframe.answer(ARRAY['datasets', "tbl", 'tree_counts'], json_build_object(
        'hierarchy', dpframe.argument("hierarchy"),
        'epsilon', "epsilon",
        'delta', "delta",
        'keys', dpframe.argument("keys"),
        'user', dpframe.argument("user"),
        'contribution', dpframe.argument("contribution"),
        'max_contributions', "max_contributions",
        'weight', dpframe.argument("weight"),
        'max_weight', "max_weight",
        'mechanism', dpframe.argument("mechanism"),
        'level_weights', dpframe.argument("level_weights"),
        'threshold', "threshold",
        'consistent', "consistent",
        'confidence', "confidence",
        'alpha', "alpha",
        'largest', "largest",
        'release', dpframe.argument("release"),
        'query', dpframe.argument("query"),
        'data', dpframe.argument("data"),
        'period', dpframe.argument("period"),
        'at_most', "at_most"
    )) -> 'rows') AS t(level integer, prefix text, residual double precision, count double precision, lower double precision, upper double precision)
$$;
COMMENT ON FUNCTION dpframe.dp_tree_counts IS 'Counts of all nodes of a hierarchy, differentially private, that add up. Rows: level, prefix, residual, count, lower, upper.';

CREATE FUNCTION dpframe.dp_explain_tree_counts(
    "tbl" text DEFAULT NULL,
    "hierarchy" text DEFAULT NULL,
    "epsilon" double precision DEFAULT NULL,
    "delta" double precision DEFAULT NULL,
    "keys" text DEFAULT NULL,
    "user" text DEFAULT NULL,
    "contribution" text DEFAULT NULL,
    "max_contributions" integer DEFAULT NULL,
    "weight" text DEFAULT NULL,
    "max_weight" integer DEFAULT NULL,
    "mechanism" text DEFAULT NULL,
    "level_weights" text DEFAULT NULL,
    "threshold" integer DEFAULT NULL,
    "consistent" boolean DEFAULT NULL,
    "confidence" double precision DEFAULT NULL,
    "alpha" double precision DEFAULT NULL,
    "largest" integer DEFAULT NULL,
    "query" text DEFAULT NULL,
    "error" anyelement DEFAULT NULL::double precision,
    "period" text DEFAULT NULL,
    "at_most" integer DEFAULT NULL
) RETURNS TABLE (
    quantity text, value text, meaning text
) LANGUAGE sql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET extra_float_digits = 1 AS $$
    SELECT * FROM dpframe.lines(dpframe.answer(ARRAY['datasets', "tbl", 'tree_counts', 'explain'], json_build_object(
        'hierarchy', dpframe.argument("hierarchy"),
        'epsilon', "epsilon",
        'delta', "delta",
        'keys', dpframe.argument("keys"),
        'user', dpframe.argument("user"),
        'contribution', dpframe.argument("contribution"),
        'max_contributions', "max_contributions",
        'weight', dpframe.argument("weight"),
        'max_weight', "max_weight",
        'mechanism', dpframe.argument("mechanism"),
        'level_weights', dpframe.argument("level_weights"),
        'threshold', "threshold",
        'consistent', "consistent",
        'confidence', "confidence",
        'alpha', "alpha",
        'largest', "largest",
        'query', dpframe.argument("query"),
        'error', CASE WHEN "error" IS NOT NULL THEN format('%s', "error")::json END,
        'period', dpframe.argument("period"),
        'at_most', "at_most"
    )))
$$;
COMMENT ON FUNCTION dpframe.dp_explain_tree_counts IS 'What tree_counts with these arguments would do: noise, thresholds, error.';

CREATE FUNCTION dpframe.dp_heavy_hitters(
    "tbl" text DEFAULT NULL,
    "column" text DEFAULT NULL,
    "k" integer DEFAULT NULL,
    "epsilon" double precision DEFAULT NULL,
    "delta" double precision DEFAULT NULL,
    "threshold" integer DEFAULT NULL,
    "user" text DEFAULT NULL,
    "contribution" text DEFAULT NULL,
    "max_contributions" integer DEFAULT NULL,
    "mechanism" text DEFAULT NULL,
    "release_share" double precision DEFAULT NULL,
    "confidence" double precision DEFAULT NULL,
    "counters" integer DEFAULT NULL,
    "release" text DEFAULT NULL,
    "query" text DEFAULT NULL,
    "data" text DEFAULT NULL,
    "period" text DEFAULT NULL,
    "at_most" integer DEFAULT NULL
) RETURNS TABLE (
    item text, count double precision, lower double precision, upper double precision
) LANGUAGE sql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET extra_float_digits = 1 AS $$
    SELECT * FROM dpframe.values(dpframe.answer(ARRAY['datasets', "tbl", 'heavy_hitters'], json_build_object(
        'column', dpframe.argument("column"),
        'k', "k",
        'epsilon', "epsilon",
        'delta', "delta",
        'threshold', "threshold",
        'user', dpframe.argument("user"),
        'contribution', dpframe.argument("contribution"),
        'max_contributions', "max_contributions",
        'mechanism', dpframe.argument("mechanism"),
        'release_share', "release_share",
        'confidence', "confidence",
        'counters', "counters",
        'release', dpframe.argument("release"),
        'query', dpframe.argument("query"),
        'data', dpframe.argument("data"),
        'period', dpframe.argument("period"),
        'at_most', "at_most"
    )))
$$;
COMMENT ON FUNCTION dpframe.dp_heavy_hitters IS 'The frequent values of one column, with noisy counts, differentially private. Rows: item, count, lower, upper, largest first.';

CREATE FUNCTION dpframe.dp_explain_heavy_hitters(
    "tbl" text DEFAULT NULL,
    "column" text DEFAULT NULL,
    "k" integer DEFAULT NULL,
    "epsilon" double precision DEFAULT NULL,
    "delta" double precision DEFAULT NULL,
    "threshold" integer DEFAULT NULL,
    "user" text DEFAULT NULL,
    "contribution" text DEFAULT NULL,
    "max_contributions" integer DEFAULT NULL,
    "mechanism" text DEFAULT NULL,
    "release_share" double precision DEFAULT NULL,
    "confidence" double precision DEFAULT NULL,
    "counters" integer DEFAULT NULL,
    "query" text DEFAULT NULL,
    "error" anyelement DEFAULT NULL::double precision,
    "period" text DEFAULT NULL,
    "at_most" integer DEFAULT NULL
) RETURNS TABLE (
    quantity text, value text, meaning text
) LANGUAGE sql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET extra_float_digits = 1 AS $$
    SELECT * FROM dpframe.lines(dpframe.answer(ARRAY['datasets', "tbl", 'heavy_hitters', 'explain'], json_build_object(
        'column', dpframe.argument("column"),
        'k', "k",
        'epsilon', "epsilon",
        'delta', "delta",
        'threshold', "threshold",
        'user', dpframe.argument("user"),
        'contribution', dpframe.argument("contribution"),
        'max_contributions', "max_contributions",
        'mechanism', dpframe.argument("mechanism"),
        'release_share', "release_share",
        'confidence', "confidence",
        'counters', "counters",
        'query', dpframe.argument("query"),
        'error', CASE WHEN "error" IS NOT NULL THEN format('%s', "error")::json END,
        'period', dpframe.argument("period"),
        'at_most', "at_most"
    )))
$$;
COMMENT ON FUNCTION dpframe.dp_explain_heavy_hitters IS 'What heavy_hitters with these arguments would do: noise, thresholds, error.';
