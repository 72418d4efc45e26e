-- What sessions differ in; `database.py` runs this once. The first statement is the type of DuckDB's variable
-- `session`, whose parts stand in braces here and in `functions.sql`. Each view becomes one with all columns and
-- PostgreSQL's types of its relation: what is not named here is NULL. OID 10 is the role that owns everything,
-- 16385 the analyst, 16384 the database.

CREATE TYPE _session.facts AS STRUCT(
  "user" VARCHAR, "database" VARCHAR, version VARCHAR, pid INTEGER, address VARCHAR, port INTEGER,
  "schema" VARCHAR, schemas VARCHAR[], implicit_schemas VARCHAR[], public_is_visible BOOLEAN,
  now TIMESTAMP WITH TIME ZONE, server_started TIMESTAMP WITH TIME ZONE,
  own_names VARCHAR[], own_values VARCHAR[], setting_names VARCHAR[], setting_values VARCHAR[],
  connections STRUCT(pid INTEGER, "user" VARCHAR, application_name VARCHAR, address VARCHAR, port INTEGER,
    started TIMESTAMP WITH TIME ZONE, state VARCHAR,
    encryption STRUCT(version VARCHAR, cipher VARCHAR, bits INTEGER))[],
  prepared STRUCT(name VARCHAR, statement VARCHAR, prepared TIMESTAMP WITH TIME ZONE, parameters UINTEGER[],
    from_sql BOOLEAN)[],
  cursors STRUCT(name VARCHAR, statement VARCHAR, hold BOOLEAN, "binary" BOOLEAN, scroll BOOLEAN,
    created TIMESTAMP WITH TIME ZONE)[]);

CREATE VIEW _session.pg_roles AS
SELECT oid, rolname, oid = 10 AS rolsuper, true AS rolinherit, oid = 10 AS rolcreaterole,
  oid = 10 AS rolcreatedb, oid <> 10 AS rolcanlogin, oid = 10 AS rolreplication, -1 AS rolconnlimit,
  '********' AS rolpassword, oid = 10 AS rolbypassrls
FROM (VALUES (10, 'dpsql'), (16385, {user})) AS r(oid, rolname);

CREATE VIEW _session.pg_user AS
SELECT {user} AS usename, 16385 AS usesysid, false AS usecreatedb, false AS usesuper, false AS userepl,
  false AS usebypassrls, '********' AS passwd;

CREATE VIEW _session.enabled_roles AS SELECT {user} AS role_name;

CREATE VIEW _session.pg_stat_activity AS
SELECT 16384 AS datid, {database} AS datname, c.pid, 16385 AS usesysid, c.user AS usename, c.application_name,
  c.address AS client_addr, c.port AS client_port, c.started AS backend_start, c.state, '' AS query,
  'client backend' AS backend_type
FROM (SELECT unnest({connections}) AS c);

CREATE VIEW _session.pg_stat_ssl AS
SELECT c.pid, c.encryption.version IS NOT NULL AS ssl, c.encryption.version, c.encryption.cipher,
  c.encryption.bits
FROM (SELECT unnest({connections}) AS c) WHERE c.encryption IS NOT NULL;

CREATE VIEW _session.pg_prepared_statements AS
SELECT p.name, p.statement, p.prepared AS prepare_time, p.parameters AS parameter_types, p.from_sql,
  0 AS generic_plans, 0 AS custom_plans
FROM (SELECT unnest({prepared}) AS p);

CREATE VIEW _session.pg_cursors AS
SELECT c.name, c.statement, c.hold AS is_holdable, c.binary AS is_binary, c.scroll AS is_scrollable,
  c.created AS creation_time
FROM (SELECT unnest({cursors}) AS c);

-- A number with a unit is shown as `4MB` by SHOW, and as 4096 here.
CREATE VIEW _session.pg_settings AS
WITH own AS (SELECT unnest({own_names}) AS name, unnest({own_values}) AS value)
SELECT * FROM (
  SELECT k.* REPLACE (CASE WHEN k.unit IS NULL THEN coalesce(own.value, k.setting) ELSE k.setting END AS setting)
  FROM _pgc._settings AS k LEFT JOIN own ON lower(own.name) = lower(k.name)
  UNION ALL BY NAME
  SELECT name, value AS setting, value AS reset_val, 'dpsql' AS category, 'user' AS context,
    'string' AS vartype, 'session' AS source, false AS pending_restart
  FROM own WHERE lower(name) NOT IN (SELECT lower(name) FROM _pgc._settings))
ORDER BY lower(name);

CREATE VIEW _session.table_privileges AS
SELECT 'dpsql' AS grantor, {user} AS grantee, {database} AS table_catalog, 'public' AS table_schema,
  relname AS table_name, 'SELECT' AS privilege_type, 'NO' AS is_grantable, 'YES' AS with_hierarchy
FROM _pgc.pg_class WHERE relnamespace = 2200;

CREATE VIEW _session.role_table_grants AS SELECT * FROM _session.table_privileges;

CREATE VIEW _session.column_privileges AS
SELECT p.*, c.column_name FROM _session.table_privileges AS p JOIN _pgi.columns AS c USING (table_name);

CREATE VIEW _session.role_column_grants AS SELECT * FROM _session.column_privileges;
