import { Effect } from "effect"
import { HttpServerResponse } from "effect/http"
import type { OrgId } from "../../domain/Ids.ts"
import { OrganizationMoves } from "../identity/OrganizationMoves.ts"
import { problemResponse } from "./problemResponse.ts"

/** A move takes longer than the three retries of a client would last after the second that other refusals ask for. */
const RETRY_AFTER_SECONDS = "5"

/** Runs requests, except those of organizations that move to or from another installation. */
export const makeMoveGate = Effect.map(OrganizationMoves, ({ isFenced, refusalOf, track }) => ({
  /** Runs an authenticated operation, or responds with the reason for its refusal. */
  run:
    (org_id: OrgId, { method }: { readonly method: string }) =>
    <E, R>(
      operation: Effect.Effect<HttpServerResponse.HttpServerResponse, E, R>
    ): Effect.Effect<HttpServerResponse.HttpServerResponse, E, R> =>
      Effect.suspend(() => {
        const isRead = method === "GET"
        const refusal = refusalOf(org_id, isRead)
        if (refusal !== undefined) {
          const response = problemResponse(refusal)
          return refusal.status === 503
            ? Effect.map(response, HttpServerResponse.setHeader("retry-after", RETRY_AFTER_SECONDS))
            : response
        }
        // A few reads write too. Those that begin while the organization is frozen are not waited for: there may always be some.
        return isFenced(org_id) ? operation : track(org_id)(operation)
      })
}))
