-- The functions of the catalogue that are macros, one after another; `postgres_data.py` reads this file.
--
--     name(types of the arguments) -> type of the result: body
--
-- Lines that begin with spaces continue the one above. The body is DuckDB's SQL over the arguments a, b, ..;
-- {lists} of the policy and {facts} of the session are filled in when its catalogue is built. The macro of
-- `name` is `pgf_name`, and macros of one name differ in the number of their arguments. `setof`: the body is a
-- list of the rows. `same` is the type of the first argument, `second` of the second, `element` of an array's elements. No question can
-- call a `show_..`: rules do.

-- Limits on what a question can make of a text or an array: nested calls would double it without end.
show_short(text) -> text: CASE WHEN strlen(a) > 100000 THEN error('long') ELSE a END
show_grown(text, text) -> text: CASE WHEN strlen(a) * strlen(b) > 1000000 OR strlen(a) > 100000 THEN
    error('long') ELSE b END
show_is_none(any, any) -> bool: NOT list_contains(a, b) AND list_count(a) = len(a)
show_element(any, int4) -> element: CASE WHEN b > 0 THEN list_extract(a, b) END
show_matched(text, text) -> text: CASE WHEN regexp_matches(a, b) THEN regexp_extract(a, b) END
show_group(text, text) -> text: CASE WHEN regexp_matches(a, b) THEN regexp_extract(a, b, 1) END

-- Texts.
lower(text) -> text: lower(a)
upper(text) -> text: upper(a)
length(text) -> int4: length(a)
char_length(text) -> int4: length(a)
character_length(text) -> int4: length(a)
octet_length(text) -> int4: octet_length(encode(a))
btrim(text) -> text: trim(a)
btrim(text, text) -> text: trim(a, b)
trim(text) -> text: trim(a)
ltrim(text) -> text: ltrim(a)
ltrim(text, text) -> text: ltrim(a, b)
rtrim(text) -> text: rtrim(a)
rtrim(text, text) -> text: rtrim(a, b)
left(text, int4) -> text: left(a, b)
right(text, int4) -> text: right(a, b)
reverse(text) -> text: reverse(a)
ascii(text) -> int4: ascii(a)
chr(int4) -> text: chr(a)
replace(text, text, text) -> text: replace(a, b, pgf_show_grown(a, c))
translate(text, text, text) -> text: translate(pgf_show_short(a), b, c)
strpos(text, text) -> int4: strpos(a, b)
position(text, text) -> int4: strpos(b, a)
starts_with(text, text) -> bool: starts_with(a, b)
split_part(text, text, int4) -> text: split_part(a, b, c)
substr(text, int4) -> text: substring(a, greatest(b, 1))
substr(text, int4, int4) -> text: substring(a, greatest(b, 1), greatest(b + c - greatest(b, 1), 0))
substring(text, int4) -> text: substring(a, greatest(b, 1))
substring(text, int4, int4) -> text: substring(a, greatest(b, 1), greatest(b + c - greatest(b, 1), 0))
regexp_replace(text, text, text) -> text: regexp_replace(a, b, pgf_show_grown(a, c))
regexp_replace(text, text, text, text) -> text: CASE WHEN contains(d, 'g') THEN regexp_replace(a, b,
    pgf_show_grown(a, c), 'g') ELSE regexp_replace(a, b, pgf_show_grown(a, c)) END
