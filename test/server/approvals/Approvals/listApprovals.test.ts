import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { type ApprovalId, StepId } from "../../../../src/domain/Ids.ts"
import { Countersign } from "../../../../src/testing/index.ts"
import { send, service } from "../../../support/service.ts"
import { sortingTask } from "../../../support/tasks.ts"

layer(service(), { excludeTestServices: true })("listApprovals", (it) => {
  const asking = (organization: string) =>
    Effect.gen(function* () {
      const countersign = yield* Countersign
      const agent = yield* countersign.client({ preset: "runtime" }, organization)
      const reviewer = yield* countersign.client({ preset: "reviewer" }, organization)
      const ask = (session: { readonly session_id: typeof first.session_id }, step_id: string, args = {}) =>
        Effect.map(
          agent.sessions.step({
            params: { id: session.session_id },
            payload: { step_id: StepId.make(step_id), tool: "t", action_class: "c", arguments: args }
          }),
          ({ approval_id }) => {
            if (approval_id === null) throw new Error("every step waits for a person here")
            return approval_id
          }
        )
      const first = yield* agent.sessions.create({})
      return { agent, ask, first, reviewer }
    })

  it.effect("the list can be filtered by status, session and task, and by all of them", () =>
    Effect.gen(function* () {
      const { agent, ask, first, reviewer } = yield* asking("filters")
      const { client } = yield* Countersign
      const { id: task_id } = yield* (yield* client({}, "filters")).tasks.create({ payload: sortingTask })
      const second = yield* agent.sessions.create({ payload: { task_id } })
      const [a, b, c] = [yield* ask(first, "a"), yield* ask(second, "b"), yield* ask(second, "c")]
      yield* reviewer.approvals.decide({ params: { id: c }, payload: { decision: "reject" } })
      const ids = (query: NonNullable<Parameters<typeof reviewer.approvals.list>[0]>["query"]) =>
        Effect.map(reviewer.approvals.list(query === undefined ? {} : { query }), ({ approvals }) =>
          approvals.map(({ approval_id }) => approval_id)
        )
      assert.deepStrictEqual(yield* ids({}), [c, b, a])
      assert.deepStrictEqual(yield* ids({ status: "pending" }), [b, a])
      assert.deepStrictEqual(yield* ids({ status: "expired" }), [])
      assert.deepStrictEqual(yield* ids({ session_id: second.session_id }), [c, b])
      assert.deepStrictEqual(yield* ids({ task_id }), [c, b])
      assert.deepStrictEqual(yield* ids({ task_id, status: "pending", session_id: second.session_id }), [b])
      assert.deepStrictEqual(yield* ids({ task_id, session_id: first.session_id }), [])
    })
  )

  it.effect("a page continues after the page before it, also while approvals are added", () =>
    Effect.gen(function* () {
      const { ask, first, reviewer } = yield* asking("cursors")
      const asked: Array<ApprovalId> = []
      for (let count = 0; count < 5; count++) asked.unshift(yield* ask(first, `step ${count}`))
      const page = (cursor: ApprovalId | null) =>
        reviewer.approvals.list({
          query: { limit: 2, status: "pending", ...(cursor === null ? {} : { cursor }) }
        })
      const one = yield* page(null)
      yield* ask(first, "in between")
      const two = yield* page(one.next_cursor)
      const three = yield* page(two.next_cursor)
      assert.deepStrictEqual(
        [one, two, three].map(({ approvals }) => approvals.map(({ approval_id }) => approval_id)),
        [asked.slice(0, 2), asked.slice(2, 4), asked.slice(4)]
      )
      assert.isNull(three.next_cursor)
      const wrong = yield* send("/v1/agent-approvals?status=waiting", {
        key: yield* (yield* Countersign).key({}, "cursors")
      })
      assert.strictEqual(wrong.errors[0]?.pointer, "#/status")
    })
  )

  it.effect("a page ends at 256 KiB of arguments, and larger arguments are on a page of their own", () =>
    Effect.gen(function* () {
      const { ask, first, reviewer } = yield* asking("bytes")
      const asked = [yield* ask(first, "small")]
      const large = { note: "x".repeat(80 * 1024) }
      for (const name of ["a", "b", "c"]) asked.unshift(yield* ask(first, name, large))
      const sql = yield* SqlClient.SqlClient
      // Larger than the limit by itself.
      yield* sql`UPDATE approvals SET arguments_bytes = 300000 WHERE approval_id = ${asked[0] ?? ""}`
      const pages: Array<ReadonlyArray<ApprovalId>> = []
      for (let cursor: ApprovalId | null | undefined; cursor !== null;) {
        const page: Effect.Success<ReturnType<typeof reviewer.approvals.list>> =
          yield* reviewer.approvals.list({
            query: cursor === undefined ? {} : { cursor }
          })
        for (const { arguments: args, approval_id } of page.approvals) {
          assert.deepStrictEqual(args, approval_id === asked[3] ? {} : large)
        }
        pages.push(page.approvals.map(({ approval_id }) => approval_id))
        cursor = page.next_cursor
      }
      assert.deepStrictEqual(pages, [asked.slice(0, 1), asked.slice(1)])
    })
  )
})
