import { Context, Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import { Authorized } from "../../api/Authorization.ts"
import type { GrantFilter } from "../../api/Grants.ts"
import { notFound } from "../../api/notFound.ts"
import type { PageRequest } from "../../api/Pagination.ts"
import type { NotFound } from "../../api/Problems.ts"
import type { Grant } from "../../domain/approvals/Grant.ts"
import type { GrantId, OrgId } from "../../domain/Ids.ts"
import type { Timestamp } from "../../domain/Time.ts"
import { Audit } from "../identity/Audit.ts"
import type { Page } from "../store/Pagination.ts"
import { StoreClock } from "../store/StoreClock.ts"
import { atomic } from "../store/transaction.ts"
import { findGrant, listGrants, revokeGrant } from "./Grants/rows.ts"

/** Standing grants. They are made by `Approvals.decide` and used by `Steps.check`. */
export class Grants extends Context.Service<
  Grants,
  {
    /** Lists grants, newest first. */
    readonly list: (
      request: PageRequest<GrantId> & GrantFilter
    ) => Effect.Effect<Page<Grant, GrantId>, never, Authorized<"approvals.read">>
    readonly get: (id: GrantId) => Effect.Effect<Grant, NotFound, Authorized<"approvals.read">>
    /** Ends a grant: a step whose decision begins afterwards is not allowed by it. A grant that has ended is returned as it is. */
    readonly revoke: (id: GrantId) => Effect.Effect<Grant, NotFound, Authorized<"approvals.decide">>
  }
>()("countersign/server/approvals/Grants") {
  static readonly layer = Layer.effect(
    Grants,
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const atomically = atomic(sql)
      const clock = yield* StoreClock
      const audit = yield* Audit

      const find = Effect.fnUntraced(function* (org_id: OrgId, id: GrantId, now: Timestamp) {
        return (yield* findGrant(sql, org_id, id, now)) ?? (yield* notFound("grant"))
      })

      return Grants.of({
        list: Effect.fn("Grants.list")(function* (request) {
          const { org_id } = yield* Authorized("approvals.read")
          return yield* listGrants(sql, org_id, request, yield* clock.now)
        }, Effect.orDie),
        get: Effect.fn("Grants.get")(function* (id) {
          const { org_id } = yield* Authorized("approvals.read")
          return yield* find(org_id, id, yield* clock.now)
        }),
        revoke: Effect.fn("Grants.revoke")(function* (id) {
          const principal = yield* Authorized("approvals.decide")
          const { actor, org_id } = principal
          return yield* atomically(
            Effect.gen(function* () {
              const now = yield* clock.now
              const isRevoked = yield* revokeGrant(sql, { org_id, grant_id: id, actor, now })
              const grant = yield* find(org_id, id, now)
              if (isRevoked) {
                const { session_id, tool, uses } = grant
                yield* audit.record(principal, "grant.revoked", id, { session_id, tool, uses })
              }
              return grant
            })
          )
        })
      })
    })
  )
}
