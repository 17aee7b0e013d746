import { assert, describe, layer } from "@effect/vitest"
import { Clock, DateTime, type Duration, Effect, Fiber } from "effect"
import { TestClock } from "effect/testing"
import { StepId } from "../../src/domain/Ids.ts"
import { approves, Countersign, fails, rejects } from "../../src/testing/index.ts"
import { service } from "../support/service.ts"
import { sortingTask } from "../support/tasks.ts"

const DAY = 86_400
const START = Date.UTC(2026, 10, 23, 12)

/** Requests an approval of a new session; returns its id. */
const request = Effect.fnUntraced(function* (organization: string, tool = "payments.refund") {
  const { client } = yield* Countersign
  const agent = yield* client({ preset: "runtime", name: `agent ${tool}` }, organization)
  const { session_id } = yield* agent.sessions.create()
  const { approval_id } = yield* agent.sessions.step({
    params: { id: session_id },
    payload: { step_id: StepId.make("1"), tool, action_class: "write" }
  })
  return approval_id ?? assert.fail("the step waits for a person")
})

/** An organization in which every step waits for a person, by default for a day. */
const organizationWith = Effect.fnUntraced(function* (organization: string, rule: object = {}) {
  const { client } = yield* Countersign
  const admin = yield* client({ name: "owner" }, organization)
  yield* admin.approvalRules.replace({
    payload: { rules: [{ effect: "require_approval", review_seconds: DAY, ...rule }] }
  })
  return admin
})

/** Begins at a date. The tests share a service, whose time must never go back. */
const startTime = Effect.flatMap(Clock.currentTimeMillis, (now) =>
  now >= START ? Effect.void : TestClock.setTime(START)
)

const hoursAfter = (start: DateTime.Utc, time: DateTime.Utc | null) =>
  time === null ? null : (DateTime.toEpochMillis(time) - DateTime.toEpochMillis(start)) / 3_600_000

