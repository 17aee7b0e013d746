import { assert, describe, it } from "@effect/vitest"
import { Effect, Fiber, Layer } from "effect"
import { TestClock } from "effect/testing"
import { Authorized } from "../../../src/api/Authorization.ts"
import type { GovernedStep } from "../../../src/domain/approvals/AgentSession.ts"
import { ApprovalId, KeyId, OrgId, SessionId, StepId } from "../../../src/domain/Ids.ts"
import { DecisionWaits, makeDecisionWaits } from "../../../src/server/approvals/DecisionWaits.ts"
import { SessionSignals } from "../../../src/server/approvals/SessionSignals.ts"
import { Revocations } from "../../../src/server/identity/Revocations.ts"

const id = (prefix: string, n: number) => `${prefix}_${String(n).padStart(32, "0")}`
const key = (n: number, org = n) => ({ org_id: OrgId.make(id("org", org)), key_id: KeyId.make(id("key", n)) })
const session = (n: number) => SessionId.make(id("ses", n))

describe("DecisionWaits", () => {
  it.effect("wake by a signal of their session, by a lost signal, and by time", () =>
    Effect.gen(function* () {
      const waits = makeDecisionWaits({ total: 10, perOrganization: 10 }, () => {})
      const start = (n: number) =>
        Effect.forkChild(waits.next(key(n), session(n), 1_000), { startImmediately: true })
      const [first, second, third] = [yield* start(1), yield* start(2), yield* start(3)]
      assert.strictEqual(waits.size(), 3)
      waits.signal([{ session_id: session(1), newest: 7 }])
      assert.strictEqual(yield* Fiber.join(first), "changed")
      assert.strictEqual(waits.size(), 2)
      yield* TestClock.adjust("1 second")
      assert.strictEqual(yield* Fiber.join(second), "unsignalled")
      assert.strictEqual(yield* Fiber.join(third), "unsignalled")
      const last = yield* start(4)
      waits.signal(undefined)
      assert.strictEqual(yield* Fiber.join(last), "changed")
      assert.strictEqual(waits.size(), 0)
    })
  )

  it.effect("are limited for an organization and for the replica", () =>
    Effect.gen(function* () {
      const waits = makeDecisionWaits({ total: 3, perOrganization: 2 }, () => {})
      const start = (n: number, org: number) =>
        Effect.forkChild(waits.next(key(n, org), session(n), 1_000), { startImmediately: true })
      const first = yield* start(1, 1)
      yield* start(2, 1)
      assert.strictEqual(yield* Fiber.join(yield* start(3, 1)), "full")
      yield* start(4, 2)
      assert.strictEqual(yield* Fiber.join(yield* start(5, 2)), "full")
      // An interrupted wait leaves its place.
      yield* Fiber.interrupt(first)
      assert.strictEqual(waits.size(), 2)
      const next = yield* start(6, 2)
      assert.strictEqual(waits.size(), 3)
      yield* Fiber.interrupt(next)
    })
  )

  it.effect("end with their key, and when the service stops", () =>
    Effect.gen(function* () {
      const waits = makeDecisionWaits({ total: 10, perOrganization: 10 }, () => {})
      const start = (n: number) =>
        Effect.forkChild(waits.next(key(n), session(n), 1_000), { startImmediately: true })
      const [first, second] = [yield* start(1), yield* start(2)]
      assert.deepStrictEqual(waits.keysInUse(), [key(1), key(2)])
      waits.endKeys(new Set([key(1).key_id]))
      assert.strictEqual(yield* Fiber.join(first), "ended")
      waits.endAll()
      assert.strictEqual(yield* Fiber.join(second), "ended")
      assert.strictEqual(yield* Fiber.join(yield* start(3)), "ended")
    })
  )

  it.effect("ask again after 5 seconds and then every 30, and not at the end of their time", () =>
    Effect.gen(function* () {
      const { untilDecided } = yield* DecisionWaits
      const pending: GovernedStep = {
        step_id: StepId.make("1"),
        decision: "pending",
        decision_source: null,
        decided_by: null,
        comment: null,
        changes_requested: false,
        proposal: null,
        approval_id: ApprovalId.make(id("apr", 1)),
        grant_id: null,
        rule_id: null,
        reason: "",
        arguments_digest: "",
        expires_at: null
      }
      let asked = 0
      const ask = Effect.sync(() => {
        asked++
        return pending
      })
      const waiting = yield* Effect.forkChild(untilDecided(pending, session(1), { seconds: 60 }, ask), {
        startImmediately: true
      })
      const counts: Array<number> = []
      for (const seconds of [4, 2, 28, 2, 23, 2]) {
        yield* TestClock.adjust(`${seconds} seconds`)
        counts.push(asked)
      }
      assert.deepStrictEqual(counts, [0, 1, 1, 2, 2, 2])
      assert.strictEqual(yield* Fiber.join(waiting), pending)
    }).pipe(
      Effect.provide(
        DecisionWaits.layer().pipe(
          Layer.provide([
            Layer.succeed(SessionSignals, {
              publish: () => Effect.void,
              subscribe: () => Effect.void,
              announce: () => {}
            }),
            Layer.succeed(Revocations, {
              awaitEnd: () => Effect.never,
              publish: () => Effect.void,
              subscribe: () => Effect.void,
              poll: Effect.succeed(0)
            })
          ])
        )
      ),
      Effect.provideService(Authorized("sessions.write"), {
        org_id: key(1).org_id,
        actor: { id: key(1).key_id, name: "agent" },
        scopes: new Set(["sessions.write" as const]),
        groups: [],
        keyMakers: [],
        makers: []
      })
    )
  )
})
