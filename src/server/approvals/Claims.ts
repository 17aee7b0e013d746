import { Context, DateTime, Duration, Effect, Layer, Option } from "effect"
import { SqlClient } from "effect/sql"
import type { ClaimRequest, RenewClaimRequest } from "../../api/AgentSessions.ts"
import {
  type ClaimMismatch,
  ExecutionNotUnknown,
  type StepAlreadyClaimed
} from "../../api/ApprovalProblems.ts"
import { Authorized } from "../../api/Authorization.ts"
import type { ExecutionFilter, ResolveRequest } from "../../api/Executions.ts"
import { notFound } from "../../api/notFound.ts"
import type { PageRequest } from "../../api/Pagination.ts"
import {
  type NotFound,
  SelfApproval,
  SessionClosed,
  type SessionOfAnotherKey,
  type StepNotAllowed
} from "../../api/Problems.ts"
import { savedBudgets } from "../../domain/approvals/BudgetMeter.ts"
import type { Claim } from "../../domain/approvals/AgentSession.ts"
import {
  DEFAULT_LEASE_SECONDS,
  type Execution,
  type ExecutionInput,
  type ExecutionTransition,
  type Resolution,
  transition
} from "../../domain/approvals/Execution.ts"
import { executionEvents, toolOutcomeEvent } from "../../domain/approvals/SessionEvent.ts"
import { currentDecision, sourceOf } from "../../domain/approvals/StepDecision.ts"
import type { ClaimId, OrgId, SessionId, StepId } from "../../domain/Ids.ts"
import type { Principal } from "../../domain/identity/Principal.ts"
import { redactText } from "../../domain/redaction/Redaction.ts"
import type { Timestamp } from "../../domain/Time.ts"
import { reportFailure, RETRY_MILLIS } from "../concurrency/Worker.ts"
import { Audit } from "../identity/Audit.ts"
import { StoredUsage } from "../identity/StoredUsage.ts"
import { KnownSecrets } from "../secrets/KnownSecrets.ts"
import type { Page } from "../store/Pagination.ts"
import { StoreClock } from "../store/StoreClock.ts"
import { atomic } from "../store/transaction.ts"
import { Spans } from "../telemetry/Spans.ts"
import { type ClaimOptions, claimOptions, countUnknown, makeClaimSaved } from "./Claims/claimSaved.ts"
import {
  findDueLeases,
  findExecution,
  findNextLeaseEnd,
  findStepOfClaim,
  listExecutions
} from "./executionRows.ts"
import { Rules } from "./Rules.ts"
import { SessionFacts } from "./SessionFacts.ts"
import { type ResumedStep, SessionWriter, type StepKey } from "./SessionWriter.ts"
import { lockSessionForUpdate } from "./Sessions/rows.ts"
import { outcomeOf } from "./Steps/outcomeOf.ts"
import { readArguments } from "./Steps/rows.ts"
import { makeSavedSteps } from "./Steps/savedSteps.ts"
import { recordOutcomeSpan } from "./Steps/spans.ts"
import { claimMismatch, sessionClosed, stepNotAllowed, stepNotFound } from "./Steps/stepRefusals.ts"
import { outcomeBytes } from "./Steps/storedBytes.ts"
import { Tickets } from "./Tickets.ts"

/** The worker that enforces the deadlines of approvals and runs `expireLeases`. */
export const DEADLINES_WORKER = "approval_deadlines"

/** Leases that one read of `expireLeases` returns. */
const LEASE_BATCH = 1_000

/** Concurrent writes of `expireLeases`: as many as one statement takes. */
const LEASE_CONCURRENCY = 64

type ClaimError = NotFound | SessionOfAnotherKey | SessionClosed | StepNotAllowed | StepAlreadyClaimed

type RenewError = NotFound | SessionOfAnotherKey | SessionClosed | ClaimMismatch

type ResolveError = NotFound | SelfApproval | SessionClosed | ExecutionNotUnknown

/** The result of one run. */
export interface LeaseRun {
  /** Executions whose outcome became unknown. */
  readonly expired: number
  /** Time until the next lease ends, or until those are written again that could not be; null if no step is being executed. */
  readonly next_due_in: Duration.Duration | null
}

/**
 * Claims: an allowed step is executed by one caller, once. `Steps.check` claims in its own statement, and `Steps.complete` ends a claim with
 * the outcome. `domain/approvals/Execution.ts` defines the states, which are stored with the step.
 */
