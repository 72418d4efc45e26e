-- The rows of the catalogue about one policy; `database.py` runs this once, over tables that it gives:
--
--     given_database(name)
--     given_relations(oid, name, kind, row_type, array_type, width, comment)
--     given_columns(relation, number, name, type, modifier, comment)
--     given_objects(schema, name, oid)  the relations of PostgreSQL's own schemas
--     given_types(oid, shown), given_functions, given_keywords, given_settings  PostgreSQL's own, too
--
-- There is nothing in them that depends on rows of a table: no counts, sizes or statistics. OID 10 is the role
-- that owns everything, 2200 the schema `public`, 1259 and 2249 are `pg_class` and `record`, 1009 is `text[]`.

CREATE TABLE _pgc._functions AS SELECT * FROM given_functions;
CREATE TABLE _pgc._keywords AS SELECT * FROM given_keywords;
CREATE TABLE _pgc._settings AS SELECT * FROM given_settings;

-- The names of objects: as OIDs are shown, and as `'name'::regclass` and the like find them.

CREATE TABLE _pgc._class_names AS
SELECT oid, CASE schema WHEN 'pg_catalog' THEN name ELSE schema || '.' || name END AS shown FROM given_objects
UNION ALL SELECT oid, name FROM given_relations;

CREATE TABLE _pgc._class_keys AS
SELECT key, arg_min(oid, rank) AS oid FROM (
  SELECT schema || '.' || name AS key, oid, 0 AS rank FROM given_objects
  UNION ALL SELECT name, oid, 1 FROM given_objects WHERE schema = 'pg_catalog'
  UNION ALL SELECT unnest([name, 'public.' || name]), oid, 2 FROM given_relations)
GROUP BY key;

CREATE TABLE _pgc._type_names AS
FROM given_types
UNION ALL SELECT row_type, name FROM given_relations
UNION ALL SELECT array_type, name || '[]' FROM given_relations;

CREATE TABLE _pgc._type_keys AS
SELECT key, arg_min(oid, rank) AS oid FROM (
  SELECT unnest([name, 'public.' || name]) AS key, row_type AS oid, 0 AS rank FROM given_relations
  UNION ALL SELECT unnest(['_' || name, 'public._' || name]), array_type, 1 FROM given_relations
  UNION ALL
  SELECT word, oid, 2
  FROM (VALUES ('int', 23), ('integer', 23), ('decimal', 1700), ('float', 701), ('char', 1042)) AS s(word, oid)
  UNION ALL SELECT unnest([typname, 'pg_catalog.' || typname]), oid, 3 FROM _pgc.pg_type
  UNION ALL SELECT shown, oid, 4 FROM given_types)
GROUP BY key;

CREATE TABLE _pgc._proc_names AS SELECT oid, proname AS shown FROM _pgc.pg_proc;
CREATE TABLE _pgc._proc_keys AS
SELECT key, min(oid) AS oid FROM (SELECT unnest([proname, 'pg_catalog.' || proname]) AS key, oid FROM _pgc.pg_proc)
GROUP BY key;

CREATE TABLE _pgc._namespace_names AS SELECT oid, nspname AS shown FROM _pgc.pg_namespace;
CREATE TABLE _pgc._namespace_keys AS SELECT nspname AS key, oid FROM _pgc.pg_namespace;

UPDATE _pgc.pg_namespace SET nspowner = 10;

INSERT INTO _pgc.pg_database BY NAME
SELECT 16384 AS oid, name AS datname, 10 AS datdba, 6 AS encoding, 'c' AS datlocprovider,
  false AS datistemplate, true AS datallowconn, -1 AS datconnlimit, 0 AS datfrozenxid, 0 AS datminmxid,
  1663 AS dattablespace, 'C' AS datcollate, 'C' AS datctype
FROM given_database;

INSERT INTO _pgc.pg_class BY NAME
SELECT oid, name AS relname, 2200 AS relnamespace, row_type AS reltype, 0 AS reloftype, 10 AS relowner,
  CASE kind WHEN 'r' THEN 2 ELSE 0 END AS relam, CASE kind WHEN 'r' THEN oid ELSE 0 END AS relfilenode,
  0 AS reltablespace, 0 AS relpages, -1 AS reltuples, 0 AS relallvisible, 0 AS reltoastrelid,
  false AS relhasindex, false AS relisshared, 'p' AS relpersistence, kind AS relkind, width AS relnatts,
  0 AS relchecks, kind = 'v' AS relhasrules, false AS relhastriggers, false AS relhassubclass,
  false AS relrowsecurity, false AS relforcerowsecurity, true AS relispopulated,
  CASE kind WHEN 'r' THEN 'd' ELSE 'n' END AS relreplident, false AS relispartition, 0 AS relrewrite,
  0 AS relfrozenxid, 0 AS relminmxid
FROM given_relations;

INSERT INTO _pgc.pg_attribute BY NAME
SELECT c.relation AS attrelid, c.name AS attname, c.type AS atttypid, -1 AS attstattarget,
  t.typlen AS attlen, c.number AS attnum, (t.typcategory = 'A')::INTEGER AS attndims, -1 AS attcacheoff,
  c.modifier AS atttypmod, t.typbyval AS attbyval, t.typalign AS attalign, t.typstorage AS attstorage,
  '' AS attcompression, false AS attnotnull, false AS atthasdef, false AS atthasmissing, '' AS attidentity,
  '' AS attgenerated, false AS attisdropped, true AS attislocal, 0 AS attinhcount,
  t.typcollation AS attcollation
