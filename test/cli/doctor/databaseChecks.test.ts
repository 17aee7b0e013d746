import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { checkMoves } from "../../../src/cli/doctor/databaseChecks.ts"
import { TestDatabase } from "../../support/postgres.ts"

layer(TestDatabase.layerSql, { excludeTestServices: true })("the check of moves", (it) => {
  it.effect("warns of copies that were forgotten", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      yield* sql`
        INSERT INTO organization_copies (org_id, copy_id, name, created_at, schema_version, row_count, receipt)
        SELECT 'org_' || days, 'copy', 'acme', now() - days * interval '1 day', 1, 0, 'receipt'
        FROM unnest(ARRAY[1, 6, 8]) AS days
      `
      const { advice, status, summary } = yield* checkMoves
      assert.strictEqual(status, "warning")
      assert.strictEqual(summary, "1 copy of an organization is older than a week")
      assert.include(advice ?? "", "countersign org abort")
      yield* sql`DELETE FROM organization_copies WHERE org_id = 'org_8'`
      assert.strictEqual((yield* checkMoves).status, "ok")
    })
  )
})
