import { Context, Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import { NotFound } from "../../api/Problems.ts"
import { OrgId } from "../../domain/Ids.ts"
import { toDate } from "../../domain/Time.ts"
import { StoreClock } from "../store/StoreClock.ts"
import { startChains } from "./auditWrites.ts"

/** The tenants. The operator names an organization; every other record belongs to one. */
export class Organizations extends Context.Service<
  Organizations,
  {
    /** The id of the organization with this name, which is created if it does not exist. */
    readonly ensure: (name: string) => Effect.Effect<OrgId>
    /** Returns the id of the organization with this name. */
    readonly findByName: (name: string) => Effect.Effect<OrgId, NotFound>
    /** Locks the organization's row until the caller's transaction ends: for rules about all keys or all endpoints of it. */
    readonly lockForUpdate: (org_id: OrgId) => Effect.Effect<void>
    /** Locks the table of organizations against writes until the caller's transaction ends. */
    readonly lockAll: Effect.Effect<void>
    /** Whether any organization has a key. */
    readonly hasAnyKey: Effect.Effect<boolean>
  }
>()("countersign/server/identity/Organizations") {
  static readonly layer = Layer.effect(
    Organizations,
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const clock = yield* StoreClock

      const find = Effect.fnUntraced(function* (name: string) {
        const rows = yield* sql<{ readonly org_id: string }>`
          SELECT org_id
          FROM organizations
          WHERE name = ${name}
        `
        return rows[0] === undefined ? undefined : OrgId.make(rows[0].org_id)
      }, Effect.orDie)

      return Organizations.of({
        ensure: Effect.fn("Organizations.ensure")(function* (name) {
          const now = yield* clock.now
          const id = yield* OrgId.generate
          yield* sql`
            WITH created AS (
              INSERT INTO organizations (org_id, name, created_at)
              VALUES (${id}, ${name}, ${toDate(now)})
              ON CONFLICT (name) DO NOTHING
              RETURNING org_id
            )
            ${startChains(sql, sql`SELECT org_id FROM created`)}
          `.pipe(Effect.orDie)
          return (yield* find(name)) ?? id
        }),
        findByName: Effect.fn("Organizations.findByName")(function* (name) {
          const id = yield* find(name)
          return id ?? (yield* new NotFound({ detail: `No organization is named ${name}.` }))
        }),
        lockForUpdate: (org_id) =>
          Effect.asVoid(
            Effect.orDie(sql`SELECT 1 FROM organizations WHERE org_id = ${org_id} FOR NO KEY UPDATE`)
          ),
        lockAll: Effect.asVoid(Effect.orDie(sql`LOCK TABLE organizations IN SHARE ROW EXCLUSIVE MODE`)),
        hasAnyKey: Effect.map(
          Effect.orDie(sql<{ readonly found: boolean }>`SELECT EXISTS (SELECT 1 FROM api_keys) AS found`),
          (rows) => rows[0]?.found === true
        )
      })
    })
  )
}
