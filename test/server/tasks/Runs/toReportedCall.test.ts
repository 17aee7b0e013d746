import { assert, it } from "@effect/vitest"
import { DateTime } from "effect"
import type { ModelCall } from "../../../../src/domain/tasks/Run.ts"
import { toReportedCall } from "../../../../src/server/tasks/Runs/toReportedCall.ts"

const created_at = DateTime.makeUnsafe("2026-11-20T10:00:00Z")
const day = 86_400_000

/** The start and end of a reported call, in milliseconds after its answer was logged. */
const timesOf = (reported: Pick<ModelCall, "duration_ms"> & { readonly startedAfter?: number }) => {
  const { startedAfter, ...more } = reported
  const started_at =
    startedAfter === undefined ? undefined : DateTime.add(created_at, { milliseconds: startedAfter })
  const call = toReportedCall({
    created_at,
    answered_by: { model: "a-model", ...more, ...(started_at === undefined ? {} : { started_at }) }
  })
  const logged = created_at.epochMilliseconds
  return call === undefined ? undefined : [call.start - logged, call.end - logged]
}

it("a reported call has the reported times, and ended before its answer was logged", () => {
  assert.deepStrictEqual(timesOf({ startedAfter: -2_000, duration_ms: 812.5 }), [-2_000, -1_187])
  assert.deepStrictEqual(timesOf({ startedAfter: -2_000 }), [-2_000, -2_000])
  assert.deepStrictEqual(timesOf({ duration_ms: 300 }), [-300, 0])
  assert.deepStrictEqual(timesOf({}), [0, 0])
  assert.deepStrictEqual(timesOf({ startedAfter: -100, duration_ms: 300 }), [-100, 0])
})

it("a start that cannot be right is ignored, so that no span lasts for years", () => {
  assert.deepStrictEqual(timesOf({ startedAfter: 1, duration_ms: 300 }), [-300, 0])
  assert.deepStrictEqual(timesOf({ startedAfter: -day - 1, duration_ms: 300 }), [-300, 0])
  assert.deepStrictEqual(timesOf({ startedAfter: -day, duration_ms: day }), [-day, 0])
})

it("a call that names neither provider nor model is none", () => {
  const usage = { input_tokens: 1, output_tokens: 1 }
  assert.isUndefined(toReportedCall({ created_at, answered_by: { usage, duration_ms: 1 } }))
  assert.isUndefined(toReportedCall({ created_at, answered_by: null }))
  assert.deepInclude(toReportedCall({ created_at, answered_by: { provider: "anthropic" } }), {
    provider: "anthropic",
    model: null,
    response: null
  })
})
