import { Context, DateTime, Duration, Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import type { NewApprovalMessage } from "../../api/AgentApprovals.ts"
import type { ApprovalAlreadyDecided, ApprovalExpired } from "../../api/ApprovalProblems.ts"
import { AuthorizedEither, type Authorized } from "../../api/Authorization.ts"
import { notFound } from "../../api/notFound.ts"
import { LimitReached, type NotFound, RateLimited, type SessionOfAnotherKey } from "../../api/Problems.ts"
import {
  type ApprovalMessage,
  MAX_MESSAGE_RATE,
  MAX_MESSAGES,
  MESSAGE_RATE_SECONDS,
  type MessageSender
} from "../../domain/approvals/ApprovalMessage.ts"
import { transition } from "../../domain/approvals/ApprovalState.ts"
import { approvalMessageEvent } from "../../domain/approvals/SessionEvent.ts"
import type { ApprovalId, OrgId } from "../../domain/Ids.ts"
import type { Principal } from "../../domain/identity/Principal.ts"
import { redactText } from "../../domain/redaction/Redaction.ts"
import type { Timestamp } from "../../domain/Time.ts"
import { rowBytes, StoredUsage } from "../identity/StoredUsage.ts"
import { KnownSecrets } from "../secrets/KnownSecrets.ts"
import { StoreClock } from "../store/StoreClock.ts"
import { atomic } from "../store/transaction.ts"
import { findApproval, lockApprovalForUpdate, stateOf, toApproval, withState } from "./approvalRows.ts"
import { alreadyDecided, expired } from "./Approvals/decisionRefusals.ts"
import { countSent, insertMessage, listMessages, takeMessageNumber } from "./messageRows.ts"
import { SessionEvents } from "./SessionEvents.ts"
import { SessionFacts } from "./SessionFacts.ts"

type SendError =
  | NotFound
  | SessionOfAnotherKey
  | ApprovalAlreadyDecided
  | ApprovalExpired
  | LimitReached
  | RateLimited

/** Messages between reviewers and the agent about a pending approval. They decide nothing. */
export class Messages extends Context.Service<
  Messages,
  {
    /**
     * Sends a message. It is stored, redacted, before the approval closes, or refused: a concurrent decision takes the same locks. Each side has
     * a bounded number of messages, and a rate.
     */
    readonly send: (
      id: ApprovalId,
      message: NewApprovalMessage
    ) => Effect.Effect<ApprovalMessage, SendError, Authorized<"approvals.decide" | "sessions.write">>
    /** The messages after a number, oldest first. There are few enough for one page. */
    readonly list: (
      id: ApprovalId,
      after: number
    ) => Effect.Effect<
      ReadonlyArray<ApprovalMessage>,
      NotFound | SessionOfAnotherKey,
      Authorized<"approvals.read" | "sessions.write">
    >
  }
>()("countersign/server/approvals/Messages") {
  static readonly layer = Layer.effect(
    Messages,
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const atomically = atomic(sql)
      const clock = yield* StoreClock
      const facts = yield* SessionFacts
      const usage = yield* StoredUsage
      const events = yield* SessionEvents
      const secrets = yield* KnownSecrets

      const find = (org_id: OrgId, id: ApprovalId) =>
        Effect.flatMap(Effect.orDie(findApproval(sql, org_id, id)), (row) =>
          row === undefined ? notFound("approval") : Effect.succeed(row)
        )

      /** Stores a message under the locks of the session and the approval. Returns the approval if it is closed by now. */
      const store = Effect.fnUntraced(function* (
        { actor, org_id }: Principal,
        id: ApprovalId,
        sender: MessageSender,
        text: string
      ) {
        const row = yield* Effect.orDie(lockApprovalForUpdate(sql, org_id, id))
        if (row === undefined) return yield* notFound("approval")
        const now = yield* clock.now
        // The deadline worker may not have closed a window that has passed.
        const { state } = transition(stateOf(row), { _tag: "Time" }, now)
        if (state.status !== "pending") return { closed: withState(row, state) }
        yield* requireRate(org_id, id, sender, now)
        const number = yield* Effect.orDie(takeMessageNumber(sql, org_id, id, sender))
        const message: ApprovalMessage = { number, sender, sent_by: actor, sent_at: now, text }
        yield* Effect.orDie(insertMessage(sql, row, message))
        yield* Effect.orDie(
          events.append(
            [{ org_id, session_id: row.session_id, events: [approvalMessageEvent(row, message)] }],
            now
          )
        )
        const bytes = rowBytes.message + Buffer.byteLength(text)
        yield* sql.afterCommit(Effect.sync(() => usage.add(org_id, { bytes })))
        return { message }
      })

      /** Fails if one side has sent as many messages as it can, in all or lately. */
      const requireRate = Effect.fnUntraced(function* (
        org_id: OrgId,
        id: ApprovalId,
        sender: MessageSender,
        now: Timestamp
      ): Effect.fn.Return<void, LimitReached | RateLimited> {
        const since = DateTime.subtract(now, { seconds: MESSAGE_RATE_SECONDS })
        const sent = yield* Effect.orDie(countSent(sql, org_id, id, sender, since))
        if (sent === undefined) return
        if (sent.total >= MAX_MESSAGES)
          return yield* new LimitReached({
            detail: `Each side can send ${MAX_MESSAGES} messages on one approval. Decide it, or wait for its decision.`
          })
        if (sent.recent < MAX_MESSAGE_RATE || sent.oldest_recent === null) return
        const wait = Duration.toMillis(DateTime.distance(since, sent.oldest_recent))
        return yield* new RateLimited({
          detail: `Each side can send ${MAX_MESSAGE_RATE} messages on one approval in ${MESSAGE_RATE_SECONDS} seconds.`,
          retry_after_seconds: Math.max(1, Math.ceil(wait / 1_000))
        })
      })

      return Messages.of({
        send: Effect.fn("Messages.send")(function* (id, { text }) {
          const principal = yield* AuthorizedEither("approvals.decide", "sessions.write")
          const { actor, org_id, scopes } = principal
          const { requested_by_id, session_id } = yield* find(org_id, id)
          // The agent's key may have more scopes than it needs. Its answers must not be questions, on which the agent's wait ends.
          const isReviewer = scopes.has("approvals.decide") && requested_by_id !== actor.id
          if (!isReviewer) yield* facts.requireWritable(principal, session_id)
          yield* usage.requireCapacity(org_id)
          const redacted = redactText(text, yield* secrets.forOrg(org_id))
          const { closed, message } = yield* atomically(
            store(principal, id, isReviewer ? "reviewer" : "agent", redacted)
          )
          if (message !== undefined) return message
          const approval = toApproval(closed)
          return yield* approval.status === "expired" ? expired(approval) : alreadyDecided(approval)
        }),
        list: Effect.fn("Messages.list")(function* (id, after) {
          const principal = yield* AuthorizedEither("approvals.read", "sessions.write")
          const { session_id } = yield* find(principal.org_id, id)
          if (!principal.scopes.has("approvals.read")) yield* facts.requireWritable(principal, session_id)
          return yield* listMessages(sql, principal.org_id, id, after)
        })
      })
    })
  )
}
