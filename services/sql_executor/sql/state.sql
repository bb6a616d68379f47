-- name: role
SELECT rolname, rolcanlogin, rolsuper, rolinherit, rolcreaterole, rolcreatedb, rolreplication, rolbypassrls, rolconnlimit
FROM pg_roles WHERE rolname = %(role)s

-- name: memberships
SELECT g.rolname AS granted FROM pg_auth_members m JOIN pg_roles g ON g.oid = m.roleid JOIN pg_roles r ON r.oid = m.member
WHERE r.rolname = %(role)s ORDER BY 1

-- name: role_settings
SELECT split_part(setting, '=', 1) AS name, substr(setting, strpos(setting, '=') + 1) AS value
FROM pg_db_role_setting s CROSS JOIN unnest(s.setconfig) AS setting
JOIN pg_roles r ON r.oid = s.setrole JOIN pg_database d ON d.oid = s.setdatabase
WHERE r.rolname = %(role)s AND d.datname = current_database()

-- name: owned_objects
SELECT pg_describe_object(classid, objid, objsubid) AS described FROM pg_shdepend s
JOIN pg_roles r ON r.oid = s.refobjid AND s.refclassid = 'pg_authid'::regclass
WHERE r.rolname = %(role)s AND s.deptype = 'o'
    AND s.dbid IN (0, (SELECT oid FROM pg_database WHERE datname = current_database()))
ORDER BY 1

-- name: database_grants
SELECT CASE WHEN x.grantee = 0 THEN 'PUBLIC' ELSE r.rolname END AS grantee, x.privilege_type AS privilege
FROM pg_database d CROSS JOIN LATERAL aclexplode(coalesce(d.datacl, acldefault('d', d.datdba))) x
LEFT JOIN pg_roles r ON r.oid = x.grantee
WHERE d.datname = current_database() AND (x.grantee = 0 OR r.rolname = %(role)s)
ORDER BY 1, 2

-- name: schema_grants
SELECT n.nspname AS schema, CASE WHEN x.grantee = 0 THEN 'PUBLIC' ELSE r.rolname END AS grantee, x.privilege_type AS privilege
FROM pg_namespace n CROSS JOIN LATERAL aclexplode(coalesce(n.nspacl, acldefault('n', n.nspowner))) x
LEFT JOIN pg_roles r ON r.oid = x.grantee
WHERE x.grantee = 0 OR r.rolname IN (%(role)s, %(policy_role)s)
ORDER BY 1, 2, 3

-- name: tables
SELECT n.nspname AS schema, c.relname AS name, c.relkind::text AS kind, o.rolname AS owner, c.relrowsecurity AS rls,
    c.relforcerowsecurity AS forced
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace JOIN pg_roles o ON o.oid = c.relowner
WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f') AND (n.nspname, c.relname) IN (SELECT * FROM unnest(%(schemas)s::text[], %(names)s::text[]))

-- name: columns
SELECT n.nspname AS schema, c.relname AS name, a.attname AS column, format_type(a.atttypid, NULL) AS type
FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE a.attnum > 0 AND NOT a.attisdropped
    AND (n.nspname, c.relname) IN (SELECT * FROM unnest(%(schemas)s::text[], %(names)s::text[]))

-- name: descendants
-- Tables that are read through other ones, however far below: `only_partitions` where nothing but partitioning leads there.
WITH RECURSIVE below AS (
    SELECT c.oid AS above, i.inhrelid AS oid, p.relispartition AS only_partitions
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace JOIN pg_inherits i ON i.inhparent = c.oid
    JOIN pg_class p ON p.oid = i.inhrelid
    WHERE c.relkind IN ('r', 'p') AND (n.nspname, c.relname) IN (SELECT * FROM unnest(%(schemas)s::text[], %(names)s::text[]))
    UNION
    SELECT b.above, i.inhrelid, b.only_partitions AND p.relispartition
    FROM below b JOIN pg_inherits i ON i.inhparent = b.oid JOIN pg_class p ON p.oid = i.inhrelid
)
SELECT an.nspname AS above_schema, a.relname AS above_name, n.nspname AS schema, c.relname AS name,
    bool_and(b.only_partitions) AS only_partitions,
    ARRAY(
        SELECT attname FROM pg_attribute WHERE attrelid = b.above AND attnum > 0 AND NOT attisdropped ORDER BY attnum
    )::text[] AS above_columns
FROM below b JOIN pg_class a ON a.oid = b.above JOIN pg_namespace an ON an.oid = a.relnamespace
JOIN pg_class c ON c.oid = b.oid JOIN pg_namespace n ON n.oid = c.relnamespace
-- A hypertable's chunks are its partitions, by another name.
WHERE n.nspname <> '_timescaledb_internal'
GROUP BY b.above, an.nspname, a.relname, n.nspname, c.relname ORDER BY 1, 2, 3, 4

