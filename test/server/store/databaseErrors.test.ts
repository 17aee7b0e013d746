import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { describeDatabaseError } from "../../../src/server/store/databaseErrors.ts"
import { TestDatabase } from "../../support/postgres.ts"

layer(TestDatabase.layerSql, { excludeTestServices: true })("describeDatabaseError", (it) => {
  const raised = (code: string) =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const statement = `DO $$ BEGIN RAISE EXCEPTION 'about ada@example.org' USING ERRCODE = '${code}'; END $$`
      return describeDatabaseError(yield* Effect.flip(sql.unsafe(statement)))
    })

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
