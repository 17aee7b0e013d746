import { assert, layer } from "@effect/vitest"
import { Array as Arr, DateTime, Deferred, Effect, Exit, Fiber } from "effect"
import { SqlClient, type SqlError } from "effect/sql"
import { Authorized } from "../../../src/api/Authorization.ts"
import { type KeyId, type OrgId, type SessionId, StepId } from "../../../src/domain/Ids.ts"
import { type SessionChange, SessionWriter } from "../../../src/server/approvals/SessionWriter.ts"
import { Steps } from "../../../src/server/approvals/Steps.ts"
import { transaction } from "../../../src/server/store/transaction.ts"
import type { Client } from "../../../src/client/index.ts"
import { Countersign } from "../../../src/testing/index.ts"
import { eventually, waitForBlockedStatements } from "../../support/eventually.ts"
import { service } from "../../support/service.ts"

const stepNamed = (name: string) => ({
  step_id: StepId.make(name),
  tool: "payments.refund",
  action_class: "write"
})

/** An organization with one rule, and an open session. */
const team = Effect.fnUntraced(function* (
  organization: string,
  effect: "allow" | "reject" | "require_approval" = "allow"
) {
  const countersign = yield* Countersign
  const admin = yield* countersign.client({}, organization)
  const agent = yield* countersign.client({ preset: "runtime" }, organization)
  yield* admin.approvalRules.replace({ payload: { rules: [{ effect }] } })
  const { session_id } = yield* agent.sessions.create({})
  return { admin, agent, params: { id: session_id }, session_id }
})

/** Numbers, types and writing transactions of a session's events. */
const eventsOf = Effect.fnUntraced(function* (session_id: string) {
  const sql = yield* SqlClient.SqlClient
  return yield* sql<{
    readonly number: number
    readonly id: number
    readonly type: string
    readonly written_by: string
  }>`
    SELECT number::int, (data->>'id')::int AS id, type, xmin::text AS written_by
    FROM session_events
    WHERE session_id = ${session_id}
    ORDER BY number
  `
})

/** Requests steps concurrently, not over HTTP, where they would arrive one by one. */
const checkAll = Effect.fnUntraced(function* (session_id: SessionId, names: ReadonlyArray<string>) {
  const steps = yield* Steps
  const sql = yield* SqlClient.SqlClient
  const [key] = yield* sql<{ readonly org_id: OrgId; readonly key_id: KeyId }>`
    SELECT org_id, key_id
    FROM api_keys
      JOIN agent_sessions USING (org_id)
    WHERE session_id = ${session_id}
      AND key_id = agent_sessions.created_by_id
  `
  if (key === undefined) return assert.fail("the session's organization has keys")
  return yield* Effect.forEach(names, (name) => steps.check(session_id, stepNamed(name)), {
    concurrency: "unbounded"
  }).pipe(
    Effect.provideService(Authorized("sessions.write"), {
      org_id: key.org_id,
      actor: { id: key.key_id, name: "agent" },
      scopes: new Set(["sessions.write" as const]),
      groups: [],
      keyMakers: [],
      makers: []
    })
  )
})

/** Asserts that a dozen concurrent steps of a new session share their commits. */
const assertSharing = Effect.fnUntraced(function* (agent: Client["Service"]) {
  const { session_id } = yield* agent.sessions.create({})
  yield* checkAll(
    session_id,
    Array.from({ length: 12 }, (_, index) => `step ${index}`)
  )
  const events = yield* eventsOf(session_id)
  assert.lengthOf(events, 24)
  assert.isAtMost(new Set(events.map(({ written_by }) => written_by)).size, 2)
})

