import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { mkdtempSync, readdirSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import path from "node:path"
import { onTestFinished, vi } from "vitest"
import { makeGovernedCalls } from "../../../src/cli/mcpGate/GovernedCalls.ts"
import { connect } from "../../../src/client/connect/index.ts"

/** A session that the gate was given. */
const session = "ses_0198a1b2c3d47e8f9a0b1c2d3e4f5a6b"

const content = { tool: "refund", action_class: "write", digest: "digest", definition: "definition" }

/** How a call ended that the server has executed. */
const end = { response: { result: "done" }, failure: null, isUnknown: false }

/** The calls of a gate, whose service records outcomes only while `isReachable`. */
const callsIn = Effect.fnUntraced(function* (
  directory: string,
  service: { isReachable: boolean; refused: number }
) {
  const reports: Array<unknown> = []
  vi.spyOn(globalThis, "fetch").mockImplementation(async (url) => {
    if (!service.isReachable) {
      service.refused++
      throw new TypeError("fetch failed", { cause: new Error("ECONNREFUSED") })
    }
    reports.push(url)
    return Response.json({ step_id: "step", status: "succeeded", error: null, occurred_at: new Date() })
  })
  const client = connect({ url: "http://127.0.0.1:1", key: `csk_${"0".repeat(66)}`, retries: 0 })
  const calls = yield* makeGovernedCalls(
    { client, directory, log: () => undefined, server: "shop", session },
    () => "client"
  )
  return { calls, reports, run: yield* calls.run }
})

/** Lets time pass, and files be written, until something is so. */
const passUntil = async (isSo: () => boolean): Promise<void> => {
  const until = performance.now() + 4_000
  while (!isSo()) {
    assert.isBelow(performance.now(), until)
    await vi.advanceTimersByTimeAsync(1_000)
    await new Promise(setImmediate)
  }
}

describe("the governed calls of a gate", () => {
  const setup = () => {
    vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] })
    const directory = mkdtempSync(path.join(tmpdir(), "countersign-governed-calls-"))
    onTestFinished(() => {
      vi.useRealTimers()
      vi.restoreAllMocks()
      rmSync(directory, { recursive: true, force: true })
    })
    return { directory, journalFiles: () => readdirSync(path.join(directory, "sessions", session, "calls")) }
  }

  it.live("report an outcome until the service has it, and keep it until then", () =>
    Effect.gen(function* () {
      const { directory, journalFiles } = setup()
      const service = { isReachable: false, refused: 0 }
      const { calls, reports, run } = yield* callsIn(directory, service)
      yield* Effect.promise(async () => {
        const { record } = await Effect.runPromise(calls.takeUp(run, content, undefined))
        await run.journal.ended(record.step_id, end)
        await Effect.runPromise(calls.conclude(run, record, end))
        await passUntil(() => service.refused > 20)
        assert.isNotEmpty(journalFiles())
        service.isReachable = true
        await passUntil(() => journalFiles().length === 0)
        assert.lengthOf(reports, 1)
      })
    }).pipe(Effect.scoped)
  )

  it.live("leave an outcome to the next gate that the service never got, and not its result", () =>
    Effect.gen(function* () {
      const { directory } = setup()
      const service = { isReachable: false, refused: 0 }
      const first = yield* callsIn(directory, service)
      yield* Effect.promise(async () => {
        const { record } = await Effect.runPromise(first.calls.takeUp(first.run, content, undefined))
        await first.run.journal.ended(record.step_id, end)
        await Effect.runPromise(first.calls.conclude(first.run, record, end))
        await passUntil(() => service.refused > 10)
        await Effect.runPromise(first.calls.end(false))
        // As if its process had ended.
        rmSync(path.join(directory, "sessions", session, "owner.json"))
      })
      service.isReachable = true
      const next = yield* callsIn(directory, service)
      yield* Effect.promise(async () => {
        await Effect.runPromise(next.calls.reported)
        assert.lengthOf(next.reports, 1)
        const again = await Effect.runPromise(next.calls.takeUp(next.run, content, undefined))
        assert.strictEqual(again.state, "new")
      })
    }).pipe(Effect.scoped)
  )
})