FROM given_columns AS c JOIN _pgc.pg_type AS t ON t.oid = c.type ORDER BY c.relation, c.number;

INSERT INTO _pgc.pg_type
SELECT t.* REPLACE (r.row_type AS oid, r.name AS typname, 2200 AS typnamespace, 10 AS typowner,
  'c' AS typtype, 'C' AS typcategory, false AS typispreferred, r.oid AS typrelid, r.array_type AS typarray)
FROM _pgc.pg_type AS t, given_relations AS r WHERE t.oid = 2249;

INSERT INTO _pgc.pg_type
SELECT t.* REPLACE (r.array_type AS oid, '_' || r.name AS typname, 2200 AS typnamespace, 10 AS typowner,
  false AS typispreferred, r.row_type AS typelem, 'd' AS typalign, 0 AS typcollation)
FROM _pgc.pg_type AS t, given_relations AS r WHERE t.oid = 1009;

INSERT INTO _pgc.pg_description BY NAME
SELECT oid AS objoid, 1259 AS classoid, 0 AS objsubid, comment AS description FROM given_relations
UNION ALL
SELECT relation, 1259, number, comment FROM given_columns WHERE comment IS NOT NULL;

INSERT INTO _pgc.pg_tables BY NAME
SELECT 'public' AS schemaname, name AS tablename, 'dpsql' AS tableowner, false AS hasindexes,
  false AS hasrules, false AS hastriggers, false AS rowsecurity
FROM given_relations WHERE kind = 'r';

INSERT INTO _pgc.pg_views BY NAME
SELECT 'public' AS schemaname, name AS viewname, 'dpsql' AS viewowner FROM given_relations WHERE kind = 'v';

INSERT INTO _pgi.information_schema_catalog_name BY NAME SELECT name AS catalog_name FROM given_database;

INSERT INTO _pgi.schemata BY NAME
SELECT d.name AS catalog_name, s.schema_name, 'dpsql' AS schema_owner
FROM given_database AS d, (VALUES ('public'), ('pg_catalog'), ('information_schema')) AS s(schema_name);

INSERT INTO _pgi.character_sets BY NAME
SELECT 'UTF8' AS character_set_name, 'UCS' AS character_repertoire, 'UTF8' AS form_of_use,
  name AS default_collate_catalog, 'pg_catalog' AS default_collate_schema, 'ucs_basic' AS default_collate_name
FROM given_database;

INSERT INTO _pgi.tables BY NAME
SELECT d.name AS table_catalog, 'public' AS table_schema, r.name AS table_name,
  CASE r.kind WHEN 'r' THEN 'BASE TABLE' ELSE 'VIEW' END AS table_type, 'NO' AS is_insertable_into,
  'NO' AS is_typed
FROM given_relations AS r, given_database AS d;

INSERT INTO _pgi.views BY NAME
SELECT d.name AS table_catalog, 'public' AS table_schema, r.name AS table_name, 'NONE' AS check_option,
  'NO' AS is_updatable, 'NO' AS is_insertable_into, 'NO' AS is_trigger_updatable,
  'NO' AS is_trigger_deletable, 'NO' AS is_trigger_insertable_into
FROM given_relations AS r, given_database AS d WHERE r.kind = 'v';

INSERT INTO _pgi.columns BY NAME
SELECT d.name AS table_catalog, 'public' AS table_schema, r.name AS table_name, c.name AS column_name,
  c.number AS ordinal_position, 'YES' AS is_nullable,
  CASE WHEN t.typcategory = 'A' THEN 'ARRAY' ELSE n.shown END AS data_type,
  CASE WHEN c.type = 25 THEN 1073741824 END AS character_octet_length,
  CASE c.type WHEN 21 THEN 16 WHEN 23 THEN 32 WHEN 20 THEN 64 WHEN 701 THEN 53
    WHEN 1700 THEN CASE WHEN c.modifier >= 0 THEN (c.modifier - 4) >> 16 END END AS numeric_precision,
  CASE WHEN c.type = 1700 THEN 10 WHEN c.type IN (20, 21, 23, 701) THEN 2 END AS numeric_precision_radix,
  CASE WHEN c.type IN (20, 21, 23) THEN 0
    WHEN c.type = 1700 AND c.modifier >= 0 THEN (c.modifier - 4) & 65535 END AS numeric_scale,
  CASE WHEN c.type = 1082 THEN 0 WHEN c.type IN (1083, 1114, 1184, 1186) THEN 6 END AS datetime_precision,
  d.name AS udt_catalog, 'pg_catalog' AS udt_schema, t.typname AS udt_name, c.number::VARCHAR AS dtd_identifier,
  'NO' AS is_self_referencing, 'NO' AS is_identity, 'NO' AS identity_cycle, 'NO' AS is_updatable,
  'NEVER' AS is_generated
FROM given_columns AS c JOIN given_relations AS r ON r.oid = c.relation
  JOIN _pgc.pg_type AS t ON t.oid = c.type JOIN _pgc._type_names AS n ON n.oid = c.type, given_database AS d
ORDER BY r.name, c.number;
