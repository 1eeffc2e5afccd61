-- Rights: dpframe_owner owns all, and may do nothing else; analysts may call the functions dp_*.

DO $do$
DECLARE
    one record;
BEGIN
    FOR one IN
        SELECT p.oid::pg_catalog.regprocedure AS function, p.proname FROM pg_catalog.pg_proc AS p
        WHERE p.pronamespace = 'dpframe'::pg_catalog.regnamespace
    LOOP
        EXECUTE pg_catalog.format('ALTER FUNCTION %s OWNER TO dpframe_owner', one.function);
        EXECUTE pg_catalog.format('REVOKE ALL ON FUNCTION %s FROM PUBLIC', one.function);
        IF one.proname LIKE 'dp\_%' THEN
            EXECUTE pg_catalog.format('GRANT EXECUTE ON FUNCTION %s TO dpframe_analyst', one.function);
        END IF;
    END LOOP;
END
$do$;
