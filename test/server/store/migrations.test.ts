import { assert, describe, it, layer } from "@effect/vitest"
import { Effect, Layer, Result, Stream } from "effect"
import { SqlClient } from "effect/sql"
import { readdirSync } from "node:fs"
import { type VerifiedChain, verifyEntry } from "../../../src/domain/identity/AuditChain.ts"
import { ordinalOf, PostingList, tokensOf } from "../../../src/domain/tasks/Postings.ts"
import { OrgId } from "../../../src/domain/Ids.ts"
import { AuditChain } from "../../../src/server/identity/AuditChain.ts"
import auditChain from "../../../src/server/store/migrations/0038_audit_chain.ts"
import wordIndex from "../../../src/server/store/migrations/0046_word_index.ts"
import runLists from "../../../src/server/store/migrations/0050_run_lists.ts"
import { StoreClock } from "../../../src/server/store/StoreClock.ts"
import { migrations } from "../../../src/server/store/migrations/index.ts"
import { TestDatabase } from "../../support/postgres.ts"

describe("migrations", () => {
  it("every migration file is registered under its name, in the order of the numbers", () => {
    const files = readdirSync(new URL("../../../src/server/store/migrations/", import.meta.url))
      .filter((name) => /^\d{4}_\w+\.ts$/.test(name))
      .map((name) => name.slice(0, -".ts".length))
      .toSorted()
    assert.deepStrictEqual(Object.keys(migrations), files)
  })

  it("no two migrations have the same number", () => {
    const numbers = Object.keys(migrations).map((name) => name.slice(0, 4))
    assert.strictEqual(new Set(numbers).size, numbers.length)
  })
})

