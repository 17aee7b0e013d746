import type { PgClient } from "@effect/sql-pg"
import { assert, layer } from "@effect/vitest"
import { Array as Arr, Effect, Exit } from "effect"
import { SqlClient } from "effect/sql"
import fc from "fast-check"
import { Authorized, type CurrentPrincipal } from "../../../src/api/Authorization.ts"
import type { StepDecision } from "../../../src/domain/approvals/AgentSession.ts"
import type { ApprovalRule } from "../../../src/domain/approvals/ApprovalRule.ts"
import { ApprovalId, KeyId, OrgId, RuleId, type SessionId, StepId } from "../../../src/domain/Ids.ts"
import type { Principal } from "../../../src/domain/identity/Principal.ts"
import { scopes } from "../../../src/domain/identity/Scope.ts"
import type { Timestamp } from "../../../src/domain/Time.ts"
import { Approvals } from "../../../src/server/approvals/Approvals.ts"
import { firstDueCursor, lockDueApprovals } from "../../../src/server/approvals/Approvals/transitionRows.ts"
import { Deadlines } from "../../../src/server/approvals/Deadlines.ts"
import { Rules } from "../../../src/server/approvals/Rules.ts"
import { Sessions } from "../../../src/server/approvals/Sessions.ts"
import {
  findMissedSignals,
  findSessionState,
  readEvents
} from "../../../src/server/approvals/SessionStream/rows.ts"
import type { SessionWrite } from "../../../src/server/approvals/SessionWriter.ts"
import { runWrites } from "../../../src/server/approvals/SessionWriter/writeStatement.ts"
import { Steps } from "../../../src/server/approvals/Steps.ts"
import { StoreClock } from "../../../src/server/store/StoreClock.ts"
import { transaction } from "../../../src/server/store/transaction.ts"
import { TestDatabase } from "../../support/postgres.ts"
import {
  makeModelSubject,
  makeSqlSubject,
  type Services,
  type Started,
  type Subject
} from "./approvals.subjects.ts"

/** Sequences of requests that are compared. */
const RUNS = 8

/** Timeout on a busy machine. */
const TEST_MILLIS = 240_000

const hex = (number: number): string => number.toString(16).padStart(32, "0")

const ORGANIZATIONS = 2
/** The tool of each step, and its arguments: a proposal for a step of one size allows that of the other. */
const STEPS = [
  { tool: "allow", size: 0 },
  { tool: "reject", size: 0 },
  { tool: "require_approval", size: 0 },
  { tool: "other", size: 0 },
  { tool: "require_approval", size: 1 },
  { tool: "other", size: 1 }
] as const

const principal = (organization: number, number: number): Principal => ({
  org_id: OrgId.make(`org_${hex(organization)}`),
  actor: { id: KeyId.make(`key_${hex(organization * 10 + number)}`), name: `key ${number}` },
  scopes: new Set(scopes.filter((scope) => number === 2 || scope !== "approvals.admin")),
  groups: [],
  makers: []
})

const rule = (effect: ApprovalRule["effect"], tool: string, number: number): ApprovalRule => ({
  id: RuleId.make(`rul_${hex(number)}`),
  tool,
  action_class: "*",
  task_id: null,
  when: [],
  effect,
  review_seconds: 10,
  expiring_seconds: 3,
  escalation_seconds: number % 2 === 0 ? 20 : null,
  timeout_action: "allow",
  self_approval: false,
  quorum: [{ count: 1, group: null }],
  reason: "",
  summary_template: null
})

const lists: ReadonlyArray<ReadonlyArray<ApprovalRule>> = [
  [
    rule("allow", "allow", 1),
    rule("reject", "reject", 2),
    rule("require_approval", "require_approval", 3),
    rule("require_approval", "other", 4)
  ],
  [rule("reject", "allow", 5), rule("require_approval", "require_approval", 6)],
  []
]

const organization = fc.integer({ min: 0, max: ORGANIZATIONS - 1 })
const session = fc.integer({ min: 0, max: 2 })
const step = fc.integer({ min: 0, max: STEPS.length - 1 })
const key = fc.integer({ min: 0, max: 2 })

/** A row that another transaction holds while the request begins. */
const blocker = fc.constantFrom(undefined, undefined, undefined, "Session" as const, "Approval" as const)

const decision = fc.constantFrom("allow" as const, "reject" as const, "pending" as const)