layer(service(), { timeout: "60 seconds" })("Countersign.advance", (it) => {
  const test = <A, E>(name: string, effect: () => Effect.Effect<A, E, Countersign>) =>
    it.effect(name, () => Effect.andThen(startTime, effect()))

  describe("approvals", () => {
    test("are escalated after 30 days and expire 30 days later, each at its own time", () =>
      Effect.gen(function* () {
        const { advance, receiver } = yield* Countersign
        const admin = yield* organizationWith("escalation", {
          review_seconds: 30 * DAY,
          escalation_seconds: 30 * DAY
        })
        const hook = yield* receiver(undefined, "escalation")
        const id = yield* request("escalation")
        yield* advance("60 days")
        const approval = yield* admin.approvals.get({ params: { id } })
        assert.strictEqual(approval.status, "expired")
        assert.strictEqual(approval.outcome, "reject")
        assert.strictEqual(hoursAfter(approval.requested_at, approval.escalated_at), 30 * 24)
        assert.strictEqual(hoursAfter(approval.requested_at, approval.decided_at), 60 * 24)
        // Nothing is left out: both windows were about to end before they ended.
        assert.deepStrictEqual(
          hook.events.map(({ occurred_at, type }) => [
            type,
            hoursAfter(approval.requested_at, DateTime.makeUnsafe(occurred_at)) ?? 0
          ]),
          [
            ["approval.requested", 0],
            ["approval.expiring", 22.5 * 24],
            ["approval.escalated", 30 * 24],
            ["approval.expiring", 52.5 * 24],
            ["approval.expired", 60 * 24]
          ]
        )
      }))

    test("are needed again once a standing grant has expired", () =>
      Effect.gen(function* () {
        const { advance, client } = yield* Countersign
        const admin = yield* organizationWith("grants")
        const agent = yield* client({ preset: "runtime", name: "granted agent" }, "grants")
        const { session_id } = yield* agent.sessions.create()
        const submit = (step: string) =>
          agent.sessions.step({
            params: { id: session_id },
            payload: { step_id: StepId.make(step), tool: "payments.refund", action_class: "write" }
          })
        const { approval_id } = yield* submit("asked")
        const { grant } = yield* admin.approvals.decide({
          params: { id: approval_id ?? assert.fail("the step waits for a person") },
          payload: { decision: "approve", grant: { scope: "tool", lasts_seconds: 8 * 3_600 } }
        })
        const id = grant?.grant_id ?? assert.fail("a grant was made")
        yield* advance("7 hours")
        assert.strictEqual((yield* submit("in time")).decision, "allow")
        yield* advance("1 hour")
        assert.strictEqual((yield* submit("too late")).decision, "pending")
        assert.strictEqual((yield* submit("in time")).decision, "allow")
        const expired = yield* admin.grants.get({ params: { id } })
        assert.deepInclude(expired, { status: "expired", uses: 1, ended_at: null })
        const active = yield* admin.grants.list({ query: { state: "active" } })
        assert.deepStrictEqual(active.grants, [])
      }))

    test("stay as they are while nothing is due, and two moves are as good as one", () =>
      Effect.gen(function* () {
        const { advance } = yield* Countersign
        const admin = yield* organizationWith("two moves", { expiring_seconds: 0 })
        const id = yield* request("two moves")
        yield* advance("12 hours")
        assert.strictEqual((yield* admin.approvals.get({ params: { id } })).status, "pending")
        yield* advance("11 hours")
        yield* advance(0)
        assert.strictEqual((yield* admin.approvals.get({ params: { id } })).status, "pending")
        yield* Effect.all([advance("30 minutes"), advance("30 minutes")], { concurrency: "unbounded" })
        const { decided_at, requested_at, status } = yield* admin.approvals.get({ params: { id } })
        assert.deepStrictEqual([status, hoursAfter(requested_at, decided_at)], ["expired", 24])
      }))

    test("that agents wait for are answered while the time is moved, and those requested meanwhile are kept", () =>
      Effect.gen(function* () {
        const { advance, awaitPending, client } = yield* Countersign
        yield* organizationWith("under way", { timeout_action: "allow" })
        const agent = yield* client({ preset: "runtime" }, "under way")
        const { session_id } = yield* agent.sessions.create()
        const step = (name: string) => ({ step_id: StepId.make(name), tool: name, action_class: "write" })
        const waiting = yield* Effect.forkChild(agent.govern(session_id, step("first")))
        yield* awaitPending({ tool: "first" }, "under way")
        const requests = Effect.forEach(
          Array.from({ length: 20 }, (_, index) => step(`more ${index}`)),
          (payload) => agent.sessions.step({ params: { id: session_id }, payload }),
          { concurrency: 4 }
        )
        const [, answers] = yield* Effect.all([advance("1 day"), requests], { concurrency: "unbounded" })
        assert.strictEqual((yield* Fiber.join(waiting)).decision, "allow")
        // Each is pending, or has had its day as well.
        for (const { approval_id } of answers) assert.isNotNull(approval_id)
        yield* advance("1 day")
        const { approvals } = yield* agent.approvals.list({ query: { status: "pending" } })
        assert.deepStrictEqual(approvals, [])
      }))
  })

  describe("people", () => {
    test("decide what matches, after their delay, and before the deadline", () =>
      Effect.gen(function* () {
        const { advance, people } = yield* Countersign
        const admin = yield* organizationWith("people")
        const inOrganization = { organization: "people" }
        yield* people(
          approves(
            { tool: "payments.*" },
            { ...inOrganization, after: "2 hours", key: { name: "Ada" }, comment: "Fine" }
          ),
          rejects({ tool: "mail.*" }, inOrganization)
        )
        const payment = yield* request("people", "payments.refund")
        const mail = yield* request("people", "mail.send")
        const other = yield* request("people", "cache.clear")
        yield* advance("3 hours")
        const read = (id: typeof payment) =>
          Effect.map(admin.approvals.get({ params: { id } }), (approval) => [
            approval.status,
            approval.decided_by?.name ?? null,
            hoursAfter(approval.requested_at, approval.decided_at)
          ])
        assert.deepStrictEqual(yield* read(payment), ["approved", "Ada", 2])
        assert.deepStrictEqual(yield* read(mail), ["rejected", "reviewer 2", 0])
        assert.deepStrictEqual(yield* read(other), ["pending", null, null])
      }))

    test("who are admins decide after the escalation", () =>
      Effect.gen(function* () {
        const { advance, people } = yield* Countersign
        const admin = yield* organizationWith("admins", { escalation_seconds: DAY })
        yield* people(approves({}, { organization: "admins", admin: true, after: "1 hour" }))
        const id = yield* request("admins")
        yield* advance("2 days")
        const { decided_at, requested_at, stage, status } = yield* admin.approvals.get({ params: { id } })
        assert.deepStrictEqual(
          [status, stage, hoursAfter(requested_at, decided_at)],
          ["approved", "admin", 25]
        )
      }))

    test("who are reviewers are too late at the very end of their window", () =>
      Effect.gen(function* () {
        const { advance, people } = yield* Countersign
        const admin = yield* organizationWith("too late", { escalation_seconds: DAY })
        yield* people(approves({}, { organization: "too late", after: "1 day" }))
        const id = yield* request("too late")
        yield* advance("2 days")
        const { decided_by, stage, status } = yield* admin.approvals.get({ params: { id } })
        assert.deepStrictEqual([status, stage, decided_by], ["expired", "admin", null])
      }))

    test("complete a quorum together, each for their group and at their own time, and one who is not needed holds nobody up", () =>
      Effect.gen(function* () {
        const { advance, key, people } = yield* Countersign
        yield* key({ preset: "reviewer", name: "Finance lead", groups: ["finance"] }, "quorum")
        yield* key({ preset: "reviewer", name: "Legal lead", groups: ["legal"] }, "quorum")
        const admin = yield* organizationWith("quorum", {
          quorum: [{ group: "finance" }, { group: "legal" }]
        })
        const personOf = (name: string, group: string, after: Duration.Input) =>
          approves({ tool: "payments.*" }, { organization: "quorum", after, key: { name, groups: [group] } })
        yield* people(
          personOf("Ada", "finance", "1 hour"),
          personOf("Bea", "finance", "2 hours"),
          personOf("Cleo", "sales", "150 minutes"),
          personOf("Dan", "legal", "3 hours")
        )
        const id = yield* request("quorum")
        yield* advance("2 hours")
        const waiting = yield* admin.approvals.get({ params: { id } })
        assert.deepStrictEqual([waiting.status, waiting.approvals_given], ["pending", 1])
        yield* advance("2 hours")
        const { requested_at, status, votes } = yield* admin.approvals.get({ params: { id } })
        assert.strictEqual(status, "approved")
        assert.deepStrictEqual(
          votes.map(({ voted_at, voted_by }) => [voted_by.name, hoursAfter(requested_at, voted_at)]),
          [
            ["Ada", 1],
            ["Dan", 3]
          ]
        )
      }))

    test("reject what others have approved in a quorum, which ends it", () =>
      Effect.gen(function* () {
        const { advance, people } = yield* Countersign
        const admin = yield* organizationWith("veto", { quorum: [{ count: 3 }] })
        const inOrganization = { organization: "veto" }
        yield* people(
          approves({}, { ...inOrganization, after: "1 hour" }),
          approves({}, { ...inOrganization, after: "2 hours" }),
          rejects(
            { tool: "payments.*" },
            { ...inOrganization, after: "3 hours", key: { name: "Eve" }, comment: "No" }
          ),
          approves({}, { ...inOrganization, after: "4 hours" })
        )
        const id = yield* request("veto")
        yield* advance("1 day")
        const approval = yield* admin.approvals.get({ params: { id } })
        assert.deepStrictEqual(
          [approval.status, approval.approvals_given, approval.decided_by?.name, approval.comment],
          ["rejected", 2, "Eve", "No"]
        )
        assert.strictEqual(hoursAfter(approval.requested_at, approval.decided_at), 3)
      }))

    test("propose other arguments, with which an agent goes on within the hour", () =>
      Effect.gen(function* () {
        const { advance, client, people } = yield* Countersign
        yield* organizationWith("proposals")
        yield* people(rejects({}, { organization: "proposals", proposes: { amount: 20 } }))
        const agent = yield* client({ preset: "runtime" }, "proposals")
        const { session_id } = yield* agent.sessions.create()
        const pay = (step: string, amount: number) =>
          agent.govern(
            session_id,
            {
              step_id: StepId.make(step),
              tool: "payments.pay",
              action_class: "write",
              arguments: { amount }
            },
            { acceptProposal: () => true }
          )
        const paid = yield* pay("1", 500)
        assert.deepInclude(paid, {
          decision: "allow",
          step_id: StepId.make("1~2"),
          arguments: { amount: 20 }
        })
        // They propose nothing for a step that has the arguments already.
        const again = yield* pay("2", 20)
        assert.deepInclude(again, { decision: "reject", proposal: null })
        const late = yield* agent.govern(session_id, {
          step_id: StepId.make("3"),
          tool: "payments.pay",
          action_class: "write",
          arguments: { amount: 30 }
        })
        yield* advance("1 hour")
        assert.deepStrictEqual(late.proposal?.arguments, { amount: 20 })
        assert.strictEqual((yield* pay("4", 20)).decision, "reject")
      }))

    test("without a delay decide while the time stands still", () =>
      Effect.gen(function* () {
        const { client, people } = yield* Countersign
        yield* organizationWith("at once")
        yield* people(approves({}, { organization: "at once" }))
        const agent = yield* client({ preset: "runtime" }, "at once")
        const { session_id } = yield* agent.sessions.create()
        const { decision } = yield* agent.govern(session_id, {
          step_id: StepId.make("1"),
          tool: "mail.send",
          action_class: "write"
        })
        assert.strictEqual(decision, "allow")
      }))
  })

  describe("deliveries", () => {
    test("are retried over hours until the receiver succeeds, each attempt at its own time", () =>
      Effect.gen(function* () {
        const { advance, receiver } = yield* Countersign
        const admin = yield* organizationWith("retries")
        const hook = yield* receiver(fails(3, 503), "retries")
        yield* request("retries")
        yield* advance("12 hours")
        assert.deepStrictEqual(
          hook.requests.map(({ refusal, status }) => [status, refusal]),
          [
            [503, null],
            [503, null],
            [503, null],
            [204, null]
          ]
        )
        assert.deepStrictEqual(
          hook.events.map(({ type }) => type),
          ["approval.requested"]
        )
        const times = hook.requests.map(({ at }) => at.getTime())
        assert.deepStrictEqual(
          times,
          [...times].toSorted((a, b) => a - b)
        )
        const pauses = times.slice(1).map((time, index) => time - (times[index] ?? 0))
        for (const [index, pause] of pauses.entries()) assert.isAbove(pause, pauses[index - 1] ?? 1_000)
        const { endpoints } = yield* admin.notificationEndpoints.list()
        const [endpoint] = endpoints
        if (endpoint === undefined) return assert.fail("there is an endpoint")
        const { deliveries } = yield* admin.notificationEndpoints.listDeliveries({
          params: { id: endpoint.id }
        })
        assert.deepStrictEqual(
          deliveries.map(({ attempts, status }) => [attempts, status]),
          [[4, "delivered"]]
        )
      }))

    test("are given up by a receiver that never succeeds", () =>
      Effect.gen(function* () {
        const { advance, receiver } = yield* Countersign
        const admin = yield* organizationWith("given up", { review_seconds: 30 * DAY })
        const hook = yield* receiver(fails(Infinity), "given up")
        yield* request("given up")
        yield* advance("5 days")
        const { endpoints } = yield* admin.notificationEndpoints.list()
        const [endpoint] = endpoints
        if (endpoint === undefined) return assert.fail("there is an endpoint")
        const { deliveries } = yield* admin.notificationEndpoints.listDeliveries({
          params: { id: endpoint.id }
        })
        assert.deepStrictEqual(
          deliveries.map(({ attempts, status }) => [attempts, status]),
          [[hook.requests.length, "failed"]]
        )
        assert.deepStrictEqual(hook.events, [])
      }))
  })

  describe("retention", () => {
    test("removes runs after 90 days, and not before", () =>
      Effect.gen(function* () {
        const { advance, client } = yield* Countersign
        const admin = yield* client({}, "retention")
        const { id: task_id } = yield* admin.tasks.create({ payload: sortingTask })
        const { revision } = yield* admin.retentionSettings.get()
        yield* admin.retentionSettings.replace({ payload: { run_days: 90, revision } })
        const { trace_id } = yield* admin.tasks.run({
          params: { id: task_id },
          payload: { input: { text: "a" }, answer: { category: "other" } }
        })
        yield* advance("89 days")
        assert.strictEqual((yield* admin.runs.get({ params: { id: trace_id } })).trace_id, trace_id)
        yield* advance("2 days")
        assert.propertyVal(
          yield* Effect.flip(admin.runs.get({ params: { id: trace_id } })),
          "_tag",
          "NOT_FOUND"
        )
      }))

    test("removes sessions with their approvals, deliveries and expired keys in one move, and keeps what is younger", () =>
      Effect.gen(function* () {
        const { advance, client, receiver } = yield* Countersign
        const admin = yield* organizationWith("all retention")
        const { revision } = yield* admin.retentionSettings.get()
        yield* admin.retentionSettings.replace({ payload: { session_days: 20, revision } })
        yield* receiver(undefined, "all retention")
        const { endpoints } = yield* admin.notificationEndpoints.list()
        const endpoint = endpoints[0]?.id ?? assert.fail("there is an endpoint")
        const countOf = Effect.map(
          admin.notificationEndpoints.listDeliveries({ params: { id: endpoint } }),
          ({ deliveries }) => deliveries.length
        )
        const namesOf = Effect.map(admin.apiKeys.list({ query: {} }), ({ keys }) =>
          keys.map(({ name }) => name)
        )
        const maker = yield* client({ name: "maker" }, "all retention")
        yield* maker.apiKeys.create({
          payload: {
            name: "short-lived",
            preset: "runtime",
            expires_at: DateTime.addDuration(yield* DateTime.now, "1 day")
          }
        })
        const id = yield* request("all retention")
        // Expired after a day, so that its session's last event is 19 days old.
        yield* advance("20 days")
        assert.strictEqual((yield* admin.approvals.get({ params: { id } })).status, "expired")
        assert.isAbove(yield* countOf, 0)
        assert.include(yield* namesOf, "short-lived")
        const young = yield* request("all retention", "mail.send")
        yield* advance("12 days")
        assert.propertyVal(yield* Effect.flip(admin.approvals.get({ params: { id } })), "_tag", "NOT_FOUND")
        assert.strictEqual((yield* admin.approvals.get({ params: { id: young } })).status, "expired")
        // Deliveries are kept for 30 days, expired keys for 90.
        const delivered = yield* countOf
        yield* advance("60 days")
        assert.isAbove(delivered, 0)
        assert.strictEqual(yield* countOf, 0)
        assert.notInclude(yield* namesOf, "short-lived")
      }))
  })
})
