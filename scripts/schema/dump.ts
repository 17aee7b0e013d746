import { Effect } from "effect"
import { SqlClient } from "effect/sql"

/**
 * The schema `public` as readable, deterministic SQL, read from the catalogs. It replaces `pg_dump --schema-only`, which is not part of the
 * embedded PostgreSQL, and sorts by name, so that a diff shows only what changed.
 */
export const dump = Effect.gen(function* () {
  const parts = [yield* enums, yield* functions, yield* tables, yield* views, yield* triggers]
  return `${parts.flat().join("\n\n")}\n`
})

/** The column `line` of rows. */
const lines = (rows: ReadonlyArray<{ readonly line: string }>) => rows.map(({ line }) => line)

const enums = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  return lines(
    yield* sql<{ line: string }>`
    SELECT format('CREATE TYPE %I AS ENUM (%s);', t.typname,
      string_agg(quote_literal(e.enumlabel), ', ' ORDER BY e.enumsortorder)) AS line
    FROM pg_type t JOIN pg_enum e ON e.enumtypid = t.oid
    WHERE t.typnamespace = 'public'::regnamespace
    GROUP BY t.typname
    ORDER BY t.typname
  `
  )
})

const functions = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  return lines(
    yield* sql<{ line: string }>`
    SELECT rtrim(pg_get_functiondef(oid), E'\n') || ';' AS line
    FROM pg_proc
    WHERE pronamespace = 'public'::regnamespace AND prokind IN ('f', 'p')
    ORDER BY proname, pg_get_function_identity_arguments(oid)
  `
  )
})

const views = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  return lines(
    yield* sql<{ line: string }>`
    SELECT format('CREATE %sVIEW %I AS%s', CASE relkind WHEN 'm' THEN 'MATERIALIZED ' ELSE '' END, relname,
      E'\n' || pg_get_viewdef(oid)) AS line
    FROM pg_class
    WHERE relnamespace = 'public'::regnamespace AND relkind IN ('v', 'm')
    ORDER BY relname
  `
  )
})

const triggers = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  return lines(
    yield* sql<{ line: string }>`
    SELECT pg_get_triggerdef(t.oid) || ';' AS line
    FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid
    WHERE c.relnamespace = 'public'::regnamespace AND NOT t.tgisinternal
    ORDER BY c.relname, t.tgname
  `
  )
})

interface Table {
  readonly oid: string
  readonly name: string
  /** `PARTITION BY …` of a partitioned table. */
  readonly partitioned: string | null
  /** `PARTITION OF … FOR VALUES …` of a partition, which has its parent's columns. */
  readonly partition: string | null
  /** Storage parameters, `fillfactor=90`. */
  readonly options: string | null
}

/** Each table with its columns, constraints, storage parameters, indexes and comments. */
const tables = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const found = yield* sql<Table>`
    SELECT c.oid::text AS oid, quote_ident(c.relname) AS name,
      CASE WHEN c.relkind = 'p' THEN 'PARTITION BY ' || pg_get_partkeydef(c.oid) END AS partitioned,
      CASE WHEN c.relispartition THEN format('PARTITION OF %I %s', parent.relname,
        pg_get_expr(c.relpartbound, c.oid)) END AS partition,
      array_to_string(c.reloptions, ', ') AS options
    FROM pg_class c
    LEFT JOIN pg_inherits i ON i.inhrelid = c.oid
    LEFT JOIN pg_class parent ON parent.oid = i.inhparent
    WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'p')
    ORDER BY c.relname
  `
  return yield* Effect.forEach(found, describe)
})