const command = fc.oneof(
  fc.record({ tag: fc.constant("open"), organization, session }),
  { weight: 6, arbitrary: fc.record({ tag: fc.constant("step"), session, step, blocker }) },
  {
    weight: 4,
    arbitrary: fc.record({
      tag: fc.constant("decide"),
      session,
      step,
      key,
      approves: fc.boolean(),
      proposes: fc.boolean(),
      blocker
    })
  },
  { weight: 2, arbitrary: fc.record({ tag: fc.constant("complete"), session, step, blocker }) },
  fc.record({ tag: fc.constant("close"), session, blocker }),
  { weight: 2, arbitrary: fc.record({ tag: fc.constant("deadlines"), session, step, blocker }) },
  {
    weight: 3,
    arbitrary: fc.record({ tag: fc.constant("advance"), millis: fc.constantFrom(500, 3_000, 7_000, 25_000) })
  },
  fc.record({
    tag: fc.constant("rules"),
    organization,
    list: fc.integer({ min: 0, max: lists.length - 1 }),
    revision: fc.constantFrom(undefined, undefined, 1, 2)
  }),
  fc.record({
    tag: fc.constant("endpoint"),
    organization,
    endpoint: fc.integer({ min: 0, max: 1 }),
    active: fc.boolean()
  }),
  // Statements that do not wait: what other transactions hold is left out.
  {
    weight: 2,
    arbitrary: fc.record({
      tag: fc.constant("due"),
      session,
      step,
      limit: fc.integer({ min: 1, max: 4 }),
      blocker
    })
  },
  {
    weight: 3,
    arbitrary: fc.record({
      tag: fc.constant("write"),
      session,
      step,
      writes: fc.array(
        fc.record({
          session,
          step,
          from: decision,
          to: decision,
          revision: fc.constantFrom(null, null, 1, 2)
        }),
        { minLength: 1, maxLength: 3 }
      ),
      blocker
    })
  },
  fc.record({ tag: fc.constant("read"), session, after: fc.integer({ min: 0, max: 6 }) })
)
type Command = typeof command extends fc.Arbitrary<infer A> ? A : never

/** A session of the course. */
interface Opened {
  readonly id: SessionId
  readonly organization: number
}

/** One subject in the course of a sequence. */
class Course {
  readonly subject: Subject
  readonly #names = new Map<string, string>()
  readonly #sessions = new Map<number, Opened>()
  readonly #approvals = new Map<string, ApprovalId>()

  constructor(subject: Subject) {
    this.subject = subject
  }

