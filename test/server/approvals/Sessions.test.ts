import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { type SessionId, StepId, type TaskId } from "../../../src/domain/Ids.ts"
import { Countersign } from "../../../src/testing/index.ts"
import { pointersOf, send, service } from "../../support/service.ts"
import { sortingTask } from "../../support/tasks.ts"

layer(service(), { excludeTestServices: true })("Sessions", (it) => {
  it.effect("sessions are listed newest first, in pages, to their own organization alone", () =>
    Effect.gen(function* () {
      const countersign = yield* Countersign
      const agent = yield* countersign.client({ preset: "runtime" }, "pages")
      const made: Array<SessionId> = []
      for (let count = 0; count < 5; count++) {
        made.unshift((yield* agent.sessions.create({ payload: { metadata: { count } } })).session_id)
      }
      const one = yield* agent.sessions.list({ query: { limit: 3 } })
      assert.deepStrictEqual(
        one.sessions.map(({ session_id }) => session_id),
        made.slice(0, 3)
      )
      assert.deepStrictEqual(one.sessions[0]?.metadata, { count: 4 })
      const cursor = one.next_cursor ?? assert.fail("there are more")
      const two = yield* agent.sessions.list({ query: { limit: 3, cursor } })
      assert.deepStrictEqual(
        two.sessions.map(({ session_id }) => session_id),
        made.slice(3)
      )
      assert.isNull(two.next_cursor)
      const other = yield* countersign.client({ preset: "runtime" }, "others")
      assert.lengthOf((yield* other.sessions.list({})).sessions, 0)
      // A cursor of another organization gives no access to its sessions.
      assert.lengthOf((yield* other.sessions.list({ query: { cursor } })).sessions, 0)
    })
  )

  it.effect("the list is filtered by status", () =>
    Effect.gen(function* () {
      const agent = yield* (yield* Countersign).client({ preset: "runtime" }, "by status")
      const one = yield* agent.sessions.create({})
      const two = yield* agent.sessions.create({})
      const three = yield* agent.sessions.create({})
      yield* agent.sessions.close({ params: { id: two.session_id } })
      const ids = (status: "open" | "closed") =>
        Effect.map(agent.sessions.list({ query: { status } }), ({ sessions }) =>
          sessions.map(({ session_id }) => session_id)
        )
      assert.deepStrictEqual(yield* ids("closed"), [two.session_id])
      assert.deepStrictEqual(yield* ids("open"), [three.session_id, one.session_id])
    })
  )

  it.effect("a page of sessions ends at 256 KiB of metadata", () =>
    Effect.gen(function* () {
      const agent = yield* (yield* Countersign).client({ preset: "runtime" }, "large pages")
      const note = "x".repeat(16_000)
      const made: Array<SessionId> = []
      for (let count = 0; count < 20; count++) {
        made.unshift((yield* agent.sessions.create({ payload: { metadata: { note } } })).session_id)
      }
      const one = yield* agent.sessions.list({})
      assert.lengthOf(one.sessions, 16)
      const two = yield* agent.sessions.list({
        query: { cursor: one.next_cursor ?? assert.fail("no cursor") }
      })
      assert.deepStrictEqual(
        [...one.sessions, ...two.sessions].map(({ session_id }) => session_id),
        made
      )
      assert.isNull(two.next_cursor)
    })
  )

  it.effect("sessions and steps can only name tasks of their own organization", () =>
    Effect.gen(function* () {
      const { client } = yield* Countersign
      const agent = yield* client({ preset: "runtime" }, "tasks")
      const own = yield* (yield* client({}, "tasks")).tasks.create({ payload: sortingTask })
      const foreign = yield* (yield* client({}, "others")).tasks.create({ payload: sortingTask })
      const refused = yield* Effect.flip(agent.sessions.create({ payload: { task_id: foreign.id } }))
      assert.propertyVal(refused, "_tag", "NOT_FOUND")
      assert.deepStrictEqual(pointersOf(refused), ["#/task_id"])
      const { session_id } = yield* agent.sessions.create({})
      const step = (task_id: TaskId) =>
        agent.sessions.step({
          params: { id: session_id },
          payload: { step_id: StepId.make("1"), tool: "t", action_class: "c", task_id }
        })
      const alien = yield* Effect.flip(step(foreign.id))
      assert.propertyVal(alien, "_tag", "NOT_FOUND")
      assert.deepStrictEqual(pointersOf(alien), ["#/task_id"])
      assert.strictEqual((yield* step(own.id)).decision, "pending")
    })
  )

  it.effect(
    "a step with another task than its session's is refused, so that the rules of that task apply",
    () =>
      Effect.gen(function* () {
        const { client } = yield* Countersign
        const [agent, admin] = [yield* client({ preset: "runtime" }, "claims"), yield* client({}, "claims")]
        const own = yield* admin.tasks.create({ payload: sortingTask })
        const other = yield* admin.tasks.create({ payload: { ...sortingTask, name: "other" } })
        const foreign = yield* (yield* client({}, "others")).tasks.create({ payload: sortingTask })
        yield* admin.approvalRules.replace({
          payload: { rules: [{ task_id: own.id, effect: "reject" }, { effect: "allow" }] }
        })
        const { session_id } = yield* agent.sessions.create({ payload: { task_id: own.id } })
        const step = (task?: TaskId) =>
          agent.sessions.step({
            params: { id: session_id },
            payload: {
              ...{ step_id: StepId.make("1"), tool: "t", action_class: "c" },
              ...(task === undefined ? {} : { task_id: task })
            }
          })
        for (const task of [other.id, foreign.id]) {
          const refused = yield* Effect.flip(step(task))
          assert.propertyVal(refused, "_tag", "INVALID_REQUEST")
          assert.deepStrictEqual(pointersOf(refused), ["#/task_id"])
        }
        assert.strictEqual((yield* step()).decision, "reject")
      })
  )

  it.effect(
    "sessions that are created concurrently belong each to its caller, whatever the organization",
    () =>
      Effect.gen(function* () {
        const countersign = yield* Countersign
        const all = { concurrency: "unbounded" } as const
        const organizations = ["at-once-1", "at-once-2"]
        const agents = yield* Effect.forEach(organizations, (organization) =>
          Effect.map(countersign.client({ preset: "runtime" }, organization), (client) => ({
            client,
            organization
          }))
        )
        const asked = Array.from({ length: 40 }, (_, number) =>
          agents.map(({ client, organization }) => ({ client, metadata: { organization, number } }))
        ).flat()
        const made = yield* Effect.forEach(
          asked,
          ({ client, metadata }) => client.sessions.create({ payload: { metadata } }),
          all
        )
        assert.deepStrictEqual(
          made.map(({ metadata }) => metadata),
          asked.map(({ metadata }) => metadata)
        )
        for (const { client, organization } of agents) {
          const { sessions } = yield* client.sessions.list({ query: { limit: 100 } })
          const own = made.filter(({ metadata }) => metadata["organization"] === organization)
          assert.sameDeepMembers([...sessions], own)
        }
      })
  )

  it.effect("metadata is accepted up to its size limit", () =>
    Effect.gen(function* () {
      const key = yield* (yield* Countersign).key({}, "facts")
      const create = (note: string) =>
        send("/v1/agent-sessions", { method: "POST", key, body: JSON.stringify({ metadata: { note } }) })
      assert.strictEqual((yield* create("x".repeat(16_000))).status, 201)
      const refused = yield* create("x".repeat(16_384))
      assert.strictEqual(refused.status, 400)
      assert.strictEqual(refused.errors[0]?.pointer, "#/metadata")
    })
  )

  it.effect(
    "closing a session expires thousands of pending approvals, each with one event, in the order of their requests",
    () =>
      Effect.gen(function* () {
        const waiting = 2_500
        const countersign = yield* Countersign
        const agent = yield* countersign.client({ preset: "runtime" }, "thousands")
        const params = { id: (yield* agent.sessions.create({})).session_id }
        const ask = (step_id: string) =>
          agent.sessions.step({
            params,
            payload: { step_id: StepId.make(step_id), tool: "t", action_class: "c" }
          })
        yield* ask("first")
        const sql = yield* SqlClient.SqlClient
        // Copies of the approval that the service inserted.
        yield* sql`
        INSERT INTO approvals (
          org_id, approval_id, session_id, step_id, tool, action_class, arguments_digest, status, stage, requested_at, requested_by_id,
          review_deadline_at, expires_at, timeout_action, next_due_at
        )
        SELECT
          org_id, 'apr_f' || lpad(n::text, 31, '0'), session_id, 'step ' || n, tool, action_class, arguments_digest, status, stage,
          requested_at, requested_by_id, review_deadline_at, expires_at, timeout_action, next_due_at
        FROM approvals, generate_series(2, ${waiting}::int) AS n
        WHERE session_id = ${params.id}
      `
        assert.strictEqual((yield* agent.sessions.close({ params })).status, "closed")
        const events = yield* sql<{ readonly type: string; readonly step_id: string | null }>`
        SELECT type, step_id
        FROM session_events
        WHERE session_id = ${params.id}
          AND number > 2
        ORDER BY number
      `
        const steps = ["first", ...Array.from({ length: waiting - 1 }, (_, index) => `step ${index + 2}`)]
        assert.deepStrictEqual(
          events.map(({ step_id, type }) => `${type} ${step_id}`),
          [...steps.map((name) => `approval:decided ${name}`), "session:closed null"]
        )
        const outcomes = yield* sql<{ readonly said: string; readonly count: number }>`
        SELECT status || ' ' || outcome || ' ' || decision_source AS said, count(*)::int AS count
        FROM approvals
        WHERE session_id = ${params.id}
        GROUP BY 1
      `
        assert.deepStrictEqual(outcomes, [{ said: "expired reject session_closed", count: waiting }])
      })
  )
})
