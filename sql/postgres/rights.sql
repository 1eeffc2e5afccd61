-- Rights: dpframe_owner owns all, and may do nothing else; analysts may call the functions dp_*.
-- Nobody has another right, whatever ALTER DEFAULT PRIVILEGES gives to what a superuser makes.

DO $do$
DECLARE
    one record;
    other record;
BEGIN
    FOR one IN
        SELECT 'SCHEMA dpframe' AS object, n.nspacl AS acl, 'USAGE' AS given FROM pg_catalog.pg_namespace AS n
        WHERE n.nspname = 'dpframe'
        UNION ALL SELECT 'TABLE dpframe.gateway', c.relacl, NULL FROM pg_catalog.pg_class AS c
        WHERE c.oid = 'dpframe.gateway'::pg_catalog.regclass
        UNION ALL SELECT 'FUNCTION ' || p.oid::pg_catalog.regprocedure, p.proacl,
            CASE WHEN pg_catalog.starts_with(p.proname, 'dp_') THEN 'EXECUTE' END
        FROM pg_catalog.pg_proc AS p WHERE p.pronamespace = 'dpframe'::pg_catalog.regnamespace
        AND NOT EXISTS (SELECT FROM pg_catalog.pg_depend AS d WHERE d.classid = 'pg_catalog.pg_proc'::pg_catalog.regclass
            AND d.objid = p.oid AND d.deptype = 'e')
    LOOP
        EXECUTE pg_catalog.format('ALTER %s OWNER TO dpframe_owner', one.object);
        EXECUTE pg_catalog.format('REVOKE ALL ON %s FROM PUBLIC', one.object);
        FOR other IN
            SELECT DISTINCT a.grantee::pg_catalog.regrole AS role FROM pg_catalog.aclexplode(one.acl) AS a
            WHERE a.grantee NOT IN (0, 'dpframe_owner'::pg_catalog.regrole)
        LOOP
            EXECUTE pg_catalog.format('REVOKE ALL ON %s FROM %s CASCADE', one.object, other.role);
        END LOOP;
        IF one.given IS NOT NULL THEN
            EXECUTE pg_catalog.format('GRANT %s ON %s TO dpframe_analyst', one.given, one.object);
        END IF;
    END LOOP;
END
$do$;
