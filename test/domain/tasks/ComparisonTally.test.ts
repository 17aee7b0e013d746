import { assert, describe, it } from "@effect/vitest"
import { Schema } from "effect"
import type { Outcome } from "../../../src/domain/tasks/Comparison.ts"
import {
  ComparisonTally,
  emptyTally,
  newTally,
  summarizeTally,
  addToTally
} from "../../../src/domain/tasks/ComparisonTally.ts"
import type { ExampleOrigin } from "../../../src/domain/tasks/Dataset.ts"

const outcome = (more: Partial<Outcome> = {}): Outcome => ({
  answer: { category: "other" },
  agrees: true,
  disagreeing: [],
  score: 1,
  verdict: null,
  failure: null,
  examples: [],
  input_tokens: 10,
  output_tokens: 2,
  cost: null,
  duration_ms: 100,
  ...more
})

const failed = outcome({ answer: null, agrees: false, failure: "The model server answered 500" })

describe("ComparisonTally", () => {
  it("the summary of an empty tally has null shares and latencies", () => {
    const { candidate, difference, fields } = summarizeTally(emptyTally)
    assert.deepInclude(candidate, { agreed: 0, agreement: null, latency_ms: null, cost: null })
    assert.deepStrictEqual(difference, { value: 0, low: -1, high: 1 })
    assert.deepStrictEqual(fields, [])
  })

  it("the summary has the agreement by origin, and warns once most examples are corrections", () => {
    const add = (tally: ComparisonTally, origin: ExampleOrigin, candidate: boolean, live: boolean) =>
      addToTally(tally, {
        origin,
        candidate: outcome({ agrees: candidate }),
        live: outcome({ agrees: live }),
        fields: []
      })
    let tally = add(add(emptyTally, "made", true, false), "correction", false, false)
    assert.isNull(summarizeTally(tally).warning)
    tally = add(tally, "correction", true, false)
    const { origins, warning } = summarizeTally(tally)
    assert.deepStrictEqual(origins, [
      { origin: "correction", compared: 2, candidate: 1, live: 0 },
      { origin: "made", compared: 1, candidate: 1, live: 0 }
    ])
    assert.match(warning ?? "", /^2 of 3 compared examples are corrections/)
    assert.isNull(summarizeTally(add(tally, "confirmed", true, true)).warning)
  })

  it("the summary adds up both sides and leaves failures out of latency", () => {
    const fields = ["category"]
    let tally = emptyTally
    tally = addToTally(tally, { origin: "made", candidate: outcome({ cost: 0.5 }), live: outcome(), fields })
    tally = addToTally(tally, {
      origin: "made",
      candidate: outcome({ cost: 0.25, duration_ms: 300 }),
      live: outcome({ agrees: false, disagreeing: ["category"] }),
      fields
    })
    tally = addToTally(tally, { origin: "made", candidate: failed, live: outcome(), fields })
    const summary = summarizeTally(tally)
    assert.deepInclude(summary.candidate, { agreed: 2, failed: 1, input_tokens: 30, cost: 0.75 })
    assert.deepInclude(summary.live, { agreed: 2, failed: 0, cost: null })
    assert.strictEqual(summary.candidate.latency_ms?.mean, 200)
    assert.strictEqual(summary.difference.value, 0)
    assert.deepStrictEqual(summary.verdicts, { win: 1, regression: 1, both_agree: 1, neither_agrees: 0 })
    assert.deepStrictEqual(summary.fields, [{ field: "category", compared: 3, candidate: 2, live: 2 }])
  })

  it("percentiles are within 5 % of the exact value", () => {
    let tally = emptyTally
    for (let millis = 1; millis <= 1_000; millis++) {
      tally = addToTally(tally, {
        origin: "made",
        candidate: outcome({ duration_ms: millis }),
        live: outcome(),
        fields: []
      })
    }
    const times = summarizeTally(tally).candidate.latency_ms
    assert.closeTo(times?.p50 ?? 0, 500, 25)
    assert.closeTo(times?.p95 ?? 0, 950, 47.5)
  })

  it("a tally stays small for any answers and survives a JSON round trip", () => {
    let tally = emptyTally
    for (let n = 0; n < 300; n++) {
      tally = addToTally(tally, {
        origin: "made",
        candidate: outcome(),
        live: outcome(),
        fields: [`field ${n}`]
      })
    }
    assert.lengthOf(tally.fields, 100)
    const kept: unknown = JSON.parse(JSON.stringify(tally))
    assert.deepStrictEqual(Schema.decodeUnknownSync(ComparisonTally)(kept), tally)
  })
})

describe("ComparisonTally › scores and verdicts", () => {
  const judged = (agrees: boolean, failure: string | null = null) =>
    outcome({ agrees, score: 0.5, verdict: { agrees, reason: "", failure } })

  it("scores are averaged over all examples, failures included, and verdicts of both sides are counted", () => {
    let tally = newTally({ hasJudge: true })
    tally = addToTally(tally, { origin: "made", candidate: judged(true), live: outcome(), fields: [] })
    tally = addToTally(tally, {
      origin: "made",
      candidate: outcome({ answer: null, agrees: false, score: 0, failure: "Away." }),
      live: judged(false, "Away."),
      fields: []
    })
    const { candidate, judge, live } = summarizeTally(tally)
    assert.deepStrictEqual([candidate.score, live.score], [0.25, 0.75])
    assert.deepStrictEqual(judge, { judged: 2, agreed: 1, failed: 1 })
    assert.isNull(summarizeTally(emptyTally).judge)
    assert.isNull(summarizeTally(emptyTally).candidate.score)
  })

  it("a tally that began without scores has none, also if it continues with them", () => {
    const { score: _, ...side } = emptyTally.live
    const old = { ...emptyTally, candidate: side, live: side }
    const tally = addToTally(old, { origin: "made", candidate: outcome(), live: outcome(), fields: [] })
    assert.isNull(summarizeTally(tally).candidate.score)
  })
})
