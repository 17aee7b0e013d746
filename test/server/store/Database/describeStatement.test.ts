import { assert, describe, it } from "@effect/vitest"
import { describeStatement } from "../../../../src/server/store/Database/describeStatement.ts"

const expectAll = (cases: Readonly<Record<string, string>>) => {
  for (const [text, expected] of Object.entries(cases))
    assert.strictEqual(describeStatement(text), expected, text)
}

describe("the description of a statement", () => {
  it("is its verb and its first table, without schema, quotes and alias", () => {
    expectAll({
      "\n  SELECT id\n FROM runs r WHERE text = $1": "SELECT runs",
      "select * from only runs": "SELECT runs",
      'SELECT * FROM "public"."runs" AS "s3cret"': "SELECT runs",
      "SELECT * FROM pg_temp.moved_changes WHERE key = $1": "SELECT moved_changes",
      "INSERT INTO audit_log (id) VALUES ($1)": "INSERT audit_log",
      "INSERT INTO tasks AS t (id) SELECT id FROM runs ON CONFLICT DO UPDATE SET id = $1": "INSERT tasks",
      'UPDATE "deliveries" AS d SET a = q.a FROM delivery_queue q': "UPDATE deliveries",
      "UPDATE ONLY deliveries d SET a = $1": "UPDATE deliveries",
      "DELETE FROM runs r USING tasks t WHERE t.id = r.task_id": "DELETE runs",
      "MERGE INTO tasks t USING runs r ON true WHEN MATCHED THEN UPDATE SET a = 1": "MERGE tasks",
      COMMIT: "COMMIT",
      "SELECT pg_advisory_xact_lock($1)": "SELECT",
      "": "statement",
      "'s3cret'": "statement"
    })
  })

  it("resolves the names of queries of WITH to their tables", () => {
    expectAll({
      "WITH due AS (SELECT 1 FROM queue FOR NO KEY UPDATE SKIP LOCKED) SELECT * FROM due": "SELECT queue",
      "WITH d AS (SELECT unnest($1::text[]) AS id) SELECT * FROM d JOIN deliveries q USING (id)":
        "SELECT deliveries",
      "WITH a AS (SELECT 1), b (x) AS NOT MATERIALIZED (SELECT * FROM runs), c AS (SELECT * FROM b) SELECT * FROM c":
        "SELECT runs",
      "WITH c AS (SELECT * FROM a, b), a AS (SELECT 1 FROM runs) SELECT * FROM a": "SELECT runs",
      // Outside of WITH RECURSIVE, a query cannot refer to itself: its table has the same name.
      "WITH runs AS (SELECT * FROM runs) SELECT * FROM runs": "SELECT runs",
      "WITH a AS (SELECT 1) SELECT * FROM public.a": "SELECT a",
      "WITH RECURSIVE lanes AS ((SELECT 1 FROM queue LIMIT 1) UNION ALL SELECT 1 FROM lanes l) SELECT * FROM lanes":
        "SELECT queue",
      "WITH RECURSIVE n AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM n) SELECT * FROM n JOIN tasks ON true":
        "SELECT tasks",
      "WITH RECURSIVE a AS (SELECT * FROM b, b), b AS (SELECT * FROM a, a) SELECT * FROM a": "SELECT",
      "WITH d AS (SELECT * FROM deliveries) SELECT * FROM (WITH e AS (SELECT * FROM d) SELECT * FROM e) f":
        "SELECT deliveries"
    })
  })

  it("is the first change of WITH, and a lock of rows is none", () => {
    expectAll({
      "WITH due AS (SELECT 1 FROM queue) UPDATE deliveries SET a = $1": "UPDATE deliveries",
      "WITH d AS (DELETE FROM runs RETURNING id) INSERT INTO audit_log SELECT id FROM d": "DELETE runs",
      "WITH d AS (UPDATE tasks t SET a = 1 RETURNING *) SELECT * FROM d": "UPDATE tasks",
      "WITH due AS (SELECT 1 FROM queue q FOR UPDATE OF q) SELECT * FROM due": "SELECT queue"
    })
  })

  it("is not misled by FROM in expressions, functions and subqueries", () => {
    expectAll({
      "SELECT extract(epoch FROM d.due_at), d.a IS DISTINCT FROM d.b FROM deliveries d": "SELECT deliveries",
      "SELECT (SELECT max(id) FROM feedback), 1 FROM runs": "SELECT runs",
      "SELECT EXISTS (SELECT 1 FROM feedback WHERE id = $1)": "SELECT feedback",
      "SELECT coalesce((SELECT trim(both FROM name) FROM tasks), $1)": "SELECT tasks",
      "SELECT * FROM unnest($1::text[]) a": "SELECT",
      "SELECT * FROM unnest($1::text[]) AS given (id), LATERAL (SELECT 1 FROM runs) r": "SELECT runs",
      "SELECT * FROM (VALUES ($1)) v (id) LEFT JOIN tasks t USING (id) WHERE a IN (SELECT 1 FROM runs)":
        "SELECT tasks",
      "SELECT * FROM (runs r JOIN tasks t ON true)": "SELECT runs",
      "(SELECT 1 FROM runs) UNION (SELECT 1 FROM tasks)": "SELECT runs"
    })
  })

  it("never contains text of comments and literals, complete or not", () => {
    expectAll({
      "SELECT ' FROM s3cret' FROM runs": "SELECT runs",
      "SELECT 'it''s FROM s3cret' FROM runs": "SELECT runs",
      "SELECT E'\\' FROM s3cret' FROM runs": "SELECT runs",
      "SELECT $$ FROM s3cret $$ FROM runs": "SELECT runs",
      "SELECT $a$ $b$ FROM s3cret $a$ FROM runs": "SELECT runs",
      "-- UPDATE s3cret\n/* DELETE FROM s3cret */ SELECT 1 FROM runs": "SELECT runs",
      'SELECT "a FROM s3cret" FROM runs': "SELECT runs",
      'SELECT 1 FROM "s3cret, with a blank"': "SELECT",
      "SELECT ' FROM s3cret": "SELECT",
      "SELECT $$ FROM s3cret": "SELECT",
      "SELECT /* FROM s3cret": "SELECT",
      "UPDATE 's3cret'": "UPDATE"
    })
  })

  it("takes little time for a long or deeply nested statement", () => {
    const values = "($1), ".repeat(1_000_000)
    assert.strictEqual(describeStatement(`INSERT INTO runs (id) VALUES ${values}`), "INSERT runs")
    assert.strictEqual(describeStatement(`SELECT ${"(SELECT ".repeat(100_000)}`), "SELECT")
    assert.strictEqual(describeStatement(`SELECT ${"(".repeat(100_000)}1 FROM runs`), "SELECT")
    const queries = Array.from(
      { length: 60 },
      (_, at) => `, q${at + 1} AS (SELECT 1 FROM q${at}, q${at})`
    ).join("")
    assert.strictEqual(describeStatement(`WITH q0 AS (SELECT 1)${queries} SELECT 1 FROM q60`), "SELECT")
  })
})