layer(TestDatabase.layerSql, { excludeTestServices: true })("the migrated schema", (it) => {
  it.effect("every table and every column has a comment", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const missing = yield* sql<{ readonly name: string }>`
        SELECT concat_ws('.', c.relname, a.attname) AS name
        FROM pg_class c
        JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
        WHERE c.relnamespace = 'public'::regnamespace
          AND c.relkind IN ('r', 'p')
          AND NOT c.relispartition
          AND (col_description(c.oid, a.attnum) IS NULL OR obj_description(c.oid, 'pg_class') IS NULL)
        ORDER BY 1
      `
      assert.deepStrictEqual(missing, [])
    })
  )

  it.effect("the migration of run lists indexes existing runs and counts existing feedback", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const asBefore = [
        "DROP TABLE run_metadata, run_reviews, feedback_counts",
        "DROP TRIGGER runs_metadata_added ON runs",
        "DROP TRIGGER runs_removed ON runs",
        "DROP TRIGGER feedback_run ON feedback",
        "DROP TRIGGER feedback_added ON feedback",
        "DROP TRIGGER feedback_removed ON feedback",
        "DROP FUNCTION run_metadata_added, run_removed, feedback_run, feedback_added, feedback_removed",
        "ALTER TABLE tasks DROP COLUMN review_share",
        "ALTER TABLE runs DROP COLUMN bytes, DROP COLUMN started_at",
        "DROP INDEX runs_task, runs_release, runs_failed",
        "ALTER TABLE feedback DROP COLUMN run_id, DROP COLUMN release_id",
        `INSERT INTO runs (
          org_id, trace_id, run_id, task_id, release_id, source, status, input, answer, metadata, provider, model, input_tokens,
          output_tokens, provider_calls, duration_ms, created_at, created_by_id, created_by_name
        )
        SELECT
          'org', 'trace ' || source, 'run ' || source, 'task', 'release', source, 'succeeded', '{}', '{}',
          '{"customer":"Ä","nested":{"a":1},"tries":1.5}', 'examples', 'nearest', 0, 0, 0, 1, now(), 'key', 'key'
        FROM unnest(ARRAY['provider', 'logged']) AS source`,
        `INSERT INTO feedback (
          org_id, feedback_id, task_id, trace_id, score, bytes, status, created_at, created_by_id, created_by_name
        )
        SELECT 'org', 'feedback ' || n, 'task', trace_id, n - 1, 0, 'recorded', '2026-11-20T23:59:59Z', 'key', 'key'
        FROM runs, generate_series(0, 2) AS n
        WHERE n > 0 AND source = 'provider' OR n = 0 AND source = 'logged'`
      ]
      yield* Effect.forEach(asBefore, (statement) => sql.unsafe(statement))
      yield* runLists
      assert.deepStrictEqual(
        yield* sql`SELECT score, run_id, release_id FROM feedback WHERE org_id = 'org' ORDER BY score`,
        [
          { score: -1, run_id: "run logged", release_id: null },
          { score: 0, run_id: "run provider", release_id: "release" },
          { score: 1, run_id: "run provider", release_id: "release" }
        ]
      )
      assert.deepStrictEqual(
        yield* sql`
          SELECT release_id, day::text AS day, positive::int AS positive, neutral::int AS neutral, negative::int AS negative
          FROM feedback_counts
          WHERE org_id = 'org'
          ORDER BY release_id
        `,
        [
          { release_id: "", day: "2026-11-20", positive: 0, neutral: 0, negative: 1 },
          { release_id: "release", day: "2026-11-20", positive: 1, neutral: 1, negative: 0 }
        ]
      )
      assert.deepStrictEqual(
        yield* sql`
          SELECT run_id
          FROM run_metadata
          WHERE digest = substr(sha256(convert_to('customer="Ä"', 'UTF8')), 1, 16)
          ORDER BY run_id
        `,
        [{ run_id: "run logged" }, { run_id: "run provider" }]
      )
      assert.deepStrictEqual(yield* sql`SELECT count(*)::int AS count FROM run_metadata`, [{ count: 4 }])
      yield* sql`DELETE FROM feedback WHERE org_id = 'org'`
      yield* sql`DELETE FROM runs WHERE org_id = 'org'`
    })
  )

  it.effect("the migration of the audit chain chains existing entries in the order of their ids", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const asBefore = [
        "DROP TABLE audit_chain, audit_heads",
        "DROP TRIGGER audit_log_chain ON audit_log",
        "DROP FUNCTION audit_log_chain, audit_chain_append(audit_log), audit_chain_digest(bytea, bigint, audit_log)",
        `INSERT INTO audit_log (org_id, entry_id, action, target_id, actor_id, actor_name, occurred_at, request_id, detail)
          SELECT 'org_' || lpad(to_hex(n % 2), 32, '0'), 'aud_' || lpad(to_hex(n), 32, '0'), 'key.created', 'key_1', 'key_2', 'Ä "', now(),
            'req_1', '{"name":"\u2028 é","n":1.5}'
          FROM generate_series(9, 0, -1) n`
      ]
      yield* Effect.forEach(asBefore, (statement) => sql.unsafe(statement))
      yield* auditChain
      // Each head is written once: with a version for each entry, which no one can remove before the commit, a million
      // entries would take days.
      const heads =
        yield* sql`SELECT ctid::text AS place, position::int AS position FROM audit_heads ORDER BY ctid`
      assert.deepStrictEqual(heads, [
        { place: "(0,1)", position: 5 },
        { place: "(0,2)", position: 5 }
      ])
      // The chains continue.
      yield* sql`
        INSERT INTO audit_log (org_id, entry_id, action, target_id, occurred_at, detail)
        SELECT org_id, 'aud_' || repeat('f', 32), 'key.created', 'key_1', now(), '{}'
        FROM audit_heads
      `
      const chain = yield* Effect.provide(AuditChain, AuditChain.layer.pipe(Layer.provide(StoreClock.layer)))
      for (const org of ["0", "1"]) {
        const org_id = OrgId.make(`org_${org.padStart(32, "0")}`)
        const entries = yield* Stream.runCollect(chain.exportFor(org_id, 0))
        assert.deepStrictEqual(
          entries.map(({ position }) => position),
          [1, 2, 3, 4, 5, 6]
        )
        assert.deepStrictEqual(
          entries,
          entries.toSorted((a, b) => (a.id < b.id ? -1 : 1))
        )
        let verified: VerifiedChain | undefined
        for (const entry of entries) verified = Result.getOrThrow(verifyEntry(verified, entry))
      }
    })
  )

  it.effect("the migration of the word index numbers the inputs of each task and lists them by word", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const asBefore = [
        "DROP TABLE dataset_postings",
        "ALTER TABLE datasets DROP COLUMN last_ordinal",
        "ALTER TABLE dataset_examples DROP COLUMN ordinal, ADD COLUMN rare_tokens bigint[] NOT NULL",
        "CREATE TABLE dataset_words (org_id text, task_id text, counts bytea)",
        // Two tasks of 1,000 examples in two versions. The second version replaces each tenth input of the first.
        `INSERT INTO dataset_examples (
          org_id, task_id, example_id, first_version, until_version, input, answer, bytes, input_digest, tokens, rare_tokens
        )
        SELECT
          'org_1', 'tsk_' || t, 'exm_' || lpad(n::text, 4, '0'), CASE WHEN n <= 900 THEN 1 ELSE 2 END,
          CASE WHEN n % 10 = 0 AND n <= 900 THEN 2 END, '{}', '{}', 4,
          decode(lpad(CASE WHEN n <= 990 THEN n WHEN n = 1000 THEN 1000 ELSE (n - 990) * 10 END::text, 8, '0'), 'hex'),
          CASE WHEN n % 2 = 0 OR n BETWEEN 991 AND 999 THEN ARRAY[-5, 7] ELSE ARRAY[7, 1000 + n] END, '{}'
        FROM generate_series(1, 1000) n, generate_series(1, 2) t`,
        `INSERT INTO datasets (
          org_id, dataset_id, task_id, version, example_count, content_state, content_digest, last_example_id, created_at,
          created_by_id, created_by_name
        )
        SELECT 'org_1', 'dst_' || t || v, 'tsk_' || t, v, 1, '', '', '', now(), '', '' FROM generate_series(1, 2) t, generate_series(1, 2) v`
      ]
      yield* Effect.forEach(asBefore, (statement) => sql.unsafe(statement))
      yield* wordIndex
      const inputs = yield* sql<{
        readonly ordinals: number
        readonly inputs: number
        readonly last: number
      }>`
        SELECT count(DISTINCT ordinal)::int AS ordinals, count(DISTINCT input_digest)::int AS inputs, max(ordinal) AS last
        FROM dataset_examples
        WHERE task_id = 'tsk_1'
      `
      // Examples 991 to 999 have the inputs of examples 10, 20, … and 90.
      assert.deepStrictEqual(inputs, [{ ordinals: 991, inputs: 991, last: 991 }])
      const versions = yield* sql`SELECT dataset_id, last_ordinal FROM datasets ORDER BY dataset_id`
      assert.deepStrictEqual(versions, [
        { dataset_id: "dst_11", last_ordinal: 900 },
        { dataset_id: "dst_12", last_ordinal: 991 },
        { dataset_id: "dst_21", last_ordinal: 900 },
        { dataset_id: "dst_22", last_ordinal: 991 }
      ])
      for (const word of [-5, 7, 1_003]) {
        const chunks = yield* sql<{
          readonly first_ordinal: number
          readonly earlier: number
          readonly postings: Uint8Array
        }>`
          SELECT first_ordinal, earlier, postings
          FROM dataset_postings
          WHERE org_id = 'org_1' AND task_id = 'tsk_2' AND word = ${word}::int
          ORDER BY first_ordinal
        `
        const listed: Array<number> = []
        for (const { earlier, first_ordinal, postings } of chunks) {
          assert.strictEqual(earlier, listed.length)
          const list = [...new PostingList(postings).postings]
          assert.strictEqual(ordinalOf(list[0]!), first_ordinal)
          for (const posting of list) {
            assert.strictEqual(tokensOf(posting), 2)
            listed.push(ordinalOf(posting))
          }
        }
        const having = yield* sql<{ readonly ordinal: number }>`
          SELECT DISTINCT ordinal
          FROM dataset_examples
          WHERE task_id = 'tsk_2' AND ${word}::int = ANY (tokens)
          ORDER BY ordinal
        `
        assert.deepStrictEqual(
          listed,
          having.map(({ ordinal }) => ordinal)
        )
      }
    })
  )
})
