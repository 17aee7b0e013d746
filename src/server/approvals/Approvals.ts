import { Context, Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import type { ApprovalFilter, DecideRequest } from "../../api/AgentApprovals.ts"
import { ApprovalAlreadyDecided, ApprovalExpired } from "../../api/ApprovalProblems.ts"
import { Authorized } from "../../api/Authorization.ts"
import { notFound } from "../../api/notFound.ts"
import type { PageRequest } from "../../api/Pagination.ts"
import { AdminRequired, type NotFound, SelfApproval } from "../../api/Problems.ts"
import type { Approval } from "../../domain/approvals/Approval.ts"
import { type ApprovalRefusal, transition } from "../../domain/approvals/ApprovalState.ts"
import type { ApprovalId } from "../../domain/Ids.ts"
import { listApprovals } from "./Approvals/listApprovals.ts"
import { recordTransitionsOf } from "./Approvals/recordTransitions.ts"
import { findApproval, lockApprovalForUpdate, stateOf, toApproval } from "./approvalRows.ts"
import { Audit } from "../identity/Audit.ts"
import { atomic } from "../store/transaction.ts"
import { Notifications } from "../notifications/Notifications.ts"
import { toPageWithinBytes, type Page } from "../store/Pagination.ts"
import { SessionEvents } from "./SessionEvents.ts"
import { Spans } from "../telemetry/Spans.ts"
import { StoreClock } from "../store/StoreClock.ts"

/** Why a decision is refused. */
export type DecideError = NotFound | SelfApproval | AdminRequired | ApprovalAlreadyDecided | ApprovalExpired

/** Approvals: pending requests for a person's decision, and closed ones. */
export class Approvals extends Context.Service<
  Approvals,
  {
    /** Newest first. A page ends at its limit or at 8 MiB of arguments, whichever comes first. */
    readonly list: (
      request: PageRequest<ApprovalId> & ApprovalFilter
    ) => Effect.Effect<Page<Approval, ApprovalId>, never, Authorized<"approvals.read">>
    /** Returns an approval with the arguments of its step. */
    readonly get: (id: ApprovalId) => Effect.Effect<Approval, NotFound, Authorized<"approvals.read">>
    /**
     * Approves or rejects a pending approval. Of concurrent decisions exactly one is accepted; the same decision by the same actor is
     * idempotent. A decision after the deadline is refused, whether or not the deadline worker has run.
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
      const events = yield* SessionEvents
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
          if (row === undefined) return yield* notFound("approval")
          return toApproval(row)
        }),
        decide: Effect.fn("Approvals.decide")(function* (id, request) {
          const principal = yield* Authorized("approvals.decide")
          const { org_id, actor, scopes } = principal
          const { approval, refusal } = yield* atomically(
            Effect.gen(function* () {
              const row = yield* lockApprovalForUpdate(sql, org_id, id)
              if (row === undefined) return yield* notFound("approval")
              const now = yield* clock.now
              const decide = {
                _tag: "Decide" as const,
                decision: request.decision,
                actor,
                admin: scopes.has("approvals.admin"),
                comment: request.comment ?? null
              }
              const { refusal, transitions } = transition(stateOf(row), decide, now)
              // Also if the decision is refused: windows that have passed are closed now, without waiting for the deadline worker.
              const decided = yield* recordTransitionsOf(
                { events, notifications, spans, sql },
                row,
                transitions,
                now
              )
              if (refusal === null && transitions.length > 0) {
                const { session_id, stage, step_id, tool } = decided
                const action = request.decision === "approve" ? "approval.approved" : "approval.rejected"
                yield* audit.record(principal, action, id, { session_id, step_id, tool, stage })
              }
              return { approval: toApproval(decided), refusal }
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
          detail: `Already ${approval.status}. This request changed nothing.`,
          approval
        })
      )
    case "Expired":
      return Effect.fail(
        new ApprovalExpired({
          detail: closedWithoutDecision(approval),
          approval
        })
      )
    case "AdminRequired":
      return Effect.fail(
        new AdminRequired({
          detail: "The approval was escalated to the admins. Decide it with a key that has approvals.admin."
        })
      )
    case "SelfApproval":
      return Effect.fail(
        new SelfApproval({
          detail: "The key that requested this approval cannot decide it. Use another person's key."
        })
      )
  }
}

const closedWithoutDecision = ({ decision_source }: Approval): string =>
  decision_source === "session_closed"
    ? "The session was closed before anyone decided; the step was rejected."
    : "The approval expired before anyone decided; the step got the rule's timeout action."
