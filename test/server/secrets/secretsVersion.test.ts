import { assert, describe, it, layer } from "@effect/vitest"
import { Deferred, Effect, Fiber } from "effect"
import { SqlClient } from "effect/sql"
import { OrgId } from "../../../src/domain/Ids.ts"
import { raiseSecretsVersion, readSecretsVersions } from "../../../src/server/secrets/secretsVersion.ts"
import { sealedColumns } from "../../../src/server/secrets/SecretBox/sealedColumns.ts"
import { atomic, atomicWithoutRetry } from "../../../src/server/store/transaction.ts"
import { waitForBlockedStatements } from "../../support/eventually.ts"
import { TestDatabase } from "../../support/postgres.ts"
import { findInServer } from "../../support/serverSources.ts"

layer(TestDatabase.layerSql, { excludeTestServices: true })("secretsVersion", (it) => {
  it.effect("a version is raised by the commit, once for each transaction that changes a secret", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const [org_id, other] = [yield* OrgId.generate, yield* OrgId.generate]
      const readVersion = (one: OrgId) =>
        Effect.map(readSecretsVersions(sql, [one], undefined), ([version]) => version)
      const before = yield* readVersion(org_id)
      yield* atomic(sql)(
        Effect.gen(function* () {
          yield* raiseSecretsVersion(org_id)
          yield* raiseSecretsVersion(org_id)
          // Not before: the row would stay locked during the rest of the transaction.
          assert.strictEqual(yield* readVersion(org_id), before)
        })
      )
      const first = yield* readVersion(org_id)
      assert.notStrictEqual(first, before)
      yield* atomic(sql)(raiseSecretsVersion(org_id))
      assert.notInclude([before, first], yield* readVersion(org_id))
      assert.strictEqual(yield* readVersion(other), before)
    })
  )

  it.effect("one statement reads the versions of several organizations, each in its place", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const [never, once, twice] = [yield* OrgId.generate, yield* OrgId.generate, yield* OrgId.generate]
      for (const org_id of [twice, once, twice]) yield* atomic(sql)(raiseSecretsVersion(org_id))
      assert.deepStrictEqual(yield* readSecretsVersions(sql, [twice, never, once, twice], undefined), [
        "2",
        "0",
        "1",
        "2"
      ])
      // On a cluster, each statement names its organization.
      assert.deepStrictEqual(yield* readSecretsVersions(sql, [once, once], once), ["1", "1"])
    })
  )

  it.effect(
    "two transactions that change secrets of one organization concurrently both raise its version",
    () =>
      Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        const org_id = yield* OrgId.generate
        yield* atomic(sql)(raiseSecretsVersion(org_id))
        const [locked, released] = [yield* Deferred.make<void>(), yield* Deferred.make<void>()]
        const holding = yield* Effect.forkChild(
          atomicWithoutRetry(sql)(
            Effect.gen(function* () {
              yield* sql`UPDATE secret_changes SET change_count = change_count + 1 WHERE org_id = ${org_id}`
              yield* Deferred.succeed(locked, undefined)
              yield* Deferred.await(released)
            })
          )
        )
        yield* Deferred.await(locked)
        const waiting = yield* Effect.forkChild(atomicWithoutRetry(sql)(raiseSecretsVersion(org_id)))
        yield* waitForBlockedStatements(1)
        yield* Deferred.succeed(released, undefined)
        yield* Fiber.join(holding)
        yield* Fiber.join(waiting)
        assert.deepStrictEqual(
          yield* sql`SELECT change_count::int AS n FROM secret_changes WHERE org_id = ${org_id}`,
          [{ n: 3 }]
        )
      })
  )
})

describe("writes of credentials", () => {
  it("every statement that writes a credential or the redaction rules raises the version", () => {
    const credentials = sealedColumns.filter((sealed) => sealed.credentials !== undefined)
    assert.isAbove(credentials.length, 4)
    const watched = [...credentials, { table: "redaction_settings", column: "rules" }]
    const writes = watched.flatMap(({ column, table }) => [
      ...findInServer(new RegExp(`\\b(INSERT INTO ${table})\\b`, "g")),
      // A secret that is cleared is no new one.
      ...findInServer(
        new RegExp(`\\b(UPDATE ${table})\\b(?:(?!\\bWHERE\\b).)*?\\b(${column}) = (?!NULL)`, "g")
      )
    ])
    assert.deepStrictEqual([...new Set(writes)].toSorted(), [
      "notifications/Notifications/rows.ts: INSERT INTO notification_endpoints",
      "notifications/Notifications/rows.ts: UPDATE notification_endpoints previous_secret",
      "notifications/Notifications/rows.ts: UPDATE notification_endpoints secret",
      "redaction/RedactionSettings.ts: UPDATE redaction_settings rules",
      "tasks/Providers/providerKeys.ts: INSERT INTO provider_keys",
      "telemetry/Telemetry/rows.ts: INSERT INTO telemetry_destinations"
    ])
    assert.deepStrictEqual(findInServer(/\braiseSecretsVersion\((?=\w)/g), [
      "notifications/Notifications/rows.ts: raiseSecretsVersion(",
      "notifications/Notifications/rows.ts: raiseSecretsVersion(",
      "redaction/RedactionSettings.ts: raiseSecretsVersion(",
      "tasks/Providers/providerKeys.ts: raiseSecretsVersion(",
      "telemetry/Telemetry/rows.ts: raiseSecretsVersion("
    ])
  })
})