regexp_split_to_array(text, text) -> text[]: string_split_regex(a, b)
regexp_split_to_table(text, text) -> setof text: string_split_regex(a, b)
string_to_array(text, text) -> text[]: CASE WHEN a = '' THEN [] ELSE string_split(a, b) END
string_to_table(text, text) -> setof text: CASE WHEN a = '' THEN [] ELSE string_split(a, b) END
quote_literal(text) -> text: '''' || replace(pgf_show_short(a), '''', '''''') || ''''
quote_nullable(text) -> text: coalesce('''' || replace(pgf_show_short(a), '''', '''''') || '''', 'NULL')
quote_ident(text) -> text: CASE WHEN regexp_full_match(a, '[a-z_][a-z0-9_]*') AND NOT
    list_contains({reserved}, a) THEN a ELSE '"' || replace(pgf_show_short(a), '"', '""') || '"' END
parse_ident(text) -> text[]: list_transform(string_split(a, '.'), lambda w: CASE WHEN starts_with(w, '"') THEN
    trim(w, '"') ELSE lower(w) END)
parse_ident(text, bool) -> text[]: list_transform(string_split(a, '.'), lambda w: CASE WHEN starts_with(w,
    '"') THEN trim(w, '"') ELSE lower(w) END)

-- Numbers.
extract(text, any) -> numeric: date_part(a, b)
date_part(text, any) -> float8: date_part(a, b)
date_trunc(text, any) -> second: date_trunc(a, b)
abs(any) -> same: abs(a)
ceil(any) -> same: ceil(a)
ceiling(any) -> same: ceil(a)
floor(any) -> same: floor(a)
round(any) -> same: round(a)
sign(any) -> same: sign(a)
mod(any, any) -> same: a % b

-- Arrays.
array_upper(any, int4) -> int4: CASE WHEN b = 1 AND len(a) > 0 THEN len(a) END
array_lower(any, int4) -> int4: CASE WHEN b = 1 AND len(a) > 0 THEN 1 END
array_length(any, int4) -> int4: CASE WHEN b = 1 AND len(a) > 0 THEN len(a) END
array_ndims(any) -> int4: CASE WHEN len(a) > 0 THEN 1 END
cardinality(any) -> int4: len(a)
array_to_string(any, text) -> text: CASE WHEN a IS NULL OR b IS NULL THEN NULL
    WHEN len(a) * strlen(b) > 100000 THEN error('long')
    ELSE substring(list_reduce(list_filter(CAST(a AS VARCHAR[]), lambda x: x IS NOT NULL),
    lambda x, y: x || b || y, ''), length(b) + 1) END
array_to_string(any, text, text) -> text: CASE WHEN a IS NULL OR b IS NULL THEN NULL
    WHEN len(a) * strlen(b || coalesce(c, '')) > 100000 THEN error('long')
    ELSE substring(list_reduce(list_filter(list_transform(CAST(a AS VARCHAR[]), lambda x: coalesce(x, c)),
    lambda x: x IS NOT NULL), lambda x, y: x || b || y, ''), length(b) + 1) END
array_position(any, any) -> int4: nullif(list_position(a, b), 0)
array_append(any, any) -> same: list_append(CASE WHEN len(a) > 10000 THEN error('long') ELSE a END, b)
array_cat(any, any) -> same: list_concat(a, CASE WHEN len(a) + len(b) > 10000 THEN error('long') ELSE b END)
show_joined_arrays(any, any) -> same: list_concat(a, CASE WHEN len(a) + len(b) > 10000 THEN error('long') ELSE
    b END)
array_remove(any, any) -> same: list_filter(a, lambda x: x IS DISTINCT FROM b)
unnest(any) -> setof element: a
generate_series(int4, int4) -> setof int4: generate_series(a, CASE WHEN CAST(b AS BIGINT) - a > 10000 THEN
    error('long') ELSE b END)
generate_series(int4, int4, int4) -> setof int4: generate_series(a, CASE WHEN abs(CAST(b AS BIGINT) - a) >
    10000 THEN error('long') ELSE b END, c)
generate_subscripts(any, int4) -> setof int4: CASE WHEN b = 1 THEN range(1, len(a) + 1) END
_pg_expandarray(any) -> setof record(x int2, n int4): list_transform(a, lambda x, i: {{'x': CAST(x AS SMALLINT),
    'n': CAST(i AS INTEGER)}})

-- Names of objects.
format_type(oid, int4) -> text: coalesce((SELECT CASE WHEN b >= 0 AND a IN (1083, 1114, 1184, 1266) THEN
    regexp_replace(n.shown, '^(timestamp|time)', '\1(' || b || ')') ELSE n.shown END || CASE WHEN b IS NULL OR
    b < 0 THEN '' WHEN a IN (1043, 1042) THEN '(' || (b - 4) || ')' WHEN a = 1700 THEN '(' || ((b - 4) >> 16)
    || ',' || ((b - 4) & 65535) || ')' ELSE '' END FROM _pgc._type_names AS n WHERE n.oid = a), CASE WHEN a =
    0 THEN '-' WHEN a IS NOT NULL THEN '???' END)
obj_description(oid) -> text: (SELECT min(d.description) FROM _pgc.pg_description AS d WHERE d.objoid = a AND
    d.objsubid = 0)
obj_description(oid, name) -> text: (SELECT d.description FROM _pgc.pg_description AS d JOIN _pgc._class_keys
    AS k ON k.oid = d.classoid WHERE d.objoid = a AND d.objsubid = 0 AND k.key = b)
shobj_description(oid, name) -> text: (SELECT d.description FROM _pgc.pg_shdescription AS d JOIN
    _pgc._class_keys AS k ON k.oid = d.classoid WHERE d.objoid = a AND k.key = b)
col_description(oid, int4) -> text: (SELECT d.description FROM _pgc.pg_description AS d WHERE d.objoid = a AND
    d.classoid = 1259 AND d.objsubid = b AND b <> 0)
pg_get_userbyid(oid) -> name: CASE a WHEN 10 THEN 'dpsql' WHEN 16385 THEN {user} ELSE 'unknown (OID=' || a ||
    ')' END
pg_encoding_to_char(int4) -> name: CASE a WHEN 6 THEN 'UTF8' WHEN 0 THEN 'SQL_ASCII' WHEN 8 THEN 'LATIN1' WHEN
    NULL THEN NULL ELSE '' END
pg_char_to_encoding(name) -> int4: CASE replace(replace(upper(a), '-', ''), '_', '') WHEN 'UTF8' THEN 6 WHEN
    'UNICODE' THEN 6 WHEN 'SQLASCII' THEN 0 WHEN 'LATIN1' THEN 8 ELSE -1 END
pg_encoding_max_length(int4) -> int4: CASE a WHEN 6 THEN 4 ELSE 1 END
getdatabaseencoding() -> name: 'UTF8'
pg_client_encoding() -> name: 'UTF8'
oidvectortypes(oidvector) -> text: (SELECT coalesce(string_agg(n.shown, ', ' ORDER BY u.nth), '') FROM (SELECT
    unnest(a) AS oid, generate_subscripts(a, 1) AS nth) AS u JOIN _pgc._type_names AS n ON n.oid = u.oid)
pg_get_keywords() -> setof record(word text, catcode "char", barelabel bool, catdesc text, baredesc text):
    (SELECT list({{'word': k.word, 'catcode': k.catcode, 'barelabel': k.barelabel, 'catdesc': k.catdesc,
    'baredesc': k.baredesc}} ORDER BY k.word) FROM _pgc._keywords AS k)
to_regclass(text) -> regclass: (SELECT k.oid FROM _pgc._class_keys AS k WHERE k.key = replace(a, '"', ''))
to_regtype(text) -> regtype: (SELECT k.oid FROM _pgc._type_keys AS k WHERE k.key = replace(a, '"', ''))
to_regproc(text) -> regproc: (SELECT min(k.oid) FROM _pgc._proc_keys AS k WHERE k.key = replace(a, '"', ''))
to_regnamespace(text) -> regnamespace: (SELECT k.oid FROM _pgc._namespace_keys AS k WHERE k.key = replace(a,
    '"', ''))
to_regrole(text) -> regrole: CASE replace(a, '"', '') WHEN 'dpsql' THEN 10 WHEN {user} THEN 16385 END
show_class(oid) -> text: coalesce((SELECT n.shown FROM _pgc._class_names AS n WHERE n.oid = a), CASE WHEN a =
    0 THEN '-' ELSE CAST(a AS VARCHAR) END)
show_type(oid) -> text: coalesce((SELECT n.shown FROM _pgc._type_names AS n WHERE n.oid = a), CASE WHEN a = 0
    THEN '-' ELSE CAST(a AS VARCHAR) END)
show_proc(oid) -> text: coalesce((SELECT n.shown FROM _pgc._proc_names AS n WHERE n.oid = a), CASE WHEN a = 0
    THEN '-' ELSE CAST(a AS VARCHAR) END)
show_procedure(oid) -> text: coalesce((SELECT n.signature FROM _pgc._functions AS n WHERE n.oid = a), CASE
    WHEN a = 0 THEN '-' ELSE CAST(a AS VARCHAR) END)
show_namespace(oid) -> text: coalesce((SELECT n.nspname FROM _pgc.pg_namespace AS n WHERE n.oid = a), CASE
    WHEN a = 0 THEN '-' ELSE CAST(a AS VARCHAR) END)
show_role(oid) -> text: CASE a WHEN 10 THEN 'dpsql' WHEN 16385 THEN {user} WHEN 0 THEN '-' ELSE CAST(a AS
    VARCHAR) END
show_other(oid) -> text: CASE WHEN a = 0 THEN '-' ELSE CAST(a AS VARCHAR) END
show_types(oid[]) -> text[]: (SELECT coalesce(list(n.shown ORDER BY u.nth), CASE WHEN a IS NOT NULL THEN []
    END) FROM (SELECT unnest(a) AS oid, generate_subscripts(a, 1) AS nth) AS u LEFT JOIN _pgc._type_names AS n
    ON n.oid = u.oid)
show_array(text[]) -> text: '{{' || substring(list_reduce(list_transform(a, lambda x: CASE WHEN x IS NULL
    THEN 'NULL' WHEN x = '' OR upper(x) = 'NULL' OR regexp_matches(x, '[{{}}",\s\\]')
    THEN '"' || replace(replace(x, '\', '\\'), '"', '\"') || '"' ELSE x END),
    lambda x, y: x || ',' || y, ''), 2) || '}}'
show_vector(any) -> text: substring(list_reduce(CAST(a AS VARCHAR[]), lambda x, y: x || ' ' || y, ''), 2)

-- Definitions: the catalogue has no expressions, indexes, constraints, partitions.
pg_get_expr(any, oid) -> text: CAST(NULL AS VARCHAR)
pg_get_expr(any, oid, bool) -> text: CAST(NULL AS VARCHAR)
pg_get_constraintdef(oid) -> text: CAST(NULL AS VARCHAR)
pg_get_constraintdef(oid, bool) -> text: CAST(NULL AS VARCHAR)
pg_get_indexdef(oid) -> text: CAST(NULL AS VARCHAR)
pg_get_indexdef(oid, int4, bool) -> text: CAST(NULL AS VARCHAR)
pg_get_viewdef(any) -> text: CAST(NULL AS VARCHAR)
pg_get_viewdef(any, any) -> text: CAST(NULL AS VARCHAR)
pg_get_triggerdef(oid) -> text: CAST(NULL AS VARCHAR)
pg_get_triggerdef(oid, bool) -> text: CAST(NULL AS VARCHAR)
pg_get_ruledef(oid) -> text: CAST(NULL AS VARCHAR)
pg_get_ruledef(oid, bool) -> text: CAST(NULL AS VARCHAR)
pg_get_partkeydef(oid) -> text: CAST(NULL AS VARCHAR)
pg_get_partition_constraintdef(oid) -> text: CAST(NULL AS VARCHAR)
pg_get_statisticsobjdef(oid) -> text: CAST(NULL AS VARCHAR)
pg_get_statisticsobjdef_columns(oid) -> text: CAST(NULL AS VARCHAR)
pg_get_statisticsobjdef_expressions(oid) -> text[]: CAST(NULL AS VARCHAR[])
pg_get_serial_sequence(text, text) -> text: CAST(NULL AS VARCHAR)
pg_get_function_result(oid) -> text: (SELECT f.result FROM _pgc._functions AS f WHERE f.oid = a)
pg_get_function_arguments(oid) -> text: (SELECT f.arguments FROM _pgc._functions AS f WHERE f.oid = a)
pg_get_function_identity_arguments(oid) -> text: (SELECT f.arguments FROM _pgc._functions AS f WHERE f.oid =
    a)
pg_get_functiondef(oid) -> text: (SELECT f.definition FROM _pgc._functions AS f WHERE f.oid = a)
pg_get_function_sqlbody(oid) -> text: CAST(NULL AS VARCHAR)
pg_get_function_arg_default(oid, int4) -> text: CAST(NULL AS VARCHAR)
pg_describe_object(oid, oid, int4) -> text: CAST(NULL AS VARCHAR)
pg_relation_filepath(regclass) -> text: CAST(NULL AS VARCHAR)
pg_relation_filenode(regclass) -> oid: CAST(NULL AS UINTEGER)
pg_index_column_has_property(regclass, int4, text) -> bool: CAST(NULL AS BOOLEAN)
pg_index_has_property(regclass, text) -> bool: CAST(NULL AS BOOLEAN)
pg_indexam_has_property(oid, text) -> bool: CAST(NULL AS BOOLEAN)
pg_sequence_last_value(regclass) -> int8: CAST(NULL AS BIGINT)
pg_collation_actual_version(oid) -> text: CAST(NULL AS VARCHAR)
pg_tablespace_location(oid) -> text: CASE WHEN a IS NOT NULL THEN '' END
pg_partition_ancestors(regclass) -> setof regclass: CAST([] AS UINTEGER[])
pg_partition_tree(regclass) -> setof record(relid regclass, parentrelid regclass, isleaf bool, level int4):
    CAST([] AS STRUCT(relid UINTEGER, parentrelid UINTEGER, isleaf BOOLEAN, level INTEGER)[])
pg_partition_root(regclass) -> regclass: CAST(NULL AS UINTEGER)
ts_token_type(oid) -> setof record(tokid int4, alias text, description text): CAST([] AS STRUCT(tokid INTEGER,
    alias VARCHAR, description VARCHAR)[])
pg_options_to_table(any) -> setof record(option_name text, option_value text): CAST([] AS STRUCT(option_name
    VARCHAR, option_value VARCHAR)[])
aclexplode(any) -> setof record(grantor oid, grantee oid, privilege_type text, is_grantable bool): CAST([] AS
    STRUCT(grantor UINTEGER, grantee UINTEGER, privilege_type VARCHAR, is_grantable BOOLEAN)[])
pg_blocking_pids(int4) -> int4[]: CAST([] AS INTEGER[])
pg_listening_channels() -> setof text: CAST([] AS VARCHAR[])

-- Visibility.
pg_table_is_visible(oid) -> bool: CASE WHEN list_contains({classes}, a) THEN {public_is_visible} WHEN
    list_contains({system_classes}, a) THEN true WHEN list_contains({hidden_classes}, a) THEN false END
pg_type_is_visible(oid) -> bool: CASE WHEN list_contains({row_types}, a) THEN {public_is_visible} WHEN
    list_contains({hidden_types}, a) THEN false WHEN a IS NOT NULL THEN true END
pg_function_is_visible(oid) -> bool: (SELECT f.pronamespace = 11 FROM _pgc.pg_proc AS f WHERE f.oid = a)
pg_collation_is_visible(oid) -> bool: CASE WHEN a IS NOT NULL THEN true END
pg_operator_is_visible(oid) -> bool: CASE WHEN a IS NOT NULL THEN true END
pg_opclass_is_visible(oid) -> bool: CASE WHEN a IS NOT NULL THEN true END
pg_opfamily_is_visible(oid) -> bool: CASE WHEN a IS NOT NULL THEN true END
pg_conversion_is_visible(oid) -> bool: CASE WHEN a IS NOT NULL THEN true END
pg_statistics_obj_is_visible(oid) -> bool: CASE WHEN a IS NOT NULL THEN true END
pg_ts_config_is_visible(oid) -> bool: CASE WHEN a IS NOT NULL THEN true END
pg_ts_dict_is_visible(oid) -> bool: CASE WHEN a IS NOT NULL THEN true END
pg_ts_parser_is_visible(oid) -> bool: CASE WHEN a IS NOT NULL THEN true END
pg_ts_template_is_visible(oid) -> bool: CASE WHEN a IS NOT NULL THEN true END
pg_relation_is_publishable(regclass) -> bool: list_contains({classes}, a)
pg_relation_is_updatable(regclass, bool) -> int4: 0
pg_column_is_updatable(regclass, int2, bool) -> bool: false
pg_my_temp_schema() -> oid: 0
pg_is_other_temp_schema(oid) -> bool: false
row_security_active(any) -> bool: false

-- Sizes and statistics: none are told.
pg_relation_size(regclass) -> int8: CASE WHEN a IS NOT NULL THEN 0 END
pg_relation_size(regclass, text) -> int8: CASE WHEN a IS NOT NULL THEN 0 END
pg_table_size(regclass) -> int8: CASE WHEN a IS NOT NULL THEN 0 END
pg_indexes_size(regclass) -> int8: CASE WHEN a IS NOT NULL THEN 0 END
pg_total_relation_size(regclass) -> int8: CASE WHEN a IS NOT NULL THEN 0 END
pg_database_size(any) -> int8: CASE WHEN a IS NOT NULL THEN 0 END
pg_tablespace_size(any) -> int8: CASE WHEN a IS NOT NULL THEN 0 END
pg_stat_get_numscans(oid) -> int8: CASE WHEN a IS NOT NULL THEN 0 END
pg_stat_get_live_tuples(oid) -> int8: CAST(NULL AS BIGINT)
pg_stat_get_dead_tuples(oid) -> int8: CAST(NULL AS BIGINT)
pg_size_pretty(int8) -> text: CASE WHEN abs(a) < 10240 THEN a || ' bytes' WHEN abs(a) < 10485760 THEN round(a
    / 1024.0)::BIGINT || ' kB' WHEN abs(a) < 10737418240 THEN round(a / 1048576.0)::BIGINT || ' MB' ELSE
    round(a / 1073741824.0)::BIGINT || ' GB' END

-- The session.
current_setting(text) -> text: list_extract({setting_values}, list_position({setting_names}, lower(a)))
current_setting(text, bool) -> text: list_extract({setting_values}, list_position({setting_names}, lower(a)))
current_schemas(bool) -> name[]: CASE WHEN a THEN {implicit_schemas} ELSE {schemas} END
current_user() -> name: {user}
session_user() -> name: {user}
user() -> name: {user}
current_role() -> name: {user}
current_database() -> name: {database}
current_catalog() -> name: {database}
current_schema() -> name: {schema}
version() -> text: {version}
pg_backend_pid() -> int4: {pid}
inet_client_addr() -> inet: {address}
inet_client_port() -> int4: {port}
inet_server_addr() -> inet: CAST(NULL AS VARCHAR)
inet_server_port() -> int4: CAST(NULL AS INTEGER)
now() -> timestamptz: {now}
current_timestamp() -> timestamptz: {now}
current_date() -> date: CAST({now} AS DATE)
transaction_timestamp() -> timestamptz: {now}
statement_timestamp() -> timestamptz: {now}
clock_timestamp() -> timestamptz: {now}
pg_postmaster_start_time() -> timestamptz: {server_started}
pg_conf_load_time() -> timestamptz: {server_started}
pg_is_in_recovery() -> bool: false
pg_is_wal_replay_paused() -> bool: false
pg_jit_available() -> bool: false
pg_advisory_unlock_all() -> void: ''
pg_has_role(any, text) -> bool: CAST(a AS VARCHAR) IN ('16385', {user}) AND upper(b) IN ('USAGE', 'MEMBER',
    'SET')
pg_has_role(any, any, text) -> bool: CAST(a AS VARCHAR) IN ('16385', {user}) AND CAST(b AS VARCHAR) IN
    ('16385', {user}) AND upper(c) IN ('USAGE', 'MEMBER', 'SET')

-- What an analyst may do with an object of each kind; all else he may not.
show_may(text, text) -> bool: list_has_any(string_split(replace(upper(a), ' ', ''), ','), [b])
has_table_privilege(any, text) -> bool: CASE WHEN a IS NULL OR b IS NULL THEN NULL ELSE pgf_show_may(b,
    'SELECT') END
has_table_privilege(any, any, text) -> bool: CASE WHEN a IS NULL OR b IS NULL OR c IS NULL THEN NULL ELSE
    pgf_show_may(c, 'SELECT') END
has_column_privilege(any, any, text) -> bool: CASE WHEN a IS NULL OR b IS NULL OR c IS NULL THEN NULL ELSE
    pgf_show_may(c, 'SELECT') END
has_column_privilege(any, any, any, text) -> bool: CASE WHEN a IS NULL OR b IS NULL OR c IS NULL OR d IS
    NULL THEN NULL ELSE pgf_show_may(d, 'SELECT') END
has_any_column_privilege(any, text) -> bool: CASE WHEN a IS NULL OR b IS NULL THEN NULL ELSE
    pgf_show_may(b, 'SELECT') END
has_any_column_privilege(any, any, text) -> bool: CASE WHEN a IS NULL OR b IS NULL OR c IS NULL THEN NULL
    ELSE pgf_show_may(c, 'SELECT') END
has_schema_privilege(any, text) -> bool: CASE WHEN a IS NULL OR b IS NULL THEN NULL ELSE pgf_show_may(b,
    'USAGE') END
has_schema_privilege(any, any, text) -> bool: CASE WHEN a IS NULL OR b IS NULL OR c IS NULL THEN NULL ELSE
    pgf_show_may(c, 'USAGE') END
has_language_privilege(any, text) -> bool: CASE WHEN a IS NULL OR b IS NULL THEN NULL ELSE pgf_show_may(b,
    'USAGE') END
has_language_privilege(any, any, text) -> bool: CASE WHEN a IS NULL OR b IS NULL OR c IS NULL THEN NULL
    ELSE pgf_show_may(c, 'USAGE') END
has_type_privilege(any, text) -> bool: CASE WHEN a IS NULL OR b IS NULL THEN NULL ELSE pgf_show_may(b,
    'USAGE') END
has_type_privilege(any, any, text) -> bool: CASE WHEN a IS NULL OR b IS NULL OR c IS NULL THEN NULL ELSE
    pgf_show_may(c, 'USAGE') END
has_database_privilege(any, text) -> bool: CASE WHEN a IS NULL OR b IS NULL THEN NULL ELSE pgf_show_may(b,
    'CONNECT') END
has_database_privilege(any, any, text) -> bool: CASE WHEN a IS NULL OR b IS NULL OR c IS NULL THEN NULL
    ELSE pgf_show_may(c, 'CONNECT') END
has_function_privilege(any, text) -> bool: CASE WHEN a IS NULL OR b IS NULL THEN NULL ELSE pgf_show_may(b,
    'EXECUTE') END
has_function_privilege(any, any, text) -> bool: CASE WHEN a IS NULL OR b IS NULL OR c IS NULL THEN NULL
    ELSE pgf_show_may(c, 'EXECUTE') END
has_sequence_privilege(any, text) -> bool: CASE WHEN a IS NULL OR b IS NULL THEN NULL ELSE false END
has_sequence_privilege(any, any, text) -> bool: CASE WHEN a IS NULL OR b IS NULL OR c IS NULL THEN NULL
    ELSE false END
has_tablespace_privilege(any, text) -> bool: CASE WHEN a IS NULL OR b IS NULL THEN NULL ELSE
    false END
has_tablespace_privilege(any, any, text) -> bool: CASE WHEN a IS NULL OR b IS NULL OR c IS NULL THEN NULL
    ELSE false END
has_server_privilege(any, text) -> bool: CASE WHEN a IS NULL OR b IS NULL THEN NULL ELSE false END
has_server_privilege(any, any, text) -> bool: CASE WHEN a IS NULL OR b IS NULL OR c IS NULL THEN NULL ELSE
    false END
has_foreign_data_wrapper_privilege(any, text) -> bool: CASE WHEN a IS NULL OR b IS NULL THEN NULL ELSE
    false END
has_foreign_data_wrapper_privilege(any, any, text) -> bool: CASE WHEN a IS NULL OR b IS NULL OR c IS NULL
    THEN NULL ELSE false END