  /** Runs a command; what it returns must be the same for both subjects. */
  run(command: Command): Effect.Effect<unknown, unknown> {
    const { subject } = this
    if (command.tag === "advance") return Effect.sync(() => subject.advance(command.millis))
    if (command.tag === "endpoint") {
      const { org_id } = principal(command.organization, 0)
      return subject.setEndpoint(org_id, `nep_${hex(command.endpoint)}`, command.active)
    }
    if (command.tag === "rules") {
      const by = principal(command.organization, 2)
      const { revision } = command
      const input = { rules: lists[command.list] ?? [], ...(revision === undefined ? {} : { revision }) }
      return this.#request(
        by,
        Effect.provideService(
          Effect.flatMap(Rules, (one) => one.replace(input)),
          Authorized("rules.write"),
          by
        )
      )
    }
    if (command.tag === "open") return this.#open(command.organization, command.session)
    const opened = this.#sessions.get(command.session)
    if (opened === undefined) return Effect.void
    return this.#inSession(command, opened)
  }

  dump(): Effect.Effect<ReadonlyArray<string>, unknown> {
    return Effect.map(this.subject.dump, (lines) => lines.map((line) => this.#named(line)).toSorted())
  }

  #open(organization: number, session: number): Effect.Effect<unknown, unknown> {
    if (this.#sessions.has(session)) return Effect.void
    const by = principal(organization, 0)
    const create = Effect.provideService(
      Effect.flatMap(Sessions, (one) => one.create({ metadata: { session } })),
      Authorized("sessions.write"),
      by
    )
    return Effect.gen({ self: this }, function* () {
      const { session_id } = yield* yield* (yield* this.subject.start(by, create)).exit
      this.#names.set(session_id, `session ${session}`)
      this.#sessions.set(session, { id: session_id, organization })
    })
  }

  #inSession(
    command: Extract<Command, { readonly session: number }>,
    { id, organization }: Opened
  ): Effect.Effect<unknown, unknown> {
    const agent = principal(organization, 0)
    const { org_id } = agent
    const step_id = "step" in command ? StepId.make(`step ${command.step}`) : StepId.make("none")
    const approval_id = this.#approvals.get(`${command.session} ${step_id}`)
    const held = "blocker" in command ? this.#held(command.blocker, org_id, id, approval_id) : undefined
    switch (command.tag) {
      case "step": {
        const { size, tool } = STEPS[command.step] ?? STEPS[0]
        const check = Effect.provideService(
          Effect.flatMap(Steps, (one) =>
            one.check(id, { step_id, tool, action_class: "any", arguments: { size } })
          ),
          Authorized("sessions.write"),
          agent
        )
        const noted = Effect.tap(check, ({ approval_id, decision_source }) =>
          Effect.sync(() => {
            if (approval_id === null || decision_source === "counter_proposal") return
            this.#names.set(approval_id, `approval of ${step_id} in ${command.session}`)
            this.#approvals.set(`${command.session} ${step_id}`, approval_id)
          })
        )
        return this.#request(agent, noted, held)
      }
      case "decide": {
        if (!("key" in command) || !("approves" in command) || approval_id === undefined) return Effect.void
        const by = principal(organization, command.key)
        const decision = command.approves ? "approve" : "reject"
        const { size } = STEPS[command.step] ?? STEPS[0]
        const proposal =
          command.proposes && !command.approves ? { proposed_arguments: { size: 1 - size } } : {}
        return this.#request(
          by,
          Effect.provideService(
            Effect.flatMap(Approvals, (one) =>
              one.decide(ApprovalId.make(approval_id), { decision, ...proposal })
            ),
            Authorized("approvals.decide"),
            by
          ),
          held
        )
      }
      case "complete":
        return this.#request(
          agent,
          Effect.provideService(
            Effect.flatMap(Steps, (one) => one.complete(id, step_id, { status: "failed", error: "no" })),
            Authorized("sessions.write"),
            agent
          ),
          held
        )
      case "close":
        return this.#request(
          agent,
          Effect.provideService(
            Effect.flatMap(Sessions, (one) => one.close(id)),
            Authorized("sessions.write"),
            agent
          ),
          held
        )
      case "deadlines":
        return this.#request(
          agent,
          Effect.flatMap(Deadlines, ({ runOnce }) => runOnce),
          held
        )
      case "due": {
        if (!("limit" in command)) return Effect.void
        const { limit } = command
        const due = Effect.gen(function* () {
          const sql = yield* SqlClient.SqlClient
          const { now } = yield* StoreClock
          return yield* transaction(lockDueApprovals(sql, yield* now, firstDueCursor, limit))
        })
        return this.#request(
          agent,
          Effect.map(due, (rows) => rows.map(({ approval_id, stage }) => [approval_id, stage])),
          held
        )
      }
      case "write": {
        if (!("writes" in command)) return Effect.void
        const distinct = new Map(command.writes.map((one) => [`${one.session} ${one.step}`, one]))
        const list = [...distinct.values()]
        const write = Effect.gen({ self: this }, function* () {
          const now = yield* (yield* StoreClock).now
          const writes = list.flatMap((one) => this.#decisionWrite(one, now))
          if (!Arr.isArrayNonEmpty(writes)) return []
          const { refused, saved, written } = yield* runWrites(yield* SqlClient.SqlClient, writes, undefined)
          return [
            Array.from(written, ([op, { newest }]) => [op, newest]).toSorted(),
            [...saved],
            [...refused]
          ]
        })
        return this.#request(agent, write, held)
      }
      case "read": {
        if (!("after" in command)) return Effect.void
        const { after } = command
        return this.#request(
          agent,
          Effect.gen(function* () {
            const sql = yield* SqlClient.SqlClient
            const key = { org_id, session_id: id }
            const approvals = yield* Approvals
            const read = yield* readEvents(sql, key, after)
            return [
              yield* findSessionState(sql, key),
              yield* findMissedSignals(sql, [{ ...key, newest: after }]),
              "bytes" in read ? { ...read, bytes: Buffer.from(read.bytes).toString() } : read,
              approval_id === undefined
                ? undefined
                : yield* Effect.provideService(
                    approvals.get(ApprovalId.make(approval_id)),
                    Authorized("approvals.read"),
                    agent
                  )
            ]
          })
        )
      }
      default:
        return Effect.void
    }
  }

  #held(
    tag: "Session" | "Approval" | undefined,
    org_id: OrgId,
    session_id: SessionId,
    approval_id?: ApprovalId
  ) {
    if (tag === "Session") return { _tag: tag, org_id, session_id }
    return tag === undefined || approval_id === undefined ? undefined : { _tag: tag, org_id, approval_id }
  }

  /** The write of another decision of a saved step, whose premises may not hold. */
  #decisionWrite(
    one: {
      readonly session: number
      readonly step: number
      readonly from: StepDecision
      readonly to: StepDecision
      readonly revision: number | null
    },
    now: Timestamp
  ): ReadonlyArray<SessionWrite> {
    const opened = this.#sessions.get(one.session)
    if (opened === undefined) return []
    const step_id = StepId.make(`step ${one.step}`)
    return [
      {
        org_id: principal(opened.organization, 0).org_id,
        session_id: opened.id,
        change: { _tag: "Decision", step_id, from: one.from, to: one.to },
        rules_revision: one.revision,
        events: [{ type: "step:governed", step_id, payload: { decision: one.to } }],
        notification: null,
        now,
        onWritten: () => Effect.void
      }
    ]
  }

  /** Runs a request, while another transaction holds a row, and until that ends. */
  #request<A, E>(
    by: Principal,
    effect: Effect.Effect<A, E, Services | CurrentPrincipal>,
    held?: Parameters<Subject["open"]>[0]
  ): Effect.Effect<unknown> {
    const { subject } = this
    return Effect.gen({ self: this }, function* () {
      const blocker = held === undefined ? undefined : yield* subject.open(held)
      const { exit: ended, isWaiting }: Started<A> = yield* subject.start(by, effect)
      if (blocker !== undefined) yield* blocker.end
      const exit = yield* ended
      const text = Exit.isSuccess(exit)
        ? JSON.stringify(exit.value ?? null)
        : `refused: ${JSON.stringify(exit.cause)}`
      return this.#named(`${isWaiting ? "waits, " : ""}${text}`)
    })
  }

  /** A text with names instead of ids, which differ between the subjects. */
  #named(text: string): string {
    return (
      text
        .replaceAll(/\b(?:ses|apr)_[0-9a-f]{32}\b/g, (id) => this.#names.get(id) ?? "?")
        // Digests of content that has ids, and trace ids.
        .replaceAll(/\b(?:[0-9a-f]{64}|[0-9a-f]{32})\b/g, "?")
    )
  }
}

