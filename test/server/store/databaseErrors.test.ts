import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { describeDatabaseError, isDatabaseUnavailable } from "../../../src/server/store/databaseErrors.ts"
import { TestDatabase } from "../../support/postgres.ts"

layer(TestDatabase.layerSql, { excludeTestServices: true })("databaseErrors", (it) => {
  const errorWith = (code: string) =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const statement = `DO $$ BEGIN RAISE EXCEPTION 'about ada@example.org' USING ERRCODE = '${code}'; END $$`
      return yield* Effect.flip(sql.unsafe(statement))
    })
  const raised = (code: string) => Effect.map(errorWith(code), describeDatabaseError)

  it.effect.each(["40P01", "40001", "55P03", "57014", "53300", "25P03"])(
    "a caller whose request lost a race for locks or time, or met an outage, may retry (%s)",
    (code) => Effect.map(errorWith(code), (error) => assert.isTrue(isDatabaseUnavailable(error)))
  )

  it.effect.each(["23505", "42703"])("a fault of a statement is no reason to retry (%s)", (code) =>
    Effect.map(errorWith(code), (error) => assert.isFalse(isDatabaseUnavailable(error)))
  )

  it.effect.each(["53300", "57P03", "42501"])("the server's message explains an outage (%s)", (code) =>
    Effect.map(raised(code), (text) => assert.strictEqual(text, `about ada@example.org (SQLSTATE ${code})`))
  )

  it.effect.each(["23505", "22P02", "42703", "XX000"])(
    "a message that may contain a value of a row or a statement is left out (%s)",
    (code) =>
      Effect.map(raised(code), (text) => {
        assert.notInclude(text, "ada")
        assert.include(text, `(SQLSTATE ${code})`)
      })
  )
})
