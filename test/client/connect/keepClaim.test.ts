import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { onTestFinished, vi } from "vitest"
import { TestClock } from "effect/testing"
import { backgroundClock, keepClaim, type Lease } from "../../../src/client/connect/keepClaim.ts"
import { ProblemError } from "../../../src/client/connect/Problem.ts"
import { makeRuntime } from "../../../src/client/PromiseRuntime.ts"
import { ServiceUnreachable } from "../../../src/client/ServiceUnreachable.ts"

const unreachable = new ServiceUnreachable(
  { operation: "sessions.renewClaim", method: "POST", url: new URL("http://127.0.0.1:1/") },
  "ECONNREFUSED"
)
const mismatch = new ProblemError(
  "CLAIM_MISMATCH",
  { title: "Claim mismatch", status: 409 },
  "sessions.renewClaim"
)

/** Lets promises settle that a passed time has started. */
const settle = Effect.promise(() => new Promise<void>((done) => setImmediate(done)))

const pass = (duration: `${number} seconds`) => Effect.andThen(TestClock.adjust(duration), settle)

/** Keeps a claim by the test's clock, which starts at 0. `answer`: that of each renewal. */
const kept = Effect.fnUntraced(function* (
  answer: (renewal: number) => Promise<unknown>,
  lease: Lease = { since: 0 }
) {
  const { clock } = yield* makeRuntime
  const renewals: Array<number> = []
  const lost: Array<unknown> = []
  const stop = keepClaim(lease, {
    clock,
    renew: (lease_seconds) => {
      renewals.push(lease_seconds)
      return answer(renewals.length)
    },
    onLost: (error) => lost.push(error)
  })
  yield* settle
  return { lost, renewals, stop }
})

describe("keepClaim", () => {
  it.effect("renews at each third of the lease, until it is stopped", () =>
    Effect.gen(function* () {
      const { lost, renewals, stop } = yield* kept(async () => undefined)
      yield* pass("99 seconds")
      assert.deepStrictEqual(renewals, [])
      yield* pass("1 seconds")
      assert.deepStrictEqual(renewals, [300])
      yield* pass("100 seconds")
      assert.deepStrictEqual(renewals, [300, 300])
      stop()
      yield* pass("1000 seconds")
      assert.deepStrictEqual(renewals, [300, 300])
      assert.deepStrictEqual(lost, [])
    })
  )

  it.effect("renews a claim at once whose request another process may have sent long ago", () =>
    Effect.gen(function* () {
      const { lost, renewals, stop } = yield* kept(async () => undefined, {
        lease_seconds: 30,
        since: undefined
      })
      assert.deepStrictEqual(renewals, [30])
      yield* pass("9 seconds")
      assert.deepStrictEqual(renewals, [30])
      yield* pass("1 seconds")
      assert.deepStrictEqual(renewals, [30, 30])
      stop()
      assert.deepStrictEqual(lost, [])
    })
  )

  it.effect("counts the time since the first request for the claim", () =>
    Effect.gen(function* () {
      yield* pass("250 seconds")
      const old = yield* kept(async () => undefined, { since: 0 })
      assert.deepStrictEqual(old.renewals, [300])
      const newer = yield* kept(async () => undefined, { since: 200_000 })
      assert.deepStrictEqual(newer.renewals, [])
      yield* pass("50 seconds")
      assert.deepStrictEqual(newer.renewals, [300])
      old.stop()
      newer.stop()
    })
  )

  it.effect("repeats the first renewal of a claim of unknown age until the service refuses it", () =>
    Effect.gen(function* () {
      const { lost, renewals } = yield* kept(
        (renewal) => Promise.reject(renewal <= 2 ? unreachable : mismatch),
        { since: undefined }
      )
      for (let second = 0; second < 3; second++) yield* pass("1 seconds")
      assert.lengthOf(renewals, 3)
      assert.deepStrictEqual(lost, [mismatch])
    })
  )

  it.effect("repeats a renewal that the service does not answer, and goes on when it does", () =>
    Effect.gen(function* () {
      const { lost, renewals, stop } = yield* kept((renewal) =>
        renewal <= 3 ? Promise.reject(unreachable) : Promise.resolve()
      )
      yield* pass("100 seconds")
      for (let second = 0; second < 10; second++) yield* pass("1 seconds")
      assert.lengthOf(renewals, 4)
      yield* pass("100 seconds")
      assert.lengthOf(renewals, 5)
      assert.deepStrictEqual(lost, [])
      stop()
    })
  )

  it.effect("reports once that the claim is lost, when the lease ends without an answer", () =>
    Effect.gen(function* () {
      const { lost, renewals } = yield* kept(() => Promise.reject(unreachable))
      for (let second = 0; second < 300; second += 13) yield* pass("13 seconds")
      assert.deepStrictEqual(lost, [unreachable])
      const sent = renewals.length
      assert.isAbove(sent, 5)
      yield* pass("1000 seconds")
      assert.lengthOf(renewals, sent)
    })
  )

  it.effect("reports at once that the claim is lost, if the service refuses to renew it", () =>
    Effect.gen(function* () {
      const { lost, renewals } = yield* kept(() => Promise.reject(mismatch))
      yield* pass("100 seconds")
      yield* pass("1000 seconds")
      assert.deepStrictEqual(lost, [mismatch])
      assert.lengthOf(renewals, 1)
    })
  )

  it.effect("does not renew a claim for longer than 24 hours", () =>
    Effect.gen(function* () {
      const { lost, renewals } = yield* kept(async () => undefined)
      for (let renewal = 0; renewal < 24 * 36 + 10; renewal++) yield* pass("100 seconds")
      assert.lengthOf(lost, 1)
      assert.lengthOf(renewals, 24 * 36)
    })
  )

  it.live("leaves time for a renewal after the machine's clock was set ahead", () =>
    Effect.gen(function* () {
      onTestFinished(() => void vi.restoreAllMocks())
      for (const clock of [backgroundClock, (yield* makeRuntime).clock]) {
        const end = Promise.withResolvers<unknown>()
        const stop = keepClaim(
          { lease_seconds: 0.3, since: clock.now() },
          {
            clock,
            renew: async (_seconds, timeout) => end.resolve(timeout),
            onLost: end.resolve
          }
        )
        vi.spyOn(Date, "now").mockReturnValue(Date.now() + 25 * 3_600_000)
        assert.isAbove(Number(yield* Effect.promise(() => end.promise)), 0)
        stop()
      }
    })
  )
})
