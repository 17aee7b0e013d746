import { PgMigrator } from "@effect/sql-pg"
import { assert, describe, it, layer } from "@effect/vitest"
import { Effect, Option } from "effect"
import { SqlClient } from "effect/sql"
import { readFileSync } from "node:fs"
import { migrations } from "../../../src/server/store/migrations/index.ts"
import { statements } from "../../../src/server/store/migrations/statements.ts"
import { transaction } from "../../../src/server/store/transaction.ts"
import { acceptedReason, impactOf, refusedImpacts } from "../../support/migrationImpact.ts"
import { TestDatabase } from "../../support/postgres.ts"

/** The migration that creates all tables: none of them is in use before it. */
const FIRST = "0001_first_release"

layer(TestDatabase.layerSql, { excludeTestServices: true })("the impact of migrations", (it) => {
  it.effect("no migration blocks writers for long or breaks the previous release without a reason", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      yield* sql`DROP SCHEMA public CASCADE`
      yield* sql`CREATE SCHEMA public`
      const { [FIRST]: first, ...later } = migrations
      yield* PgMigrator.make({})({
        loader: PgMigrator.fromRecord({ [FIRST]: first! }),
        table: "schema_migrations"
      })
      for (const [name, migration] of Object.entries(later)) {
        const file = new URL(`../../../src/server/store/migrations/${name}.ts`, import.meta.url)
        assert.deepStrictEqual(
          refusedImpacts(readFileSync(file, "utf8"), yield* impactOf(migration)),
          [],
          name
        )
        yield* transaction(migration)
      }
    })
  )
})

layer(TestDatabase.layerSql, { excludeTestServices: true })("the check of migrations", (it) => {
  /** What it reports for statements on these tables. */
  const report = Effect.fnUntraced(function* (...list: ReadonlyArray<string>) {
    const sql = yield* SqlClient.SqlClient
    yield* sql`CREATE TABLE IF NOT EXISTS old (id int PRIMARY KEY, name varchar(10), number int NOT NULL, day date)`
    yield* sql`CREATE TABLE IF NOT EXISTS other (id int PRIMARY KEY, old_id int)`
    const { blocking, incompatible } = yield* impactOf(statements(...list))
    return [...blocking, ...incompatible]
  })
  const cases: ReadonlyArray<readonly [statement: string, ...found: ReadonlyArray<string>]> = [
    // What PostgreSQL does in the catalogs only.
    ["ALTER TABLE old ADD COLUMN extra text"],
    ["ALTER TABLE old ADD COLUMN extra text NOT NULL DEFAULT 'x'"],
    ["ALTER TABLE old ALTER COLUMN name TYPE text", "old.name gets the type text"],
    ["ALTER TABLE old ALTER COLUMN number DROP NOT NULL"],
    ["CREATE TABLE fresh (id int PRIMARY KEY, n int); CREATE INDEX ON fresh (n)"],
    ["CREATE TABLE fresh AS SELECT * FROM old"],
    [
      "ALTER TABLE old ADD COLUMN kind text DEFAULT 'a' CHECK (kind IN ('a', 'b'))",
      "old is read under AccessExclusiveLock"
    ],
    ["DROP INDEX IF EXISTS nothing"],
    ["COMMENT ON TABLE old IS 'x'"],
    ["ALTER TABLE old ADD CONSTRAINT c CHECK (number > 0) NOT VALID", "old gets the constraint c"],
    // What reads or writes all rows while writers wait.
    ["CREATE INDEX ON old (number)", "old is read under ShareLock"],
    ["CREATE UNIQUE INDEX u ON old (number)", "old is read under ShareLock", "old gets the unique index u"],
    [
      "ALTER TABLE old ADD CONSTRAINT c CHECK (number > 0)",
      "old is read under AccessExclusiveLock",
      "old gets the constraint c"
    ],
    [
      "ALTER TABLE old ALTER COLUMN day SET NOT NULL",
      "old is read under AccessExclusiveLock",
      "old.day becomes required"
    ],
    [
      "ALTER TABLE old ALTER COLUMN number TYPE bigint",
      "old is rewritten under AccessExclusiveLock",
      "old.number gets the type bigint"
    ],
    [
      "ALTER TABLE old ADD COLUMN random uuid DEFAULT gen_random_uuid()",
      "old is rewritten under AccessExclusiveLock"
    ],
    [
      "ALTER TABLE other ADD CONSTRAINT f FOREIGN KEY (old_id) REFERENCES old",
      "other is read under ShareRowExclusiveLock",
      "other gets the constraint f"
    ],
    ["UPDATE old SET number = 1", "rows of old are changed and stay locked until the migration ends"],
    ["DELETE FROM old WHERE id = 1", "rows of old are changed and stay locked until the migration ends"],
    ["LOCK TABLE old IN SHARE MODE; CREATE TABLE copy AS SELECT * FROM old", "old is read under ShareLock"],
    // What statements of the previous release fail with.
    ["ALTER TABLE old DROP COLUMN day", "old.day is dropped"],
    ["ALTER TABLE old RENAME COLUMN day TO date", "old.day is renamed"],
    ["ALTER TABLE old RENAME TO older", "old is renamed"],
    ["DROP TABLE old", "old is dropped"]
  ]
  for (const [statement, ...found] of cases) {
    it.effect(`reports ${found.length === 0 ? "nothing" : `"${found.join('", "')}"`} for ${statement}`, () =>
      Effect.gen(function* () {
        assert.deepStrictEqual(yield* report(...statement.split("; ")), found)
      })
    )
  }

  it.effect("reports a required column without a default", () =>
    Effect.gen(function* () {
      // Only an empty table accepts it, which PostgreSQL finds out by reading it.
      assert.deepStrictEqual(yield* report("ALTER TABLE old ADD COLUMN extra text NOT NULL"), [
        "old is read under AccessExclusiveLock",
        "old.extra is required"
      ])
    })
  )
})

describe("the reason of an accepted impact", () => {
  const impact = { blocking: ["runs is read under ShareLock"], incompatible: [] }

  it("is in the comment of the migration", () => {
    const source = `/**\n * Adds an index.\n *\n * @blocks Runs wait while it is built, about\n * a second for a million of them.\n */`
    assert.deepStrictEqual(
      acceptedReason(source, "blocking"),
      Option.some("Runs wait while it is built, about a second for a million of them.")
    )
    assert.deepStrictEqual(refusedImpacts(source, impact), [])
  })

  it("must be one: a tag without a sentence, or the other tag, is not", () => {
    for (const source of [
      "/** Adds an index. */",
      "/** @blocks yes */",
      "/** @incompatible The column was never written. */"
    ]) {
      assert.deepStrictEqual(refusedImpacts(source, impact), [
        "runs is read under ShareLock: do it in steps that block no writers, or give the reason after @blocks in the migration's comment"
      ])
    }
  })
})