layer(service(), { excludeTestServices: true })("SessionWriter", (it) => {
  it.effect(
    "steps of one session that are requested concurrently share commits, and their events are numbered in order",
    () =>
      Effect.gen(function* () {
        const { session_id } = yield* team("one session")
        const names = Array.from({ length: 25 }, (_, index) => `step ${index}`)
        const answers = yield* checkAll(session_id, names)
        assert.deepStrictEqual(new Set(answers.map(({ decision }) => decision)), new Set(["allow"]))
        const events = yield* eventsOf(session_id)
        assert.deepStrictEqual(
          events.map(({ number }) => number),
          names.map((_, index) => index + 1)
        )
        assert.deepStrictEqual(
          events.map(({ id }) => id),
          events.map(({ number }) => number)
        )
        // The first batch, and one with all that came while it was in flight.
        assert.isAtMost(new Set(events.map(({ written_by }) => written_by)).size, 2)
      })
  )

  it.effect("a shared statement locks the head of the audit chain after the rows of its counts", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const { admin, agent, params } = yield* team("counts before heads", "require_approval")
      const ask = Effect.fnUntraced(function* (name: string) {
        const { approval_id } = yield* agent.sessions.step({ params, payload: stepNamed(name) })
        return {
          params: { id: approval_id ?? assert.fail("the step asks") },
          payload: { decision: "approve" as const }
        }
      })
      yield* admin.approvals.decide(yield* ask("counted"))
      const asked = yield* ask("waits")
      const [organization] = yield* sql<{ readonly org_id: OrgId }>`
        SELECT org_id FROM organizations WHERE name = 'counts before heads'
      `
      const org_id = organization?.org_id ?? assert.fail("the organization exists")
      // A row for each slot and for a day that begins meanwhile.
      yield* sql`
        INSERT INTO approval_group_counts (org_id, day, kind, name, outcome, slot, closed)
        SELECT org_id, day + later, kind, name, outcome, n, 0
        FROM approval_group_counts, generate_series(0, 1) AS later, generate_series(0, 15) AS n
        WHERE org_id = ${org_id}
        ON CONFLICT DO NOTHING
      `
      const { deciding, free } = yield* transaction(
        Effect.gen(function* () {
          yield* sql`SELECT slot FROM approval_group_counts WHERE org_id = ${org_id} FOR UPDATE`
          const deciding = yield* Effect.forkChild(admin.approvals.decide(asked))
          yield* waitForBlockedStatements(1)
          const free =
            yield* sql`SELECT position FROM audit_heads WHERE org_id = ${org_id} FOR UPDATE SKIP LOCKED`
          return { deciding, free }
        })
      )
      yield* Fiber.join(deciding)
      assert.lengthOf(free, 1)
    })
  )

  it.effect(
    "one step that is requested concurrently gets one row, one event, one approval and one answer",
    () =>
      Effect.gen(function* () {
        const { agent, params, session_id } = yield* team("one step", "require_approval")
        const answers = yield* Effect.replicateEffect(
          agent.sessions.step({ params, payload: stepNamed("only") }),
          10,
          { concurrency: "unbounded" }
        )
        assert.strictEqual(new Set(answers.map(({ approval_id }) => approval_id)).size, 1)
        assert.deepStrictEqual(
          (yield* eventsOf(session_id)).map(({ type }) => type),
          ["step:governed", "approval:requested"]
        )
        const sql = yield* SqlClient.SqlClient
        assert.lengthOf(yield* sql`SELECT 1 FROM approvals WHERE session_id = ${session_id}`, 1)
      })
  )

  it.effect(
    "a step of a locked session waits for the lock, and does not delay the steps of other sessions",
    () =>
      Effect.gen(function* () {
        const { agent, params, session_id } = yield* team("locked")
        const other = yield* agent.sessions.create({})
        const sql = yield* SqlClient.SqlClient
        const locked = yield* Deferred.make<void>()
        const release = yield* Deferred.make<void>()
        const holder = yield* Effect.forkChild(
          transaction(
            sql`SELECT 1 FROM agent_sessions WHERE session_id = ${session_id} FOR NO KEY UPDATE`.pipe(
              Effect.andThen(Deferred.succeed(locked, undefined)),
              Effect.andThen(Deferred.await(release))
            )
          )
        )
        yield* Deferred.await(locked)
        const waiting = yield* Effect.forkChild(agent.sessions.step({ params, payload: stepNamed("waits") }))
        yield* waitForBlockedStatements(1)
        const meanwhile = yield* agent.sessions.step({
          params: { id: other.session_id },
          payload: stepNamed("does not wait")
        })
        assert.strictEqual(meanwhile.decision, "allow")
        assert.isUndefined(waiting.pollUnsafe())
        yield* Deferred.succeed(release, undefined)
        assert.strictEqual((yield* Fiber.join(waiting)).decision, "allow")
        yield* Fiber.join(holder)
        assert.deepStrictEqual(
          (yield* eventsOf(session_id)).map(({ number }) => number),
          [1]
        )
      })
  )

  it.effect(
    "rules that another replica has changed apply to the next step, and to a step that is resumed",
    () =>
      Effect.gen(function* () {
        const { agent, params, session_id } = yield* team("stale rules")
        const allowed = yield* agent.sessions.step({ params, payload: stepNamed("before") })
        assert.strictEqual(allowed.decision, "allow")
        const sql = yield* SqlClient.SqlClient
        yield* sql`
        UPDATE approval_rules
        SET rules = replace(rules::text, '"allow"', '"reject"')::json, revision = revision + 1
        WHERE org_id = (SELECT org_id FROM agent_sessions WHERE session_id = ${session_id})
      `
        const after = yield* agent.sessions.step({ params, payload: stepNamed("after") })
        assert.strictEqual(after.decision, "reject")
        const resumed = yield* agent.sessions.step({ params, payload: stepNamed("before") })
        assert.strictEqual(resumed.decision, "reject")
      })
  )

  it.effect(
    "a step is resumed by the rules that another replica has changed, however often it was allowed before",
    () =>
      Effect.gen(function* () {
        const { agent, params, session_id } = yield* team("stale rules of a resume")
        const ask = Effect.map(
          agent.sessions.step({ params, payload: stepNamed("only") }),
          ({ decision }) => decision
        )
        assert.strictEqual(yield* ask, "allow")
        assert.strictEqual(yield* ask, "allow")
        const sql = yield* SqlClient.SqlClient
        yield* sql`
        UPDATE approval_rules
        SET rules = replace(rules::text, '"allow"', '"reject"')::json, revision = revision + 1
        WHERE org_id = (SELECT org_id FROM agent_sessions WHERE session_id = ${session_id})
      `
        assert.strictEqual(yield* ask, "reject")
      })
  )

  it.effect("a step whose window has passed gets the timeout action, before the deadline worker runs", () =>
    Effect.gen(function* () {
      const { agent, params, session_id } = yield* team("window passed", "require_approval")
      const ask = Effect.map(
        agent.sessions.step({ params, payload: stepNamed("only") }),
        ({ decision }) => decision
      )
      assert.strictEqual(yield* ask, "pending")
      const sql = yield* SqlClient.SqlClient
      // The worker looks for `next_due_at`; the request must not depend on it having run.
      yield* sql`
        UPDATE approvals
        SET review_deadline_at = now() - interval '1 second', expires_at = now() - interval '1 second', next_due_at = now()
        WHERE session_id = ${session_id}
      `
      assert.strictEqual(yield* ask, "reject")
    })
  )

  it.effect(
    "an endpoint that another replica has changed gets the events of its new subscription alone",
    () =>
      Effect.gen(function* () {
        const { admin, agent, params, session_id } = yield* team("stale endpoints", "require_approval")
        yield* agent.sessions.step({ params, payload: stepNamed("before") })
        yield* admin.notificationEndpoints.create({ payload: { url: "http://127.0.0.1:9/hook" } })
        const sql = yield* SqlClient.SqlClient
        const queued = Effect.map(
          sql<{ readonly label: string }>`
          SELECT label
          FROM deliveries
          WHERE org_id = (SELECT org_id FROM agent_sessions WHERE session_id = ${session_id})
        `,
          (rows) => rows.length
        )
        yield* agent.sessions.step({ params, payload: stepNamed("created") })
        assert.strictEqual(yield* queued, 1)
        yield* sql`
        UPDATE notification_endpoints
        SET events = '{approval.approved}'
        WHERE org_id = (SELECT org_id FROM agent_sessions WHERE session_id = ${session_id})
      `
        yield* agent.sessions.step({ params, payload: stepNamed("not subscribed") })
        assert.strictEqual(yield* queued, 1)
      })
  )

  it.effect("a closed session takes no step, although its facts are cached", () =>
    Effect.gen(function* () {
      const { agent, params, session_id } = yield* team("closed")
      yield* agent.sessions.step({ params, payload: stepNamed("before") })
      const sql = yield* SqlClient.SqlClient
      yield* sql`UPDATE agent_sessions SET closed_at = now() WHERE session_id = ${session_id}`
      const refused = yield* Effect.flip(agent.sessions.step({ params, payload: stepNamed("after") }))
      assert.strictEqual(refused._tag, "SESSION_CLOSED")
      const resumed = yield* Effect.flip(agent.sessions.step({ params, payload: stepNamed("before") }))
      assert.strictEqual(resumed._tag, "SESSION_CLOSED")
    })
  )

  it.effect("a session of another organization is not found, although its facts are cached", () =>
    Effect.gen(function* () {
      const { agent, params } = yield* team("owner")
      yield* agent.sessions.step({ params, payload: stepNamed("first") })
      const stranger = yield* team("stranger")
      const refused = yield* Effect.flip(
        stranger.agent.sessions.step({ params, payload: stepNamed("first") })
      )
      assert.strictEqual(refused._tag, "NOT_FOUND")
      const outcome = yield* Effect.flip(
        stranger.agent.sessions.reportOutcome({
          params: { ...params, step_id: StepId.make("first") },
          payload: { status: "succeeded" }
        })
      )
      assert.strictEqual(outcome._tag, "NOT_FOUND")
    })
  )

  it.effect(
    "a write that is refused for a locked session or changed endpoints does not stop its organization from sharing",
    () =>
      Effect.gen(function* () {
        const { admin, agent, params, session_id } = yield* team("refused writes", "require_approval")
        for (const path of ["one", "two", "three"]) {
          yield* admin.notificationEndpoints.create({ payload: { url: `http://127.0.0.1:9/${path}` } })
        }
        const sql = yield* SqlClient.SqlClient
        const waiting = yield* transaction(
          Effect.gen(function* () {
            yield* sql`SELECT 1 FROM agent_sessions WHERE session_id = ${session_id} FOR NO KEY UPDATE`
            const step = yield* Effect.forkChild(agent.sessions.step({ params, payload: stepNamed("waits") }))
            yield* waitForBlockedStatements(1)
            return step
          })
        )
        yield* Fiber.join(waiting)
        yield* assertSharing(agent)
        yield* sql`
          UPDATE notification_endpoints
          SET url_hint = url_hint
          WHERE org_id = (SELECT org_id FROM agent_sessions WHERE session_id = ${session_id})
        `
        yield* agent.sessions.step({ params, payload: stepNamed("refused") })
        yield* assertSharing(agent)
      })
  )

  it.effect(
    "an approval that this replica has requested, and another replica has decided or removed, is not decided again",
    () =>
      Effect.gen(function* () {
        const { admin, agent, params, session_id } = yield* team("decided elsewhere", "require_approval")
        const sql = yield* SqlClient.SqlClient
        const decide = Effect.fnUntraced(function* (
          name: string,
          meanwhile: Effect.Effect<unknown, SqlError.SqlError>
        ) {
          const { approval_id } = yield* agent.sessions.step({ params, payload: stepNamed(name) })
          if (approval_id === null) return assert.fail("expected a pending approval")
          yield* meanwhile
          const before = yield* eventsOf(session_id)
          const refused = yield* Effect.flip(
            admin.approvals.decide({ params: { id: approval_id }, payload: { decision: "reject" } })
          )
          assert.deepStrictEqual(yield* eventsOf(session_id), before)
          return refused._tag
        })
        const decided = yield* decide(
          "decided",
          sql`
            UPDATE approvals
            SET status = 'approved', outcome = 'allow', decision_source = 'human', decided_at = now(), next_due_at = NULL
            WHERE session_id = ${session_id}
          `
        )
        assert.strictEqual(decided, "APPROVAL_ALREADY_DECIDED")
        const removed = yield* decide("removed", sql`DELETE FROM approvals WHERE session_id = ${session_id}`)
        assert.strictEqual(removed, "NOT_FOUND")
      })
  )

  it.effect("an approval that another replica has escalated to the admins is not decided by a reviewer", () =>
    Effect.gen(function* () {
      const { agent, params, session_id } = yield* team("escalated elsewhere", "require_approval")
      const reviewer = yield* (yield* Countersign).client({ preset: "reviewer" }, "escalated elsewhere")
      const { approval_id } = yield* agent.sessions.step({ params, payload: stepNamed("only") })
      if (approval_id === null) return assert.fail("expected a pending approval")
      const sql = yield* SqlClient.SqlClient
      yield* sql`
        UPDATE approvals
        SET stage = 'admin', escalated_at = now(), expires_at = expires_at + interval '1 hour',
          escalation_deadline_at = expires_at + interval '1 hour'
        WHERE session_id = ${session_id}
      `
      const refused = yield* Effect.flip(
        reviewer.approvals.decide({ params: { id: approval_id }, payload: { decision: "approve" } })
      )
      assert.strictEqual(refused._tag, "ADMIN_REQUIRED")
    })
  )

  it.effect(
    "an approval that is requested while its session is being closed is rejected with the session",
    () =>
      Effect.gen(function* () {
        const { admin, agent, params, session_id } = yield* team("closing", "require_approval")
        const closing = yield* transaction(
          Effect.gen(function* () {
            yield* checkAll(session_id, ["asked meanwhile"])
            const closing = yield* Effect.forkChild(agent.sessions.close({ params }))
            yield* waitForBlockedStatements(1)
            return closing
          })
        )
        const closed = yield* Fiber.join(closing)
        assert.strictEqual(closed.status, "closed")
        const { approvals } = yield* admin.approvals.list({ query: { session_id } })
        assert.deepStrictEqual(
          approvals.map(({ decision_source, outcome, status }) => ({ decision_source, outcome, status })),
          [{ decision_source: "session_closed", outcome: "reject", status: "expired" }]
        )
        const events = yield* eventsOf(session_id)
        assert.strictEqual(events.at(-1)?.type, "session:closed")
        // Closing it again changes nothing.
        assert.deepStrictEqual(yield* agent.sessions.close({ params }), closed)
        assert.deepStrictEqual(yield* eventsOf(session_id), events)
      })
  )

  it.effect("a cached approval is not found by another organization", () =>
    Effect.gen(function* () {
      const { agent, params } = yield* team("cached approval", "require_approval")
      const { approval_id } = yield* agent.sessions.step({ params, payload: stepNamed("only") })
      if (approval_id === null) return assert.fail("expected a pending approval")
      const stranger = yield* team("another organization")
      const refused = yield* Effect.flip(
        stranger.admin.approvals.decide({ params: { id: approval_id }, payload: { decision: "approve" } })
      )
      assert.strictEqual(refused._tag, "NOT_FOUND")
    })
  )

  it.effect("a step that waited and was removed since gets a new approval", () =>
    Effect.gen(function* () {
      const { agent, params, session_id } = yield* team("removed step", "require_approval")
      const first = yield* agent.sessions.step({ params, payload: stepNamed("only") })
      const repeated = yield* agent.sessions.step({ params, payload: stepNamed("only") })
      assert.deepStrictEqual(repeated, first)
      const sql = yield* SqlClient.SqlClient
      yield* sql`DELETE FROM approvals WHERE session_id = ${session_id}`
      yield* sql`DELETE FROM governed_steps WHERE session_id = ${session_id}`
      const second = yield* agent.sessions.step({ params, payload: stepNamed("only") })
      assert.strictEqual(second.decision, "pending")
      assert.notStrictEqual(second.approval_id, first.approval_id)
    })
  )

  it.effect("concurrent resumes of a decided step record its decision once", () =>
    Effect.gen(function* () {
      const { admin, agent, params, session_id } = yield* team("resumed", "require_approval")
      const { approval_id } = yield* agent.sessions.step({ params, payload: stepNamed("only") })
      if (approval_id === null) return assert.fail("expected a pending approval")
      yield* admin.approvals.decide({ params: { id: approval_id }, payload: { decision: "approve" } })
      const answers = yield* Effect.replicateEffect(
        agent.sessions.step({ params, payload: stepNamed("only") }),
        8,
        { concurrency: "unbounded" }
      )
      assert.deepStrictEqual(new Set(answers.map(({ decision }) => decision)), new Set(["allow"]))
      assert.deepStrictEqual(
        (yield* eventsOf(session_id)).map(({ type }) => type),
        ["step:governed", "approval:requested", "approval:decided", "step:governed"]
      )
      const sql = yield* SqlClient.SqlClient
      const entries = yield* eventually(
        sql`SELECT 1 FROM audit_log WHERE target_id = ${approval_id} AND action = 'approval.approved'`,
        (rows) => rows.length > 0
      )
      assert.lengthOf(entries, 1)
    })
  )

  it.effect(
    "of concurrent decisions of many approvals of one session each is recorded once, in one order",
    () =>
      Effect.gen(function* () {
        const { admin, agent, params, session_id } = yield* team("many decisions", "require_approval")
        const names = Array.from({ length: 12 }, (_, index) => `step ${index}`)
        const asked = yield* Effect.forEach(
          names,
          (name) => agent.sessions.step({ params, payload: stepNamed(name) }),
          { concurrency: "unbounded" }
        )
        const ids = asked.flatMap(({ approval_id }) => (approval_id === null ? [] : [approval_id]))
        const decisions = yield* Effect.forEach(
          ids.flatMap((id) => [
            { id, decision: "approve" as const },
            { id, decision: "reject" as const }
          ]),
          ({ decision, id }) =>
            Effect.match(admin.approvals.decide({ params: { id }, payload: { decision } }), {
              onFailure: (error) => error._tag,
              onSuccess: ({ status }) => status
            }),
          { concurrency: "unbounded" }
        )
        assert.lengthOf(
          decisions.filter((result) => result === "approved" || result === "rejected"),
          names.length
        )
        assert.lengthOf(
          decisions.filter((result) => result === "APPROVAL_ALREADY_DECIDED"),
          names.length
        )
        const events = yield* eventsOf(session_id)
        assert.deepStrictEqual(
          events.map(({ number }) => number),
          Array.from({ length: 3 * names.length }, (_, index) => index + 1)
        )
        assert.lengthOf(
          events.filter(({ type }) => type === "approval:decided"),
          names.length
        )
      })
  )

  it.effect("a step that another transaction inserts meanwhile is resumed", () =>
    Effect.gen(function* () {
      const { agent, params, session_id } = yield* team("inserted meanwhile")
      yield* agent.sessions.step({ params, payload: stepNamed("only") })
      const sql = yield* SqlClient.SqlClient
      yield* sql`CREATE TABLE inserted_meanwhile AS SELECT * FROM governed_steps WHERE session_id = ${session_id}`
      yield* sql`DELETE FROM governed_steps WHERE session_id = ${session_id}`
      const request = yield* transaction(
        Effect.gen(function* () {
          yield* sql`INSERT INTO governed_steps SELECT * FROM inserted_meanwhile`
          const step = yield* Effect.forkChild(agent.sessions.step({ params, payload: stepNamed("only") }))
          yield* waitForBlockedStatements(1)
          return step
        })
      )
      assert.strictEqual((yield* Fiber.join(request)).decision, "allow")
      assert.deepStrictEqual(
        (yield* eventsOf(session_id)).map(({ number }) => number),
        [1]
      )
    })
  )

  it.effect("a repeated step that was decided by a rule locks nothing", () =>
    Effect.gen(function* () {
      const { agent, params, session_id } = yield* team("repeated")
      const sql = yield* SqlClient.SqlClient
      const lastLock = sql`SELECT xmax::text AS xmax FROM agent_sessions WHERE session_id = ${session_id}`
      const step = agent.sessions.step({ params, payload: stepNamed("only") })
      const first = yield* step
      const before = yield* lastLock
      assert.deepStrictEqual(yield* step, first)
      assert.deepStrictEqual(yield* lastLock, before)
    })
  )

  it.effect("a change that neither succeeds nor fails under the lock is rolled back", () =>
    Effect.gen(function* () {
      const { session_id } = yield* team("no answer")
      const writer = yield* SessionWriter
      const sql = yield* SqlClient.SqlClient
      const close = sql`UPDATE agent_sessions SET closed_at = now() WHERE session_id = ${session_id}`
      const exit = yield* Effect.exit(
        writer.commit((isLocked) => (isLocked ? Effect.as(close, undefined) : Effect.undefined))
      )
      assert.isTrue(Exit.hasDies(exit))
      const rows = yield* sql`SELECT closed_at FROM agent_sessions WHERE session_id = ${session_id}`
      assert.deepStrictEqual(rows, [{ closed_at: null }])
    })
  )

  it.effect("the event of a resumed step is not dated before the decision that it follows from", () =>
    Effect.gen(function* () {
      const { agent, params, session_id } = yield* team("dated", "require_approval")
      yield* agent.sessions.step({ params, payload: stepNamed("only") })
      const sql = yield* SqlClient.SqlClient
      const request = yield* transaction(
        Effect.gen(function* () {
          yield* sql`LOCK TABLE governed_steps`
          const step = yield* Effect.forkChild(agent.sessions.step({ params, payload: stepNamed("only") }))
          yield* waitForBlockedStatements(1)
          yield* sql`
            UPDATE approvals
            SET status = 'approved', outcome = 'allow', decision_source = 'human', decided_at = clock_timestamp(), next_due_at = NULL
            WHERE session_id = ${session_id}
          `
          return step
        })
      )
      assert.strictEqual((yield* Fiber.join(request)).decision, "allow")
      const dated = yield* sql`
        SELECT e.occurred_at >= date_trunc('milliseconds', a.decided_at) AS in_order
        FROM session_events e
          JOIN approvals a USING (org_id, session_id)
        WHERE session_id = ${session_id}
          AND number = 3
      `
      assert.deepStrictEqual(dated, [{ in_order: true }])
    })
  )

  it.effect("an approval with large arguments is decided, and is not read in a batch with others", () =>
    Effect.gen(function* () {
      const { admin, agent, params, session_id } = yield* team("large arguments", "require_approval")
      const writer = yield* SessionWriter
      const sql = yield* SqlClient.SqlClient
      const [session] = yield* sql<{ readonly org_id: OrgId }>`
        SELECT org_id
        FROM agent_sessions
        WHERE session_id = ${session_id}
      `
      if (session === undefined) return assert.fail("the session exists")
      for (const [size, batched] of [
        [1_000, true],
        [100_000, false]
      ] as const) {
        const { approval_id } = yield* agent.sessions.step({
          params,
          payload: { ...stepNamed(`${size} characters`), arguments: "x".repeat(size) }
        })
        if (approval_id === null) return assert.fail("expected a pending approval")
        const found = yield* writer.findApproval({ org_id: session.org_id, approval_id })
        assert.strictEqual(found !== undefined, batched)
        const { status } = yield* admin.approvals.decide({
          params: { id: approval_id },
          payload: { decision: "approve" }
        })
        assert.strictEqual(status, "approved")
      }
    })
  )

  it.effect("of concurrent decisions of an approval with large arguments exactly one is accepted", () =>
    Effect.gen(function* () {
      const { admin, agent, params, session_id } = yield* team("large decisions", "require_approval")
      // Too large to be decided by a shared statement: each decision has a transaction of its own.
      const { approval_id } = yield* agent.sessions.step({
        params,
        payload: { ...stepNamed("large"), arguments: "x".repeat(100_000) }
      })
      if (approval_id === null) return assert.fail("expected a pending approval")
      const decide = (decision: "approve" | "reject") =>
        Effect.match(admin.approvals.decide({ params: { id: approval_id }, payload: { decision } }), {
          onFailure: (error) => error._tag,
          onSuccess: ({ status }) => status
        })
      const results = yield* Effect.forEach(["approve", "reject", "approve", "reject"] as const, decide, {
        concurrency: "unbounded"
      })
      const accepted = new Set(results.filter((result) => result !== "APPROVAL_ALREADY_DECIDED"))
      assert.strictEqual(accepted.size, 1)
      assert.lengthOf(
        (yield* eventsOf(session_id)).filter(({ type }) => type === "approval:decided"),
        1
      )
    })
  )

  it.effect(
    "a change whose premise no longer holds is not written, although it is prepared for the current rules",
    () =>
      Effect.gen(function* () {
        const { agent, params, session_id } = yield* team("stale premises")
        const { admin } = yield* team("stale premises", "reject")
        yield* agent.sessions.step({ params, payload: stepNamed("rejected") })
        yield* admin.approvalRules.replace({ payload: { rules: [{ effect: "allow" }] } })
        yield* agent.sessions.step({ params, payload: stepNamed("completed") })
        yield* agent.sessions.reportOutcome({
          params: { ...params, step_id: StepId.make("completed") },
          payload: { status: "succeeded" }
        })
        const writer = yield* SessionWriter
        const sql = yield* SqlClient.SqlClient
        const [session] = yield* sql<{ readonly org_id: OrgId }>`
        SELECT org_id
        FROM agent_sessions
        WHERE session_id = ${session_id}
      `
        if (session === undefined) return assert.fail("the session exists")
        const before = yield* eventsOf(session_id)
        const now = yield* DateTime.now
        const outcome = (name: string) => ({
          _tag: "Outcome" as const,
          last_decision: "allow" as const,
          execution: { from: null, to: null },
          outcome: { step_id: StepId.make(name), status: "failed" as const, error: null, occurred_at: now }
        })
        const changes: ReadonlyArray<SessionChange> = [
          outcome("completed"),
          outcome("rejected"),
          { _tag: "Decision", step_id: StepId.make("rejected"), from: "pending", to: "allow" },
          { _tag: "Decision", step_id: StepId.make("completed"), from: "allow", to: "reject" }
        ]
        for (const change of changes) {
          const write = {
            org_id: session.org_id,
            session_id,
            change,
            rules_revision: null,
            events: Arr.of({ type: "tool:outcome" as const, step_id: null, payload: {} }),
            published: [],
            now,
            onWritten: () => Effect.die(new Error("nothing is written"))
          }
          const { _tag } = yield* writer.write(write, false)
          assert.strictEqual(_tag, "NotWritten")
        }
        assert.deepStrictEqual(yield* eventsOf(session_id), before)
      })
  )
})