export class Claims extends Context.Service<
  Claims,
  {
    /**
     * Claims an allowed step, after evaluating the rules again. Of concurrent claims exactly one succeeds. The same request of the same key,
     * recognized by its `idempotency_key`, gets its claim again until the lease ends.
     */
    readonly claim: (
      session_id: SessionId,
      step_id: StepId,
      request: ClaimRequest,
      idempotency_key?: string
    ) => Effect.Effect<Claim, ClaimError, Authorized<"sessions.write">>
    /** Moves the end of a claim's lease, which has not passed. */
    readonly renew: (
      session_id: SessionId,
      step_id: StepId,
      request: RenewClaimRequest
    ) => Effect.Effect<Claim, RenewError, Authorized<"sessions.write">>
    /** The executions whose outcome is or was unknown, newest claim first. */
    readonly list: (
      request: PageRequest<ClaimId> & ExecutionFilter
    ) => Effect.Effect<Page<Execution, ClaimId>, never, Authorized<"approvals.read">>
    readonly get: (id: ClaimId) => Effect.Effect<Execution, NotFound, Authorized<"approvals.read">>
    /** Records the finding of a person about an unknown execution, or allows another attempt. Of concurrent resolutions one succeeds. */
    readonly resolve: (
      id: ClaimId,
      request: ResolveRequest
    ) => Effect.Effect<Execution, ResolveError, Authorized<"approvals.decide">>
    /** Makes the outcome of every claim unknown whose lease has ended. Every replica can run it. */
    readonly expireLeases: Effect.Effect<LeaseRun>
  }
