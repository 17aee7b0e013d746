import { assert, describe, it } from "@effect/vitest"
import { Effect, Fiber } from "effect"
import { Writable } from "node:stream"
import { waitForDrain, afterFlush } from "../../src/cli/stdout.ts"

/** A reader that reads only when told to. */
const slowReader = () => {
  const waiting: Array<() => void> = []
  let taken = ""
  const stream = new Writable({
    highWaterMark: 4,
    write: (chunk: Buffer, _encoding, done) => {
      waiting.push(() => {
        taken += chunk.toString()
        done()
      })
    }
  })
  const take = () => waiting.shift()?.()
  return { stream, take, taken: () => taken }
}

describe("standard output", () => {
  it("is flushed before the process exits, even to a slow reader", () => {
    const { stream, take, taken } = slowReader()
    let ended = false
    stream.write("one ")
    stream.write("two")
    afterFlush(stream, () => (ended = true))
    take()
    assert.isFalse(ended)
    take()
    take()
    assert.strictEqual(taken(), "one two")
    return new Promise<void>((done) => setImmediate(done)).then(() => assert.isTrue(ended))
  })

  it("does not keep the process alive if the reader has closed the pipe", () => {
    const { stream } = slowReader()
    stream.write("one")
    stream.destroy()
    let ended = false
    afterFlush(stream, () => (ended = true))
    assert.isTrue(ended)
  })

  it.effect("a command waits while its output buffer is full", () =>
    Effect.gen(function* () {
      const { stream, take } = slowReader()
      stream.write("a")
      yield* waitForDrain(stream)
      stream.write("bcdefgh")
      const waiting = yield* Effect.forkChild(waitForDrain(stream), { startImmediately: true })
      assert.isUndefined(waiting.pollUnsafe())
      take()
      take()
      yield* Fiber.join(waiting)
    })
  )
})
