import { Array as Arr, Context, Effect, Layer, Option } from "effect"
import { SqlClient } from "effect/sql"
import type { AgentSessionFilter, NewAgentSession } from "../../api/AgentSessions.ts"
import { Authorized, AuthorizedEither } from "../../api/Authorization.ts"
import type { PageRequest } from "../../api/Pagination.ts"
import { notFound } from "../../api/notFound.ts"
import {
  type InsufficientScope,
  type InvalidRequest,
  LimitReached,
  type NotFound,
  type SessionOfAnotherKey
} from "../../api/Problems.ts"
import type { AgentSession } from "../../domain/approvals/AgentSession.ts"
import { transition } from "../../domain/approvals/ApprovalState.ts"
import { transition as transitionExecution } from "../../domain/approvals/Execution.ts"
import { type ApprovalId, generateTraceId, type OrgId, SessionId, type StepId } from "../../domain/Ids.ts"
import { executionEvents, sessionClosedEvent } from "../../domain/approvals/SessionEvent.ts"
import { type Timestamp, toDate } from "../../domain/Time.ts"
import { lockPendingApprovals } from "./Approvals/transitionRows.ts"
import { recordTransitions } from "./Approvals/recordTransitions.ts"
import { type ApprovalRow, stateOf } from "./approvalRows.ts"
import { countUnknown } from "./Claims/claimSaved.ts"
import { findExecuting, makeUnknown } from "./executionRows.ts"
import type { SessionKey } from "./SessionStream/Subscription.ts"
import { canHaveGrants, endSessionGrants } from "./Grants/rows.ts"
import { Audit } from "../identity/Audit.ts"
import { makeCountLimit } from "../admission/makeCountLimit.ts"
import { OrganizationLimits } from "../admission/OrganizationLimits.ts"
import { rowBytes, StoredUsage } from "../identity/StoredUsage.ts"
import { LimitUse } from "../observability/LimitUse.ts"
import { isNearLimit, reportQuota } from "../observability/reportQuota.ts"
import { afterCommit, atomic, isInTransaction } from "../store/transaction.ts"
import { Notifications } from "../notifications/Notifications.ts"
import type { Page } from "../store/Pagination.ts"
import { SessionEvents } from "./SessionEvents.ts"
import { SessionFacts } from "./SessionFacts.ts"
import {
  countOpenSessions,
  findSession,
  lockSessionForUpdate,
  insertSessions,
  listSessions,
  type NewSessionRow
} from "./Sessions/rows.ts"
import { requireTask } from "../tasks/requireTask.ts"
import { Spans } from "../telemetry/Spans.ts"
import { KnownSecrets } from "../secrets/KnownSecrets.ts"
import { refuseCredentials } from "../secrets/refuseCredentials.ts"
import { StoreClock } from "../store/StoreClock.ts"
import { makeStatementBatcher } from "../store/makeStatementBatcher.ts"

/** Approvals that one batch expires when a session closes, and claims that it ends. */
const CLOSE_BATCH = 1_000

/** Sessions that one statement inserts. */
const INSERT_BATCH = 64

/** Agent sessions. Steps, approvals and events belong to a session. */
export class Sessions extends Context.Service<
  Sessions,
  {
    /** Opens a session, within the organization's limit of open ones. Its metadata must not contain a known credential. */
    readonly create: (
      input: NewAgentSession
    ) => Effect.Effect<AgentSession, InvalidRequest | NotFound | LimitReached, Authorized<"sessions.write">>
    /** Lists sessions, newest first. */
    readonly list: (
      request: PageRequest<SessionId> & AgentSessionFilter
    ) => Effect.Effect<Page<AgentSession, SessionId>, never, Authorized<"sessions.read">>
    /** Returns one session, which the caller must be able to read. */
    readonly get: (
      id: SessionId
    ) => Effect.Effect<
      AgentSession,
      NotFound | InsufficientScope,
      Authorized<"sessions.read" | "sessions.write">
    >
    /**
     * Closes a session of the caller, or any with `approvals.admin`: expires its pending approvals with the outcome reject and no decider, ends
     * its grants, and makes the outcome of steps unknown that are still claimed. Idempotent.
     */
    readonly close: (
      id: SessionId
    ) => Effect.Effect<AgentSession, NotFound | SessionOfAnotherKey, Authorized<"sessions.write">>
  }
