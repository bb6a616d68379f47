-- name: caller
-- The caller that the executor signed for this very transaction. Anything else is refused: a value from another
-- transaction, session or database, a forged one, or none. The hashes are compared by their own hashes, so that the time
-- the comparison takes says nothing about them.
CREATE OR REPLACE FUNCTION signalbox.caller(OUT subject text, OUT is_admin boolean)
    LANGUAGE plpgsql STABLE SECURITY DEFINER PARALLEL RESTRICTED
    SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    signed text := current_setting('signalbox.caller', true);
    claim text := substr(signed, 66);
    expected bytea;
BEGIN
    SELECT sha256(outer_pad || sha256(inner_pad || convert_to(concat_ws(
        E'\n', 'v1', current_database(), pg_backend_pid(),
        (extract(epoch FROM transaction_timestamp()) * 1000000)::bigint, claim
    ), 'UTF8'))) INTO STRICT expected FROM signalbox.caller_secret;
    IF sha256(convert_to(left(signed, 65), 'UTF8')) IS DISTINCT FROM sha256(convert_to(encode(expected, 'hex') || ':', 'UTF8')) THEN
        RAISE insufficient_privilege USING MESSAGE = 'no caller was signed for this transaction';
    END IF;
    subject := substr(claim, strpos(claim, ':') + 1);
    is_admin := split_part(claim, ':', 1) = 'admin';
END
$$

-- name: caller_subject
-- The caller whose own rows are visible; NULL for an admin, who has a policy of their own.
CREATE OR REPLACE FUNCTION signalbox.caller_subject() RETURNS text
    LANGUAGE sql STABLE SECURITY DEFINER PARALLEL RESTRICTED
    SET search_path = pg_catalog, pg_temp
AS $$ SELECT CASE WHEN NOT is_admin THEN subject END FROM signalbox.caller() $$

-- name: caller_is_admin
CREATE OR REPLACE FUNCTION signalbox.caller_is_admin() RETURNS boolean
    LANGUAGE sql STABLE SECURITY DEFINER PARALLEL RESTRICTED
    SET search_path = pg_catalog, pg_temp
AS $$ SELECT is_admin FROM signalbox.caller() $$

-- name: caller_keys
-- The keys that one assignment table gives to the caller.
CREATE OR REPLACE FUNCTION signalbox.{function}() RETURNS {key_type}[]
    LANGUAGE sql STABLE SECURITY DEFINER PARALLEL RESTRICTED
    SET search_path = pg_catalog, pg_temp
AS $$ SELECT coalesce(array_agg({key}), '{{}}') FROM {table} WHERE {subject} = (SELECT signalbox.caller_subject()::{subject_type}) $$

-- name: caller_assignments
-- What the shown filter reads: the caller's own entries of one assignment table.
CREATE OR REPLACE VIEW signalbox.{view} WITH (security_barrier) AS
    SELECT {subject}, {keys} FROM {table} WHERE {subject} = (SELECT signalbox.caller_subject()::{subject_type})

-- name: caller_secret
CREATE TABLE IF NOT EXISTS signalbox.caller_secret (
    only_one boolean PRIMARY KEY DEFAULT true CHECK (only_one),
    inner_pad bytea NOT NULL CHECK (length(inner_pad) = 64),
    outer_pad bytea NOT NULL CHECK (length(outer_pad) = 64)
)

-- name: set_caller_secret
INSERT INTO signalbox.caller_secret (inner_pad, outer_pad) VALUES (%s, %s)
ON CONFLICT (only_one) DO UPDATE SET inner_pad = excluded.inner_pad, outer_pad = excluded.outer_pad

-- name: own_rows_by_column
CREATE POLICY signalbox_own ON {table} FOR SELECT TO {reader}
    USING ({column} = (SELECT signalbox.caller_subject()::{subject_type}))

-- name: own_rows_by_join
CREATE POLICY signalbox_own ON {table} FOR SELECT TO {reader}
    USING ({key} = ANY ((SELECT signalbox.{function}())::{key_type}[]))

-- name: admin_rows
CREATE POLICY signalbox_admin ON {table} FOR SELECT TO {reader}
    USING ((SELECT signalbox.caller_is_admin()))

-- name: owners_lookup
CREATE POLICY signalbox_hops ON {table} FOR SELECT TO {owner} USING (true)

-- name: other_sessions
CREATE POLICY signalbox_others ON {table} FOR ALL TO {role}
    USING (session_user <> {reader_name}) WITH CHECK (session_user <> {reader_name})

-- name: mark_policy
-- Remembers what the policy was made from and what became of it, so that a later change of either shows.
DO $$
BEGIN
    EXECUTE format('COMMENT ON POLICY %I ON %s IS %L', {policy}, {table}, (
        SELECT {made_from} || ' ' || encode(sha256(convert_to(concat(pg_get_expr(polqual, polrelid), pg_get_expr(polwithcheck, polrelid)), 'UTF8')), 'hex')
        FROM pg_policy WHERE polrelid = {table}::regclass AND polname = {policy}
    ));
END
$$

-- name: mark_view
DO $$
BEGIN
    EXECUTE format('COMMENT ON VIEW signalbox.%I IS %L', {view}, (
        SELECT {made_from} || ' ' || encode(sha256(convert_to(pg_get_viewdef({view_text}::regclass), 'UTF8')), 'hex')
    ));
END
$$
