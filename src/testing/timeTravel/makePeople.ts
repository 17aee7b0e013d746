import { DateTime, Effect, Latch, Schema, Semaphore } from "effect"
import { SqlClient } from "effect/sql"
import type { NewApiKey } from "../../api/ApiKeys.ts"
import type { ClientCalls } from "../../client/Client.ts"
import { ApprovalStage } from "../../domain/approvals/ApprovalStage.ts"
import type { ProposedArguments } from "../../domain/approvals/CounterProposal.ts"
import { ApprovalId } from "../../domain/Ids.ts"
import { TimestampFromDate } from "../../domain/Time.ts"
import { SessionSignals } from "../../server/approvals/SessionSignals.ts"
import { rowsOf } from "../../server/store/rows.ts"
import { StoreClock } from "../../server/store/StoreClock.ts"
import { type ApprovalPattern, matchesApproval, type ScriptedPerson } from "../people.ts"

/** The pending approvals that people look at in one pass. */
const MAX_PENDING = 10_000

const PendingApproval = Schema.Struct({
  approval_id: ApprovalId,
  tool: Schema.String,
  action_class: Schema.String,
  stage: ApprovalStage,
  requested_at: TimestampFromDate,
  escalated_at: Schema.NullOr(TimestampFromDate)
})
type PendingApproval = typeof PendingApproval.Type

const pendingRows = rowsOf(PendingApproval)

/** The scripted people of a test service. */
export interface People {
  /** Adds people. They decide what matches already, too. */
  readonly add: (people: ReadonlyArray<ScriptedPerson>) => Effect.Effect<void>
  /** Makes every decision that is due by now. Returns how many. */
  readonly decideDue: Effect.Effect<number>
  /** When the next decision is due; undefined if no person waits to decide. */
  readonly nextDue: Effect.Effect<number | undefined>
  /** Waits for a pending approval that matches, and returns its id. */
  readonly awaitPending: (pattern: ApprovalPattern, organization: string) => Effect.Effect<ApprovalId>
}

/**
 * Makes people who decide through the API, each with a key. Signals of sessions make them look at pending approvals; decisions that are due
 * later are made when the time is moved.
 */
export const makePeople = Effect.fnUntraced(function* (
  defaultOrganization: string,
  clientFor: (key: Partial<NewApiKey>, organization: string) => Effect.Effect<ClientCalls>
) {
  const sql = yield* SqlClient.SqlClient
  const clock = yield* StoreClock
  const signals = yield* SessionSignals
  const people: Array<{
    readonly script: ScriptedPerson
    readonly organization: string
    readonly client: ClientCalls
    /** The approvals that this person has decided, or found decided. */
    readonly done: Set<ApprovalId>
  }> = []
  const changed = Latch.makeUnsafe(false)
  const oneAtATime = yield* Semaphore.make(1)

  const pendingIn = (organization: string) =>
    Effect.orDie(
      pendingRows.all(sql`
        SELECT approval_id, tool, action_class, stage, requested_at, escalated_at
        FROM approvals
          JOIN organizations USING (org_id)
        WHERE organizations.name = ${organization}
          AND status = 'pending'
        ORDER BY approval_id
        LIMIT ${MAX_PENDING}
      `)
    )

  /** The decisions that people have before them, with the time at which each is due. */
  const planned = Effect.gen(function* () {
    const plan: Array<{
      readonly person: (typeof people)[number]
      readonly approval: PendingApproval
      readonly dueAt: number
    }> = []
    for (const organization of new Set(people.map((person) => person.organization))) {
      const pending = yield* pendingIn(organization)
      for (const person of people) {
        if (person.organization !== organization) continue
        const { afterMillis, matches, stage } = person.script
        for (const approval of pending) {
          const since = stage === "admin" ? approval.escalated_at : approval.requested_at
          if (since === null || approval.stage !== stage || person.done.has(approval.approval_id)) continue
          if (!matches(approval)) continue
          plan.push({ person, approval, dueAt: DateTime.toEpochMillis(since) + afterMillis })
        }
      }
    }
    return plan
  })

  const decideDue = Effect.gen(function* () {
    const now = clock.millisUnsafe()
    const due = (yield* planned).filter(({ dueAt }) => dueAt <= now).toSorted((a, b) => a.dueAt - b.dueAt)
    for (const { approval, person } of due) {
      const { comment, decision, proposes } = person.script
      const decide = (proposal: { readonly proposed_arguments?: ProposedArguments }) =>
        person.client.approvals.decide({
          params: { id: approval.approval_id },
          payload: { decision, comment, ...proposal }
        })
      yield* (proposes === undefined ? decide({}) : decide({ proposed_arguments: proposes })).pipe(
        // The step has the proposed arguments.
        Effect.catchTag("INVALID_REQUEST", () => decide({})),
        // Another person was quicker, or the quorum does not need this one: a vote that does not count now does not count later either.
        Effect.catchTags({
          APPROVAL_ALREADY_DECIDED: () => Effect.void,
          APPROVAL_EXPIRED: () => Effect.void,
          // A reviewer is due when the window ends: the approval is escalated first.
          ADMIN_REQUIRED: () => Effect.void,
          GROUP_REQUIRED: () => Effect.void,
          SAME_PERSON: () => Effect.void,
          NOT_FOUND: () => Effect.void
        }),
        Effect.orDie
      )
      person.done.add(approval.approval_id)
    }
    return due.length
  }).pipe(oneAtATime.withPermits(1))

  yield* signals.subscribe({ onSignals: () => changed.openUnsafe(), isFollowing: () => people.length > 0 })
  yield* Effect.forkScoped(
    Effect.andThen(
      changed.await,
      Effect.suspend(() => {
        changed.closeUnsafe()
        return people.length === 0 ? Effect.void : decideDue
      })
    ).pipe(
      // The next move of the time tries again, and fails with it.
      Effect.catchCause((cause) => Effect.logError("A scripted person could not decide", cause)),
      Effect.forever
    )
  )

  const found: People["awaitPending"] = (pattern, organization) =>
    Effect.flatMap(pendingIn(organization), (pending) => {
      const approval = pending.find(matchesApproval(pattern))
      return approval === undefined
        ? Effect.andThen(Effect.sleep("5 millis"), found(pattern, organization))
        : Effect.succeed(approval.approval_id)
    })

  const result: People = {
    add: Effect.fnUntraced(function* (scripts) {
      for (const script of scripts) {
        const organization = script.organization ?? defaultOrganization
        const client = yield* clientFor(
          { name: `${script.key.preset ?? "person"} ${people.length + 1}`, ...script.key },
          organization
        )
        people.push({ script, organization, client, done: new Set() })
      }
      yield* decideDue
    }),
    decideDue,
    nextDue: Effect.map(planned, (plan) =>
      plan.length === 0 ? undefined : Math.min(...plan.map(({ dueAt }) => dueAt))
    ),
    awaitPending: found
  }
  return result
})
