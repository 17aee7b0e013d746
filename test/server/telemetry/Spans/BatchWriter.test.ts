import { assert, describe, it } from "@effect/vitest"
import fc from "fast-check"
import { gunzipSync } from "node:zlib"
import { BatchWriter } from "../../../../src/server/telemetry/Spans/BatchWriter.ts"

const MEBIBYTE = 1024 * 1024

const text = (request: Uint8Array): string => gunzipSync(request).toString("utf8")

describe("BatchWriter", () => {
  it("a request is one gzip member with the spans in order inside the envelope, however long they are", () => {
    const span = fc.oneof(
      fc.string({ unit: "grapheme-ascii", minLength: 1 }),
      fc
        .tuple(fc.string({ minLength: 1 }), fc.integer({ min: 1_000, max: 60_000 }))
        .map(([one, times]) => one.repeat(times).slice(0, 200_000))
    )
    fc.assert(
      fc.property(fc.array(span, { maxLength: 12 }), (spans) => {
        const writer = new BatchWriter(["[", "]"], 16 * MEBIBYTE)
        for (const one of spans) assert.isTrue(writer.append(one))
        assert.strictEqual(writer.spans, spans.length)
        const plain = text(writer.finish())
        assert.strictEqual(plain, `[${spans.join(",")}]`)
      }),
      { numRuns: 60 }
    )
  })

  it("spans beyond the limit are refused", () => {
    fc.assert(
      fc.property(
        fc.array(fc.string({ unit: "grapheme-ascii", maxLength: 80 }), { maxLength: 40 }),
        fc.integer({ min: 10, max: 2_000 }),
        (spans, limit) => {
          const writer = new BatchWriter(["[", "]"], limit)
          const taken = spans.filter((one) => writer.append(one))
          const plain = gunzipSync(writer.finish())
          assert.isAtMost(plain.length, limit)
          assert.strictEqual(plain.toString("utf8"), `[${taken.join(",")}]`)
          // The omitted spans did not fit, give or take the byte of a comma.
          const left = spans.length - taken.length
          if (left > 0 && taken.length === 0) {
            assert.isAbove(Math.max(...spans.map((one) => one.length)) + 3, limit)
          }
        }
      )
    )
  })

  it("a waiting batch takes a tenth of the memory of its text", () => {
    const writer = new BatchWriter(["[", "]"], MEBIBYTE)
    const span = JSON.stringify({
      name: "chat gpt-small",
      attributes: ["svc.task.id", "gen_ai.request.model"]
    })
    let bytes = 0
    while (writer.append(span)) bytes += span.length
    assert.isAbove(bytes, 0.9 * MEBIBYTE)
    // Everything but the last incomplete piece is compressed.
    assert.isBelow(writer.memoryBytes, 2 * 128 * 1024 + MEBIBYTE / 10)
  })
})
