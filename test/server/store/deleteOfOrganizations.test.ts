import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { deleteOfOrganizations } from "../../../src/server/store/deleteOfOrganizations.ts"
import { TestDatabase } from "../../support/postgres.ts"

layer(TestDatabase.layerSql, { excludeTestServices: true })("deleteOfOrganizations", (it) => {
  it.effect("on a cluster an organization whose node fails does not stop the others", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      yield* sql`
        INSERT INTO organizations (org_id, name, created_at)
        SELECT org_id, org_id, now()
        FROM unnest(ARRAY['org_1', 'org_2', 'org_3']) AS o (org_id)
      `
      const cluster = new Proxy(sql, {
        apply: (target, self, [text, ...values]): unknown =>
          /pg_extension/.test(text) ? Effect.succeed([{}]) : Reflect.apply(target, self, [text, ...values])
      })
      const deleted: Array<unknown> = []
      const failure = yield* Effect.flip(
        deleteOfOrganizations(
          cluster,
          (org_id) =>
            org_id === "org_1"
              ? Effect.fail("The node is down")
              : Effect.sync(() => (deleted.push(org_id) > 0 ? 1 : 0)),
          { rows: 2, steps: 3 }
        )
      )
      assert.strictEqual(failure, "The node is down")
      assert.deepStrictEqual(deleted, ["org_2", "org_3"])
    })
  )
})