>()("countersign/server/approvals/Sessions") {
  static readonly layer = Layer.effect(
    Sessions,
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const atomically = atomic(sql)
      const clock = yield* StoreClock
      const audit = yield* Audit
      const notifications = yield* Notifications
      const spans = yield* Spans
      const events = yield* SessionEvents
      const facts = yield* SessionFacts
      const secrets = yield* KnownSecrets

      const { openSessions } = yield* OrganizationLimits
      const use = yield* LimitUse
      const usage = yield* StoredUsage
      const admit = makeCountLimit({
        limit: openSessions,
        count: (org_id, limit) => countOpenSessions(sql, org_id, limit)
      })

      /** Checks the organization's limit of open sessions. */
      const requireCapacity = Effect.fnUntraced(function* (org_id: OrgId) {
        const ratio = yield* Effect.orDie(admit(org_id))
        const left = { limit: openSessions, remaining: ratio === undefined ? 0 : openSessions * (1 - ratio) }
        if (isNearLimit(left)) yield* reportQuota({ name: "open_sessions", ...left })
        if (ratio !== undefined) return use.used("open_sessions", ratio)
        use.refused("open_sessions")
        return yield* new LimitReached({
          detail: `Too many open agent sessions (limit ${openSessions} for each organization). Close some that have ended.`
        })
      })

      const insert = yield* makeStatementBatcher({
        sql,
        maxBatch: INSERT_BATCH,
        organizationOf: ({ org_id }: NewSessionRow) => org_id,
        run: (rows, org_id) =>
          Effect.tap(insertSessions(sql, rows, org_id), (inserted) =>
            sql.afterCommit(
              Effect.sync(() => {
                rows.forEach(({ metadata, org_id }, index) => {
                  if (inserted[index] === true)
                    usage.add(org_id, { bytes: rowBytes.session + Buffer.byteLength(metadata) })
                })
              })
            )
          )
      })

      /**
       * Inserts a session whose metadata has no credential. The statement compares the version of the secrets, so that the usual request
       * does not read it before.
       */
      const insertChecked = Effect.fnUntraced(function* (org_id: OrgId, session: AgentSession) {
        const members = [{ pointer: "#/metadata", value: session.metadata }]
        const row = { org_id, session, metadata: JSON.stringify(session.metadata) }
        for (let version = yield* secrets.lastVersion(org_id); ; version = yield* secrets.version(org_id)) {
          yield* refuseCredentials(members, yield* secrets.forVersion(org_id, version))
          if (yield* Effect.orDie(insert({ ...row, secrets_version: version }))) return
        }
      })

      /** Makes the outcome of the session's steps unknown that are still claimed: none is accepted any more. Its row is locked. */
      const endClaims = Effect.fnUntraced(function* (key: SessionKey, now: Timestamp) {
        let ended = 0
        for (let after: StepId | "" = ""; ;) {
          const rows: Effect.Success<ReturnType<typeof findExecuting>> = yield* findExecuting(
            sql,
            key,
            after,
            CLOSE_BATCH
          )
          const transitions = rows.map((row) => ({
            row,
            ...transitionExecution(row.execution, { _tag: "CloseSession" }, now)
          }))
          const unknown = transitions.flatMap((one) => executionEvents(one.transitions, one.row))
          if (Arr.isReadonlyArrayNonEmpty(unknown)) {
            yield* makeUnknown(
              sql,
              key,
              rows.map(({ step_id }) => step_id),
              now
            )
            yield* events.append([{ ...key, events: unknown }], now)
            yield* afterCommit(countUnknown(transitions.flatMap((one) => one.transitions)))
          }
          ended += unknown.length
          const last = rows.at(-1)
          if (last === undefined || rows.length < CLOSE_BATCH) return ended
          after = last.step_id
        }
      })

      return Sessions.of({
        // `Effect.fnUntraced` and batched: this is a hot path. The response is complete before the insert, so nothing is read back.
        create: Effect.fnUntraced(function* (input) {
          const { actor, keyMakers, org_id } = yield* Authorized("sessions.write")
          const task_id = input.task_id ?? null
          if (task_id !== null) yield* requireTask(sql, org_id, task_id, "#/task_id")
          if (openSessions > 0) yield* requireCapacity(org_id)
          yield* usage.requireCapacity(org_id)
          const now = yield* clock.now
          const session: AgentSession = {
            session_id: yield* SessionId.generateAt(now),
            task_id,
            trace_id: yield* generateTraceId,
            metadata: input.metadata ?? {},
            status: "open",
            created_at: now,
            created_by: actor,
            shared: input.shared ?? false,
            closed_at: null
          }
          yield* insertChecked(org_id, session)
          if (!(yield* isInTransaction)) {
            const { created_by, shared } = session
            facts.add(session.session_id, { org_id, task_id, created_by, makers: keyMakers, shared })
          }
          return session
        }),
        list: Effect.fn("Sessions.list")(function* (request) {
          const { org_id } = yield* Authorized("sessions.read")
          return yield* listSessions(sql, org_id, request)
        }, Effect.orDie),
        get: Effect.fn("Sessions.get")(function* (id) {
          const principal = yield* AuthorizedEither("sessions.read", "sessions.write")
          const { org_id } = principal
          yield* facts.requireReadable(principal, id)
          return yield* orNotFound(yield* Effect.orDie(findSession(sql, org_id, id)))
        }),
        close: Effect.fn("Sessions.close")(function* (id) {
          const principal = yield* Authorized("sessions.write")
          const { org_id } = principal
          // An admin can stop any agent.
          if (!principal.scopes.has("approvals.admin")) yield* facts.requireWritable(principal, id)
          return yield* atomically(
            Effect.gen(function* () {
              const locked = Option.getOrUndefined(yield* lockSessionForUpdate(sql, org_id, id))
              const session = yield* orNotFound(yield* findSession(sql, org_id, id))
              if (session.status === "closed") return session
              const now = yield* clock.now
              // A keyset cursor over the pending approvals, so that no batch reads rows that an earlier one has expired.
              let expired = 0
              for (let after: ApprovalId | "" = ""; ;) {
                const rows: ReadonlyArray<ApprovalRow> = yield* lockPendingApprovals(
                  sql,
                  org_id,
                  id,
                  after,
                  CLOSE_BATCH
                )
                const pending = rows.flatMap((row) => {
                  const { transitions } = transition(stateOf(row), { _tag: "CloseSession" }, now)
                  return Arr.isReadonlyArrayNonEmpty(transitions) ? [{ row, transitions }] : []
                })
                if (Arr.isArrayNonEmpty(pending))
                  yield* recordTransitions({ events, notifications, spans, sql }, pending, now)
                expired += pending.length
                const last = rows.at(-1)
                if (last === undefined || rows.length < CLOSE_BATCH) break
                after = last.approval_id
              }
              const unknown = yield* endClaims({ org_id, session_id: id }, now)
              yield* sql`
                UPDATE agent_sessions
                SET closed_at = ${toDate(now)}
                WHERE org_id = ${org_id}
                  AND session_id = ${id}
              `
              if (canHaveGrants(locked?.grants_until ?? null, now))
                yield* endSessionGrants(sql, { org_id, session_id: id, now })
              yield* events.append([{ org_id, session_id: id, events: [sessionClosedEvent] }], now)
              yield* audit.record(principal, "session.closed", id, {
                expired_approvals: expired,
                ...(unknown === 0 ? {} : { unknown_executions: unknown })
              })
              return { ...session, status: "closed" as const, closed_at: now }
            })
          )
        })
      })
    })
  )
}

const orNotFound = (session: Option.Option<AgentSession>): Effect.Effect<AgentSession, NotFound> =>
  Option.match(session, { onNone: () => notFound("session"), onSome: Effect.succeed })