-- name: relation_grants
-- Grants on relations outside the system schemas to PUBLIC, to the reader or to the policy's owner; `column` is NULL for
-- the whole relation.
SELECT n.nspname AS schema, c.relname AS name, c.relkind::text AS kind, granted.column,
    CASE WHEN granted.grantee = 0 THEN 'PUBLIC' ELSE r.rolname END AS grantee, granted.privilege
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
CROSS JOIN LATERAL (
    SELECT NULL::name AS column, grantee, privilege_type AS privilege FROM aclexplode(c.relacl)
    UNION ALL
    SELECT a.attname, x.grantee, x.privilege_type
    FROM pg_attribute a CROSS JOIN LATERAL aclexplode(a.attacl) x WHERE a.attrelid = c.oid AND NOT a.attisdropped
) AS granted
LEFT JOIN pg_roles r ON r.oid = granted.grantee
WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f', 'S') AND n.nspname NOT IN ('pg_catalog', 'information_schema')
    AND (granted.grantee = 0 OR r.rolname IN (%(role)s, %(policy_role)s))
ORDER BY 1, 2, 4 NULLS FIRST, 5, 6

-- name: definer_functions
SELECT n.nspname AS schema, p.proname AS name, pg_get_function_identity_arguments(p.oid) AS arguments, o.rolname AS owner
FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace JOIN pg_roles o ON o.oid = p.proowner
WHERE p.prosecdef AND n.nspname NOT IN ('pg_catalog', 'information_schema', 'signalbox')
    AND EXISTS (
        SELECT FROM aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) x LEFT JOIN pg_roles r ON r.oid = x.grantee
        WHERE x.grantee = 0 OR r.rolname = %(role)s
    )
ORDER BY 1, 2, 3

-- name: signalbox_functions
SELECT p.proname AS name, p.prosrc AS source, p.prosecdef AS definer, p.provolatile::text AS volatility, p.proparallel::text AS parallel,
    coalesce(p.proconfig, '{}') AS settings, o.rolname AS owner, l.lanname AS language,
    format_type(p.prorettype, NULL) AS returns,
    ARRAY(
        SELECT coalesce(g.rolname, 'PUBLIC') FROM aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) x
        LEFT JOIN pg_roles g ON g.oid = x.grantee WHERE x.grantee <> p.proowner ORDER BY 1
    )::text[] AS grantees
FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace JOIN pg_roles o ON o.oid = p.proowner
JOIN pg_language l ON l.oid = p.prolang
WHERE n.nspname = 'signalbox' ORDER BY 1

-- name: signalbox_views
SELECT c.relname AS name, pg_get_viewdef(c.oid) AS definition, coalesce(c.reloptions, '{}') AS options, o.rolname AS owner,
    obj_description(c.oid, 'pg_class') AS mark
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace JOIN pg_roles o ON o.oid = c.relowner
WHERE n.nspname = 'signalbox' AND c.relkind = 'v' ORDER BY 1

-- name: signalbox_schema
SELECT o.rolname AS owner FROM pg_namespace n JOIN pg_roles o ON o.oid = n.nspowner WHERE n.nspname = 'signalbox'

-- name: policies
SELECT n.nspname AS schema, c.relname AS table, p.polname AS name, p.polpermissive AS permissive, p.polcmd::text AS command,
    pg_get_expr(p.polqual, p.polrelid) AS qual, pg_get_expr(p.polwithcheck, p.polrelid) AS with_check,
    ARRAY(SELECT coalesce(r.rolname, 'public') FROM unnest(p.polroles) AS x LEFT JOIN pg_roles r ON r.oid = x ORDER BY 1)::text[] AS roles,
    obj_description(p.oid, 'pg_policy') AS mark
FROM pg_policy p JOIN pg_class c ON c.oid = p.polrelid JOIN pg_namespace n ON n.oid = c.relnamespace
ORDER BY 1, 2, 3

-- name: default_privileges
SELECT o.rolname AS owner, n.nspname AS schema, d.defaclobjtype::text AS kind, x.privilege_type AS privilege,
    coalesce(g.rolname, 'PUBLIC') AS grantee
FROM pg_default_acl d JOIN pg_roles o ON o.oid = d.defaclrole LEFT JOIN pg_namespace n ON n.oid = d.defaclnamespace
CROSS JOIN LATERAL aclexplode(d.defaclacl) x LEFT JOIN pg_roles g ON g.oid = x.grantee
WHERE d.defaclobjtype IN ('r', 'S') AND (x.grantee = 0 OR g.rolname = %(role)s)
ORDER BY 1, 2, 3, 4

-- name: dangerous_functions
SELECT p.proname AS name, pg_get_function_identity_arguments(p.oid) AS arguments FROM pg_proc p
WHERE p.pronamespace = 'pg_catalog'::regnamespace AND p.proname = ANY (%(functions)s)
    AND EXISTS (
        SELECT FROM aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) x LEFT JOIN pg_roles r ON r.oid = x.grantee
        WHERE x.grantee = 0 OR r.rolname = %(role)s
    )
ORDER BY 1, 2

-- name: secret_table
SELECT o.rolname AS owner, has_table_privilege(c.oid, 'SELECT') AS readable
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace JOIN pg_roles o ON o.oid = c.relowner
WHERE n.nspname = 'signalbox' AND c.relname = 'caller_secret'

-- name: secret
SELECT inner_pad, outer_pad FROM signalbox.caller_secret

-- name: whoami
SELECT session_user::text AS session_user, current_user::text AS current_user, current_database()::text AS database,
    (SELECT rolsuper FROM pg_roles WHERE rolname = current_user) AS superuser