layer(
  // The first attempt is an hour away, so that deliveries stay queued.
  service({
    environment: { COUNTERSIGN_NOTIFY_RETRY_SECONDS: "3600", COUNTERSIGN_NOTIFY_QUEUE_LIMIT: "2" }
  }),
  { excludeTestServices: true }
)("SessionWriter › a queue limit", (it) => {
  it.effect(
    "concurrent steps do not exceed the queue limit of an endpoint; the deliveries beyond it are recorded as failed",
    () =>
      Effect.gen(function* () {
        const { admin, agent, params } = yield* team("queue limit", "require_approval")
        yield* admin.notificationEndpoints.create({ payload: { url: "http://127.0.0.1:9/hook" } })
        const names = Array.from({ length: 8 }, (_, index) => `step ${index}`)
        yield* Effect.forEach(names, (name) => agent.sessions.step({ params, payload: stepNamed(name) }), {
          concurrency: "unbounded"
        })
        const sql = yield* SqlClient.SqlClient
        const statuses = yield* sql`
        SELECT status, count(*)::int AS count
        FROM deliveries
        GROUP BY status
        ORDER BY status
      `
        assert.deepStrictEqual(statuses, [
          { status: "failed", count: 6 },
          { status: "pending", count: 2 }
        ])
        assert.lengthOf(yield* sql`SELECT 1 FROM delivery_queue`, 2)
      })
  )
})
