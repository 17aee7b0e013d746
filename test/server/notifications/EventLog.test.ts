import { assert, layer } from "@effect/vitest"
import { Effect, Fiber, Redacted, Schema } from "effect"
import { SqlClient } from "effect/sql"
import type { EventCursor } from "../../../src/api/Events.ts"
import type { ClientCalls } from "../../../src/client/Client.ts"
import { connect } from "../../../src/client/connect.ts"
import { ApprovalEvent } from "../../../src/domain/approvals/ApprovalEvent.ts"
import { Countersign } from "../../../src/testing/index.ts"
import { catchUp, memorySeen, type NotificationEvent } from "../../../src/webhook/index.ts"
import { oneAttempt, requestApproval, seedEndpoint } from "../../support/notifications.ts"
import { send, service } from "../../support/service.ts"
import { layerTwoReplicas, SecondReplica } from "../../support/twoReplicas.ts"

/** Every event that a client lists, page by page, until none is left. */
const listAll = Effect.fnUntraced(function* (client: ClientCalls, query: { readonly limit?: number } = {}) {
  const events: Array<ApprovalEvent> = []
  let page = yield* client.events.list({ query })
  events.push(...page.events)
  while (page.has_more) {
    page = yield* client.events.list({ query: { ...query, cursor: page.next_cursor } })
    events.push(...page.events)
  }
  return { events, next_cursor: page.next_cursor }
})

const encodeEvent = Schema.encodeSync(ApprovalEvent)

layer(service({ environment: oneAttempt }), { excludeTestServices: true })("EventLog", (it) => {
  it.effect("the list has the events that webhooks carry, with the same ids and bodies, oldest first", () =>
    Effect.gen(function* () {
      const { admin, endpoint, params, receiver } = yield* seedEndpoint("same")
      const id = yield* requestApproval(yield* (yield* Countersign).client({}, "same"))
      yield* admin.approvals.decide({ params: { id }, payload: { decision: "approve" } })
      yield* admin.notificationEndpoints.test({ params })
      yield* Effect.promise(() => receiver.arrived(3))
      const sent = receiver.seen
        .map(({ body }): { readonly type: string } => JSON.parse(body))
        .filter(({ type }) => type !== "test")
      const { events } = yield* listAll(admin)
      assert.deepStrictEqual(
        events.map(({ type }) => type),
        ["approval.requested", "approval.approved"]
      )
      assert.sameDeepMembers(
        events.map((event) => encodeEvent(event)),
        sent
      )
      assert.isTrue(endpoint.active)
    })
  )

  it.effect("events are listed without a webhook endpoint, and only to their organization", () =>
    Effect.gen(function* () {
      const countersign = yield* Countersign
      const mine = yield* countersign.client({}, "pulls")
      const id = yield* requestApproval(mine)
      const other = yield* countersign.client({}, "pulls too")
      assert.deepStrictEqual((yield* listAll(other)).events, [])
      const { events, next_cursor } = yield* listAll(mine)
      assert.deepStrictEqual(
        events.map(({ approval, type }) => [type, approval.approval_id]),
        [["approval.requested", id]]
      )
      const { events: none } = yield* other.events.list({ query: { cursor: next_cursor } })
      assert.deepStrictEqual(none, [])
    })
  )

  it.effect("pages continue where the last one ended, and a type selects its events", () =>
    Effect.gen(function* () {
      const countersign = yield* Countersign
      const agent = yield* countersign.client({}, "pages")
      const client = yield* countersign.client({}, "pages")
      const ids = yield* Effect.forEach([1, 2, 3, 4, 5], () => requestApproval(agent))
      for (const id of ids.slice(0, 2))
        yield* client.approvals.decide({ params: { id }, payload: { decision: "reject" } })
      const { events } = yield* listAll(client, { limit: 2 })
      assert.deepStrictEqual(
        events.map(({ approval }) => approval.approval_id),
        [...ids, ...ids.slice(0, 2)]
      )
      const rejected = yield* client.events.list({ query: { type: "approval.rejected", limit: 1 } })
      assert.deepStrictEqual(
        rejected.events.map(({ approval }) => approval.approval_id),
        ids.slice(0, 1)
      )
      assert.isTrue(rejected.has_more)
      const next = yield* client.events.list({
        query: { type: "approval.rejected", cursor: rejected.next_cursor }
      })
      assert.deepStrictEqual(
        next.events.map(({ approval }) => approval.approval_id),
        ids.slice(1, 2)
      )
      assert.isFalse(next.has_more)
    })
  )

  it.effect("an empty page continues with the events that come later", () =>
    Effect.gen(function* () {
      const client = yield* (yield* Countersign).client({}, "later")
      const { next_cursor } = yield* client.events.list({ query: {} })
      const id = yield* requestApproval(client)
      const { events } = yield* client.events.list({ query: { cursor: next_cursor } })
      assert.deepStrictEqual(
        events.map(({ approval }) => approval.approval_id),
        [id]
      )
    })
  )

  it.effect("a cursor from before the retention of events gets 410, and one that is none 400", () =>
    Effect.gen(function* () {
      const key = yield* (yield* Countersign).key({}, "expired")
      const cursor = (text: string) => Buffer.from(text).toString("base64url")
      const expired = yield* send(`/v1/events?cursor=${cursor("1.1700000000000")}`, { key })
      assert.deepStrictEqual([expired.status, expired.body["code"]], [410, "CURSOR_EXPIRED"])
      for (const text of ["1", "-1.5", "1.2.3", "x.1", `${"9".repeat(16)}.${"9".repeat(15)}`]) {
        const { body, status } = yield* send(`/v1/events?cursor=${cursor(text)}`, { key })
        assert.deepStrictEqual([text, status, body["code"]], [text, 400, "INVALID_REQUEST"])
      }
    })
  )

  it.effect("a receiver that lost a third of its webhooks handles every event once after it caught up", () =>
    Effect.gen(function* () {
      const lost = Array.from({ length: 40 }, () =>
        Math.random() < 1 / 3 ? { status: 500 } : { status: 204 }
      )
      const { admin, receiver } = yield* seedEndpoint("a third", lost)
      const seen = memorySeen()
      const handled: Array<string> = []
      const onEvent = ({ id }: NotificationEvent) => handled.push(id)
      const ids = yield* Effect.forEach(lost, () => requestApproval(admin))
      yield* Effect.promise(() => receiver.arrived(lost.length))
      for (const [index, { body }] of receiver.seen.entries()) {
        if (lost[index]?.status !== 204) continue
        const event: NotificationEvent = JSON.parse(body)
        onEvent(event)
        seen.add(event.id)
      }
      const { key, url } = yield* Countersign
      const client = connect({ url, key: Redacted.value(yield* key({}, "a third")) })
      let stored: string | undefined
      const catchUpNow = Effect.promise(() =>
        catchUp({
          list: (cursor) => client.events.list({ query: { cursor, limit: 7 } }),
          cursor: stored,
          onCursor: (cursor) => {
            stored = cursor
          },
          seen,
          onEvent,
          onSkipped: (refusal) => assert.fail(refusal.message)
        })
      )
      assert.deepStrictEqual(yield* catchUpNow, { complete: true, events: ids.length })
      assert.strictEqual(handled.length, ids.length)
      assert.strictEqual(new Set(handled).size, ids.length)
      assert.deepStrictEqual(yield* catchUpNow, { complete: true, events: 0 })
    })
  )
})