>()("countersign/server/approvals/Claims") {
  static readonly layer = Layer.effect(
    Claims,
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const atomically = atomic(sql)
      const clock = yield* StoreClock
      const rules = yield* Rules
      const spans = yield* Spans
      const audit = yield* Audit
      const facts = yield* SessionFacts
      const usage = yield* StoredUsage
      const writer = yield* SessionWriter
      const secrets = yield* KnownSecrets
      const { approvalOf, withoutPassedWindows } = makeSavedSteps(sql, spans, writer)
      const claimSaved = makeClaimSaved(sql, writer)
      const tickets = yield* Tickets

      const lockSession = ({ org_id, session_id }: StepKey) =>
        Effect.flatMap(Effect.orDie(lockSessionForUpdate(sql, org_id, session_id)), (session) =>
          Option.isNone(session) ? notFound("session") : Effect.void
        )

      /** The saved step of an open session, read without a lock or under the session's. Undefined: it needs the lock. */
      const findOpenStep = Effect.fnUntraced(function* (key: StepKey, isLocked: boolean) {
        if (isLocked) yield* lockSession(key)
        const found = yield* writer.findStep(key)
        if (found === undefined) return isLocked ? yield* stepNotFound : undefined
        if (found.session_closed) return isLocked ? yield* sessionClosed : undefined
        return found
      })

      /** Writes a transition of an execution that has no outcome. */
      const writeTransitions = (
        key: StepKey,
        saved: ResumedStep,
        transitions: ReadonlyArray<ExecutionTransition>,
        now: Timestamp,
        isLocked: boolean
      ) => {
        const execution = transitions.at(-1)?.execution
        if (execution === undefined) return Effect.succeed(true)
        const decision = saved.last_decision
        return Effect.map(
          writer.write(
            {
              org_id: key.org_id,
              session_id: key.session_id,
              change: {
                _tag: "Execution",
                step_id: key.step_id,
                from: { decision, execution: saved.execution },
                to: { decision, execution }
              },
              rules_revision: null,
              // The stream of a closed session has ended.
              events: saved.session_closed ? [] : executionEvents(transitions, saved),
              published: [],
              now,
              onWritten: () => countUnknown(transitions)
            },
            isLocked
          ),
          ({ _tag }) => _tag === "Written"
        )
      }

      /** Claims a step, without a lock or under the session's. Undefined: it needs the lock. */
      const claimWith = Effect.fnUntraced(function* (key: StepKey, options: ClaimOptions, isLocked: boolean) {
        const { org_id } = key
        const found = yield* findOpenStep(key, isLocked)
        if (found === undefined) return undefined
        const list = yield* isLocked ? rules.current(org_id) : rules.cached(org_id)
        if (!isLocked && list.revision !== found.rules_revision) return undefined
        const stored = readArguments(sql, org_id, key.session_id, key.step_id)
        const step = { ...found, arguments: list.compiled.readsArguments ? yield* stored : undefined }
        const ruling = list.compiled.evaluate(step, savedBudgets(step))
        const now = yield* clock.now
        const saved = yield* withoutPassedWindows(key, found, isLocked, now)
        if (saved === undefined) return undefined
        const answer = currentDecision(saved, yield* approvalOf(org_id, saved), ruling)
        if (answer.decision !== "allow") return isLocked ? yield* stepNotAllowed : undefined
        const by = { options, list, step, now, isLocked }
        const execution = yield* claimSaved(key, saved, answer, by)
        return execution === undefined
          ? undefined
          : tickets.claimOf(key, saved, answer.decision_source, execution)
      })

      /** Renews a claim, without a lock or under the session's. Undefined: it needs the lock. */
      const renewWith = Effect.fnUntraced(function* (
        key: StepKey,
        { claim_id, lease_seconds = DEFAULT_LEASE_SECONDS }: RenewClaimRequest,
        isLocked: boolean
      ) {
        const saved = yield* findOpenStep(key, isLocked)
        if (saved === undefined) return undefined
        const now = yield* clock.now
        const input: ExecutionInput = { _tag: "Renew", claim_id, lease_seconds }
        const { execution, refusal, transitions } = transition(saved.execution, input, now)
        if (refusal !== null || execution === null)
          return isLocked ? yield* claimMismatch(execution, claim_id) : undefined
        const isWritten = yield* writeTransitions(key, saved, transitions, now, isLocked)
        return isWritten ? tickets.claimOf(key, saved, sourceOf(saved, saved.approval), execution) : undefined
      })

      const find = (org_id: OrgId, id: ClaimId) =>
        Effect.flatMap(Effect.orDie(findExecution(sql, org_id, id)), (execution) =>
          execution === undefined ? notFound("execution") : Effect.succeed(execution)
        )

      /** Resolves an execution, in the caller's transaction. */
      const resolve = Effect.fnUntraced(function* (
        principal: Principal,
        id: ClaimId,
        resolution: Resolution,
        comment: string | null
      ) {
        const { actor, makers, org_id } = principal
        const step = yield* Effect.orDie(findStepOfClaim(sql, org_id, id))
        if (step === undefined) return yield* notFound("execution")
        const key = { org_id, ...step }
        yield* lockSession(key)
        const saved = yield* writer.findStep(key)
        if (saved?.execution?.claim_id !== id) return yield* notFound("execution")
        const now = yield* clock.now
        const input: ExecutionInput = { _tag: "Resolve", resolution, actor, makers, comment }
        const { execution, refusal, transitions } = transition(saved.execution, input, now)
        if (refusal === "SelfApproval") return yield* ownExecution
        if (refusal !== null)
          return yield* new ExecutionNotUnknown({
            detail: "The outcome of this execution is known, or another person has resolved it.",
            execution: yield* find(org_id, id)
          })
        if (transitions.length === 0 || execution === null) return yield* find(org_id, id)
        if (resolution === "retry") {
          if (saved.session_closed) return yield* noFurtherAttempt
          yield* writeTransitions(key, saved, transitions, now, true)
        } else {
          const status = resolution === "succeeded" ? ("succeeded" as const) : ("failed" as const)
          const error = resolution === "not_executed" ? "A person found that it was not executed." : null
          const outcome = outcomeOf(key.step_id, { status, error }, execution, now)
          yield* writer.write(
            {
              org_id,
              session_id: key.session_id,
              change: {
                _tag: "Outcome",
                outcome,
                last_decision: saved.last_decision,
                execution: { from: saved.execution, to: execution }
              },
              rules_revision: null,
              events: saved.session_closed ? [] : [toolOutcomeEvent(outcome, saved.tool, execution)],
              published: [],
              now,
              onWritten: ({ trace_id }) => {
                usage.add(org_id, { bytes: outcomeBytes({ status, error }) })
                return recordOutcomeSpan(
                  spans,
                  trace_id,
                  { org_id, session_id: key.session_id, step: saved, approval: saved.approval, execution },
                  outcome
                )
              }
            },
            true
          )
        }
        yield* audit.record(principal, "execution.resolved", id, { ...step, tool: saved.tool, resolution })
        return yield* find(org_id, id)
      })

      /** Applies the end of a lease. Returns whether its outcome became unknown. */
      const expire = (key: StepKey) =>
        writer
          .commit((isLocked) =>
            Effect.gen(function* () {
              const saved = yield* findOpenStep(key, isLocked)
              if (saved === undefined) return undefined
              const now = yield* clock.now
              const { transitions } = transition(saved.execution, { _tag: "Time" }, now)
              const isWritten = yield* writeTransitions(key, saved, transitions, now, isLocked)
              return isWritten ? transitions.length : undefined
            })
          )
          .pipe(
            // The session was closed or deleted meanwhile, and its executions with it.
            Effect.catch(() => Effect.succeed(0)),
            Effect.catchCause((cause) =>
              reportFailure(DEADLINES_WORKER, "Could not end the lease of a claim; retrying", cause)
            )
          )

      const nextDueIn = Effect.gen(function* () {
        const at = yield* Effect.orDie(findNextLeaseEnd(sql))
        if (at === undefined) return null
        return Duration.max(Duration.zero, DateTime.distance(yield* clock.now, at))
      })

      const expireLeases = Effect.gen(function* () {
        const next_due_in = yield* nextDueIn
        if (next_due_in === null || !Duration.isZero(next_due_in)) return { expired: 0, next_due_in }
        const now = yield* clock.now
        let expired = 0
        let isComplete = true
        for (let after = beforeAllLeases; ;) {
          const due = yield* Effect.orDie(findDueLeases(sql, now, after, LEASE_BATCH))
          const counts = yield* Effect.forEach(due, expire, { concurrency: LEASE_CONCURRENCY })
          expired += counts.reduce<number>((sum, count) => sum + (count ?? 0), 0)
          isComplete &&= !counts.includes(undefined)
          const last = due.at(-1)
          if (last === undefined || due.length < LEASE_BATCH) break
          after = last
        }
        const next = yield* nextDueIn
        return {
          expired,
          next_due_in: isComplete || next === null ? next : Duration.max(next, Duration.millis(RETRY_MILLIS))
        }
      }).pipe(Effect.withSpan("Claims.expireLeases"))

      return Claims.of({
        claim: Effect.fn("Claims.claim")(function* (session_id, step_id, request, idempotency_key) {
          const principal = yield* Authorized("sessions.write")
          yield* facts.requireWritable(principal, session_id)
          const key = { org_id: principal.org_id, session_id, step_id }
          const options = claimOptions(principal, "claim", request, idempotency_key)
          return yield* writer.commit((isLocked) => claimWith(key, options, isLocked))
        }),
        renew: Effect.fn("Claims.renew")(function* (session_id, step_id, request) {
          const principal = yield* Authorized("sessions.write")
          yield* facts.requireWritable(principal, session_id)
          const key = { org_id: principal.org_id, session_id, step_id }
          return yield* writer.commit((isLocked) => renewWith(key, request, isLocked))
        }),
        list: Effect.fn("Claims.list")(function* (request) {
          const { org_id } = yield* Authorized("approvals.read")
          return yield* listExecutions(sql, org_id, request)
        }, Effect.orDie),
        get: Effect.fn("Claims.get")(function* (id) {
          const { org_id } = yield* Authorized("approvals.read")
          return yield* find(org_id, id)
        }),
        resolve: Effect.fn("Claims.resolve")(function* (id, { comment = null, resolution }) {
          const principal = yield* Authorized("approvals.decide")
          const redacted =
            comment === null ? null : redactText(comment, yield* secrets.forOrg(principal.org_id))
          return yield* atomically(resolve(principal, id, resolution, redacted))
        }),
        expireLeases
      })
    })
  )
}

/** The cursor before all leases. */
const beforeAllLeases: Parameters<typeof findDueLeases>[2] = {
  claim_expires_at: DateTime.makeUnsafe(0),
  claim_id: ""
}

const ownExecution = Effect.fail(
  new SelfApproval({
    detail:
      "This API key, or the one that created it, claimed the step. Another person must resolve its execution."
  })
)

const noFurtherAttempt = Effect.fail(
  new SessionClosed({ detail: "The session is closed, so no attempt can follow. Choose another resolution." })
)
