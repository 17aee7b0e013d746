import { Context, Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import type { ApprovalFilter, DecideRequest } from "../../api/AgentApprovals.ts"
import { ApprovalAlreadyDecided, ApprovalExpired } from "../../api/ApprovalProblems.ts"
import { Authorized } from "../../api/Authorization.ts"
import type { PageRequest } from "../../api/Pagination.ts"
import { AdminRequired, type NotFound, SelfApproval } from "../../api/Problems.ts"
import type { Approval } from "../../domain/approvals/Approval.ts"
import { type ApprovalRefusal, transition } from "../../domain/approvals/ApprovalState.ts"
import type { ApprovalId } from "../../domain/Ids.ts"
import { listApprovals } from "./Approvals/listApprovals.ts"
import { recordApprovalTransitions } from "./Approvals/recordTransitions.ts"
import {
  findApproval,
  lockApprovalForUpdate,
  approvalNotFound,
  stateOf,
  toApproval
} from "./Approvals/rows.ts"
import { Audit } from "../identity/Audit.ts"
import { atomic } from "../store/Database/transaction.ts"
import { Notifications } from "../notifications/Notifications.ts"
import { toPageWithinBytes, type Page } from "../store/Pagination.ts"
import { Spans } from "../telemetry/Spans.ts"
import { StoreClock } from "../store/StoreClock.ts"

/** Why a decision is not taken, as the caller hears it. */
export type DecideError = NotFound | SelfApproval | AdminRequired | ApprovalAlreadyDecided | ApprovalExpired

/** What waits for a person, and what was decided. */
export class Approvals extends Context.Service<
  Approvals,
  {
    /** Newest first. A page also ends at 8 MiB of arguments. */
    readonly list: (
      request: PageRequest<ApprovalId> & ApprovalFilter
    ) => Effect.Effect<Page<Approval, ApprovalId>, never, Authorized<"approvals.read">>
    readonly get: (id: ApprovalId) => Effect.Effect<Approval, NotFound, Authorized<"approvals.read">>
    /**
     * Closes an approval by a person's verdict. One decision is taken, however many race; the same actor's same decision again
     * changes nothing and is answered the same. A decision after the deadline is refused whether or not the scheduler came by.
     */
    readonly decide: (
      id: ApprovalId,
      request: DecideRequest
    ) => Effect.Effect<Approval, DecideError, Authorized<"approvals.decide">>
  }
>()("countersign/server/approvals/Approvals") {
  static readonly layer = Layer.effect(
    Approvals,
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const atomically = atomic(sql)
      const clock = yield* StoreClock
      const notifications = yield* Notifications
      const spans = yield* Spans
      const audit = yield* Audit

      return Approvals.of({
        list: Effect.fn("Approvals.list")(function* (request) {
          const { org_id } = yield* Authorized("approvals.read")
          const rows = yield* listApprovals(sql, org_id, request)
          return toPageWithinBytes(rows, toApproval, (row) => row.approval_id)
        }, Effect.orDie),
        get: Effect.fn("Approvals.get")(function* (id) {
          const { org_id } = yield* Authorized("approvals.read")
          const row = yield* Effect.orDie(findApproval(sql, org_id, id))
          if (row === undefined) return yield* approvalNotFound
          return toApproval(row)
        }),
        decide: Effect.fn("Approvals.decide")(function* (id, request) {
          const principal = yield* Authorized("approvals.decide")
          const { org_id, actor, scopes } = principal
          const { approval, refusal } = yield* atomically(
            Effect.gen(function* () {
              const [row] = yield* lockApprovalForUpdate(sql, org_id, id)
              if (row === undefined) return yield* approvalNotFound
              const now = yield* clock.now
              const decide = {
                _tag: "Decide" as const,
                decision: request.decision,
                actor,
                admin: scopes.has("approvals.admin"),
                comment: request.comment ?? null
              }
              const { refusal, transitions } = transition(stateOf(row), decide, now)
              // Also when the decision is refused: the windows that have passed are closed now, not when the scheduler comes.
              const moved = yield* recordApprovalTransitions(
                { notifications, spans, sql },
                row,
                transitions,
                now
              )
              if (refusal === null && transitions.length > 0) {
                const { session_id, stage, step_id, tool } = moved
                const action = request.decision === "approve" ? "approval.approved" : "approval.rejected"
                yield* audit.record(principal, action, id, { session_id, step_id, tool, stage })
              }
              return { approval: toApproval(moved), refusal }
            })
          )
          if (refusal !== null) return yield* refused(refusal, approval)
          return approval
        })
      })
    })
  )
}

const refused = (refusal: ApprovalRefusal, approval: Approval): Effect.Effect<never, DecideError> => {
  switch (refusal) {
    case "AlreadyDecided":
      return Effect.fail(
        new ApprovalAlreadyDecided({
          detail: `It was ${approval.status} before; nothing has changed`,
          approval
        })
      )
    case "Expired":
      return Effect.fail(
        new ApprovalExpired({
          detail: "It closed without a person's decision; the step is answered by that",
          approval
        })
      )
    case "AdminRequired":
      return Effect.fail(
        new AdminRequired({ detail: "The reviewers' window is over; a key with approvals.admin decides now" })
      )
    case "SelfApproval":
      return Effect.fail(
        new SelfApproval({
          detail: "The key that asked for this step may not decide it; use another person's key"
        })
      )
  }
}