layer(layerTwoReplicas, { excludeTestServices: true })("EventLog on two replicas", (it) => {
  it.effect("a reader that polls while both replicas write gets every event once, and no event late", () =>
    Effect.gen(function* () {
      const reader = yield* (yield* Countersign).client({}, "races")
      const other = yield* Effect.provideContext(
        Effect.flatMap(Countersign, ({ client }) => client({}, "races")),
        yield* SecondReplica
      )
      const writing = yield* Effect.forEach(
        Array.from({ length: 60 }, (_, index) => (index % 2 === 0 ? [reader, other] : [other, reader])),
        ([agent = reader, reviewer = other]) =>
          Effect.flatMap(requestApproval(agent), (id) =>
            reviewer.approvals.decide({ params: { id }, payload: { decision: "approve" } })
          ),
        { concurrency: 16, discard: true }
      ).pipe(Effect.forkChild)
      const read: Array<string> = []
      let query: { readonly cursor?: EventCursor } = {}
      const poll = Effect.gen(function* () {
        const page = yield* reader.events.list({ query })
        query = { cursor: page.next_cursor }
        read.push(...page.events.map(({ id }) => id))
        return page.has_more
      })
      while (writing.pollUnsafe() === undefined) yield* poll
      yield* Fiber.join(writing)
      while (yield* poll) {}
      const sql = yield* SqlClient.SqlClient
      const stored = yield* sql<{ readonly id: string }>`SELECT event_id AS id FROM approval_events`
      assert.strictEqual(stored.length, 120)
      assert.strictEqual(new Set(read).size, read.length)
      assert.sameMembers(
        read,
        stored.map(({ id }) => id)
      )
    })
  )
})

layer(service())("EventLog", (it) => {
  it.effect("the list continues also if the service's time is that of a new TestClock", () =>
    Effect.gen(function* () {
      const client = yield* (yield* Countersign).client({})
      const { next_cursor } = yield* client.events.list({ query: {} })
      const id = yield* requestApproval(client)
      const { events } = yield* client.events.list({ query: { cursor: next_cursor } })
      assert.deepStrictEqual(
        events.map(({ approval }) => approval.approval_id),
        [id]
      )
    })
  )
})
