import { assert, describe, it } from "@effect/vitest"
import { OrgId, TelemetryDestinationId, TraceId } from "../../../src/domain/Ids.ts"
import { samplingAt } from "../../../src/domain/SpanSampling.ts"
import { makeBuffer } from "../../../src/server/Spans/Buffer.ts"
import { type Content, TOO_LONG } from "../../../src/server/Spans/Content.ts"
import type { Outbox, Recorded } from "../../../src/server/Spans/Outbox.ts"

const organization = (digit: number) =>
  OrgId.make(`org_${"0".repeat(12)}7${"0".repeat(3)}8${"0".repeat(14)}${digit}`)

let traces = 0
const recordedWith = (content?: Content): Recorded => ({
  trace_id: TraceId.make((++traces).toString(16).padStart(32, "0")),
  count: 1,
  whole: true,
  ...(content === undefined ? {} : { content }),
  make: () => []
})

/** A buffer whose only limit is its memory, and outboxes in it. */
const roomy = () => {
  const buffer = makeBuffer({
    sampling: samplingAt(1),
    queueLimit: 1_000_000,
    spansPerSecond: 1_000_000,
    flushMillis: 1_000
  })
  const outbox = (digit: number, content: boolean): Outbox => {
    const org_id = organization(digit)
    const destination_id = TelemetryDestinationId.make(`tel_${org_id.slice(4)}`)
    return buffer.open(org_id, { destination_id, content, waiting_spans: 0 }, 0)
  }
  return { buffer, outbox }
}

describe("traces that wait to be encoded", () => {
  it("hold nothing of their content where it does not go out", () => {
    const { buffer, outbox } = roomy()
    buffer.take(outbox(1, false), recordedWith({ input: "words" }), 0, 0)
    assert.isUndefined(buffer.first()?.recorded.content)
  })

  it("hold their content where it goes out, but for what is too long to", () => {
    const { buffer, outbox } = roomy()
    const short = { list: ["words", 1, null, { a: true }] }
    const long = { list: Array.from({ length: 2_000 }, () => "twenty characters...") }
    buffer.take(outbox(1, true), recordedWith({ input: short, answer: long }), 0, 0)
    assert.deepStrictEqual(buffer.first()?.recorded.content, { input: short, answer: TOO_LONG })
  })

  for (const content of [false, true]) {
    it(`of one organization take half of the room, so that others find some: ${content ? "with" : "without"} content`, () => {
      const { buffer, outbox } = roomy()
      const [one, other] = [outbox(1, content), outbox(2, content)]
      const fill = (into: Outbox) => {
        const before = buffer.unencoded()
        const text = "x".repeat(30_000)
        while (into.dropped === 0) buffer.take(into, recordedWith({ input: text, answer: text }), 0, 0)
        return buffer.unencoded() - before
      }
      const taken = fill(one)
      assert.strictEqual(taken, content ? 67 : 2_048)
      assert.strictEqual(fill(other), taken)
      // What is encoded leaves its room to others.
      while (buffer.unencoded() > 0) buffer.encode(1_000, {}, 0, () => true)
      other.dropped = 0
      assert.strictEqual(fill(other), taken)
    })
  }
})