const describe = Effect.fn("describe")(function* (table: Table) {
  const body = table.partition === null ? [...(yield* columns(table)), ...(yield* constraints(table))] : []
  const options = table.options === null || table.options === "" ? "" : ` WITH (${table.options})`
  const head = `CREATE TABLE ${table.name}${table.partition === null ? "" : ` ${table.partition}`}`
  const columnList = body.length === 0 ? "" : ` (\n  ${body.join(",\n  ")}\n)`
  const partitioned = table.partitioned === null ? "" : ` ${table.partitioned}`
  return [
    `${head}${columnList}${partitioned}${options};`,
    ...(yield* indexes(table)),
    ...(yield* comments(table))
  ].join("\n")
})

/** The comments of a table and its columns. */
const comments = Effect.fn("comments")(function* (table: Table) {
  const sql = yield* SqlClient.SqlClient
  return lines(
    yield* sql<{ line: string }>`
    SELECT CASE WHEN d.objsubid = 0 THEN format('COMMENT ON TABLE %s IS %L;', ${table.name}::text, d.description)
      ELSE format('COMMENT ON COLUMN %s.%I IS %L;', ${table.name}::text, a.attname, d.description) END AS line
    FROM pg_description d
    LEFT JOIN pg_attribute a ON a.attrelid = d.objoid AND a.attnum = d.objsubid
    WHERE d.objoid = ${table.oid}::oid
      AND d.classoid = 'pg_class'::regclass
    ORDER BY d.objsubid
  `
  )
})

const columns = Effect.fn("columns")(function* (table: Table) {
  const sql = yield* SqlClient.SqlClient
  return lines(
    yield* sql<{ line: string }>`
    SELECT concat_ws(' ',
      quote_ident(a.attname),
      format_type(a.atttypid, a.atttypmod),
      CASE WHEN a.attcollation <> t.typcollation THEN 'COLLATE ' || quote_ident(l.collname) END,
      CASE WHEN a.attidentity = 'a' THEN 'GENERATED ALWAYS AS IDENTITY'
        WHEN a.attidentity = 'd' THEN 'GENERATED BY DEFAULT AS IDENTITY'
        WHEN a.attgenerated = 's' THEN format('GENERATED ALWAYS AS (%s) STORED', pg_get_expr(d.adbin, d.adrelid))
        WHEN d.adbin IS NOT NULL THEN 'DEFAULT ' || pg_get_expr(d.adbin, d.adrelid) END,
      CASE WHEN a.attnotnull THEN 'NOT NULL' END) AS line
    FROM pg_attribute a
    JOIN pg_type t ON t.oid = a.atttypid
    LEFT JOIN pg_collation l ON l.oid = a.attcollation
    LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
    WHERE a.attrelid = ${table.oid}::oid AND a.attnum > 0 AND NOT a.attisdropped
    ORDER BY a.attnum
  `
  )
})

/** Primary key, unique, foreign keys, checks and exclusions, in this order. NOT NULL is part of the column. */
const constraints = Effect.fn("constraints")(function* (table: Table) {
  const sql = yield* SqlClient.SqlClient
  return lines(
    yield* sql<{ line: string }>`
    SELECT format('CONSTRAINT %I %s', conname, pg_get_constraintdef(oid)) AS line
    FROM pg_constraint
    WHERE conrelid = ${table.oid}::oid AND contype IN ('p', 'u', 'f', 'c', 'x')
    ORDER BY array_position(ARRAY['p', 'u', 'f', 'c', 'x'], contype::text), conname
  `
  )
})

/** Indexes that neither a constraint nor a parent table creates. */
const indexes = Effect.fn("indexes")(function* (table: Table) {
  const sql = yield* SqlClient.SqlClient
  return lines(
    yield* sql<{ line: string }>`
    SELECT replace(pg_get_indexdef(i.indexrelid), ' public.', ' ') || ';' AS line
    FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
    WHERE i.indrelid = ${table.oid}::oid
      AND NOT c.relispartition
      AND NOT EXISTS (SELECT FROM pg_constraint WHERE conindid = i.indexrelid AND contype IN ('p', 'u', 'x'))
    ORDER BY c.relname
  `
  )
})
