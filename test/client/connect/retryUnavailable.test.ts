import { assert, describe, it } from "@effect/vitest"
import { ProblemError } from "../../../src/client/connect/Problem.ts"
import { retryUnavailable } from "../../../src/client/connect/retryUnavailable.ts"

/** A clock whose pauses are over at once, and the lengths of these pauses. */
const makeClock = () => {
  const pauses: Array<number> = []
  return {
    pauses,
    clock: { now: () => 0, random: () => 0.5, sleep: async (ms: number) => void pauses.push(ms) }
  }
}

const failing = (status: number, members: object = {}) => {
  const error = new ProblemError("CODE", { title: "Title", status, ...members }, "sessions.step")
  return { error, send: () => Promise.reject(error) }
}

describe("retryUnavailable", () => {
  it("doubles its pauses up to 30 seconds", async () => {
    const { clock, pauses } = makeClock()
    const { error, send } = failing(503)
    const thrown = await retryUnavailable(send, { retries: 8, clock }).catch((e: unknown) => e)
    assert.strictEqual(thrown, error)
    assert.deepStrictEqual(pauses, [500, 1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000])
  })

  it("pauses as long as the service requests, also for longer than 30 seconds", async () => {
    const { clock, pauses } = makeClock()
    const { send } = failing(429, { retry_after_seconds: 60 })
    await retryUnavailable(send, { retries: 1, clock }).catch(() => undefined)
    assert.deepStrictEqual(pauses, [60_000])
  })

  it("does not repeat a request that the service refuses, or that fails by a fault of the service", async () => {
    for (const status of [400, 500]) {
      const { clock, pauses } = makeClock()
      await retryUnavailable(failing(status).send, { retries: 3, clock }).catch(() => undefined)
      assert.deepStrictEqual(pauses, [])
    }
  })
})