/** Runs the commands over both, and compares what they return, and the tables at the end. */
const compare = Effect.fnUntraced(function* (commands: ReadonlyArray<Command>) {
  const real = new Course(yield* makeSqlSubject)
  const model = new Course(yield* makeModelSubject)
  for (const command of commands) {
    const expected = yield* real.run(command)
    assert.deepStrictEqual(yield* model.run(command), expected, JSON.stringify(command))
  }
  assert.deepStrictEqual(yield* model.dump(), yield* real.dump())
}, Effect.scoped)

const stepOf = (session: number, step: number): Command => ({
  tag: "step",
  session,
  step,
  blocker: undefined
})

/** Proposes the arguments of another step, which is submitted while other transactions hold the session, and again. */
const proposal: ReadonlyArray<Command> = [
  stepOf(0, 4),
  {
    tag: "decide",
    session: 0,
    step: 4,
    key: 2,
    approves: false,
    proposes: true,
    blocker: "Approval"
  },
  stepOf(0, 4),
  { tag: "step", session: 0, step: 2, blocker: "Session" },
  stepOf(0, 2)
]

/** Reads what is due while other transactions hold a session or an approval, and lets the worker transition the rest. */
const whileDue: ReadonlyArray<Command> = [
  { tag: "due", session: 0, step: 2, limit: 1, blocker: undefined },
  { tag: "due", session: 0, step: 2, limit: 4, blocker: "Session" },
  { tag: "due", session: 1, step: 3, limit: 2, blocker: "Approval" },
  { tag: "deadlines", session: 0, step: 3, blocker: "Approval" }
]

/** What every sequence begins with: two sessions with approvals that become due, rules and an endpoint. */
const beginning: ReadonlyArray<Command> = [
  { tag: "rules", organization: 0, list: 0, revision: undefined },
  { tag: "rules", organization: 1, list: 0, revision: undefined },
  { tag: "endpoint", organization: 0, endpoint: 0, active: true },
  { tag: "open", organization: 0, session: 0 },
  { tag: "open", organization: 1, session: 1 },
  ...proposal,
  ...[stepOf(0, 2), stepOf(1, 3), stepOf(0, 3), stepOf(1, 2)],
  { tag: "advance", millis: 7_000 },
  ...whileDue,
  { tag: "advance", millis: 3_000 },
  ...whileDue
]

layer(TestDatabase.layerSql, { excludeTestServices: true })("The model of the store of approvals", (it) => {
  it.effect(
    "answers requests as PostgreSQL does, also while other transactions hold rows, and stores the same",
    () =>
      Effect.gen(function* () {
        const run = Effect.runPromiseWith(
          yield* Effect.context<TestDatabase | SqlClient.SqlClient | PgClient.PgClient>()
        )
        yield* Effect.promise(() =>
          fc.assert(
            fc.asyncProperty(fc.array(command, { minLength: 30, maxLength: 60 }), (commands) =>
              run(compare([...beginning, ...commands]))
            ),
            { numRuns: RUNS }
          )
        )
      }),
    TEST_MILLIS
  )
})
