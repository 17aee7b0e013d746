import { assert, describe, it } from "@effect/vitest"
import { Effect, Fiber } from "effect"
import { Writable } from "node:stream"
import { waitForDrain, afterFlush } from "../../src/cli/stdout.ts"

/** A reader that takes what it is given when it is told to. */
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

describe("what is printed", () => {
  it("is taken before the process ends, however late", () => {
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

  it("does not keep a process whose reader has gone", () => {
    const { stream } = slowReader()
    stream.write("one")
    stream.destroy()
    let ended = false
    afterFlush(stream, () => (ended = true))
    assert.isTrue(ended)
  })

  it.effect("is waited for where much of it is left", () =>
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
