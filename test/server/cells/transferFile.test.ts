import { assert, describe, it } from "@effect/vitest"
import { Context, Effect, Layer, Redacted } from "effect"
import { randomBytes } from "node:crypto"
import fs, { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import path from "node:path"
import { Writable } from "node:stream"
import { vi } from "vitest"
import { CHUNK_BYTES } from "../../../src/server/cells/transfer/sealedChunks.ts"
import { makeWriter, openWriter, readFile } from "../../../src/server/cells/transfer/transferFile.ts"
import { makeTransferKey, parseTransferKey } from "../../../src/server/cells/transfer/TransferKey.ts"
import { SecretBox } from "../../../src/server/secrets/SecretBox.ts"

const makeBox = Effect.suspend(() =>
  Effect.map(
    Layer.build(SecretBox.layer({ masterKeys: [Redacted.make(randomBytes(32).toString("base64"))] })),
    (context) => Context.get(context, SecretBox)
  )
)

const directory = Effect.acquireRelease(
  Effect.sync(() => mkdtempSync(path.join(tmpdir(), "countersign-transfer-"))),
  (made) => Effect.sync(() => rmSync(made, { recursive: true }))
)

const linesOf = async (file: string, box: SecretBox["Service"]) => {
  const lines: Array<string> = []
  for await (const line of readFile(file, box)) lines.push(line)
  return lines
}

/** The message of the failure. */
const failureOf = (promise: Promise<unknown>) =>
  promise.then(
    () => assert.fail("a failure"),
    (error: unknown) => (error instanceof Error ? error.message : String(error))
  )

const write = async (file: string, key: string, lines: ReadonlyArray<string>) => {
  const parsed = parseTransferKey(key)
  const writer = openWriter(file, parsed._tag === "Some" ? parsed.value : assert.fail("a key"))
  for (const line of lines) await writer.write(line)
  await writer.end()
}

/** Incompressible, so that the file has several chunks. */
const lines = Array.from({ length: 40 }, () => randomBytes(6_000).toString("base64"))

describe("the file of an exported organization", () => {
  it.effect("gives back its lines, in the installation that it was exported for only", () =>
    Effect.gen(function* () {
      const file = path.join(yield* directory, "file")
      const box = yield* makeBox
      yield* Effect.promise(() => write(file, makeTransferKey(box), lines))
      assert.deepStrictEqual(yield* Effect.promise(() => linesOf(file, box)), lines)
      const other = yield* makeBox
      assert.match(
        yield* Effect.promise(() => failureOf(linesOf(file, other))),
        /was exported for another installation/
      )
      const content = readFileSync(file)
      assert.isFalse(content.includes(lines[0]?.slice(0, 100) ?? ""))
      // An existing file is not replaced.
      assert.match(
        yield* Effect.promise(() => failureOf(write(file, makeTransferKey(box), lines))),
        /exists already/
      )
    }).pipe(Effect.scoped)
  )

  it.effect("is refused if it was cut anywhere, or a byte of it was changed", () =>
    Effect.gen(function* () {
      const file = path.join(yield* directory, "file")
      const box = yield* makeBox
      yield* Effect.promise(() => write(file, makeTransferKey(box), lines))
      const content = readFileSync(file)
      const sealed = CHUNK_BYTES + 16
      const header = content.length - Math.floor((content.length - 100) / sealed) * sealed
      assert.isAbove(content.length, 3 * sealed)
      const cuts = [
        10,
        60,
        115,
        200,
        header,
        content.length - sealed,
        content.length - 16,
        content.length - 1
      ]
      for (const start of [0, 1, 2]) cuts.push(115 + start * sealed)
      for (const length of cuts) {
        writeFileSync(file, content.subarray(0, length))
        assert.match(
          yield* Effect.promise(() => failureOf(linesOf(file, box))),
          /damaged or incomplete|another installation/,
          `cut to ${length}`
        )
      }
      for (const at of [0, 30, 60, 100, 120, 115 + sealed + 5, content.length - 1]) {
        const changed = Buffer.from(content)
        changed[at] = (changed[at] ?? 0) ^ 1
        writeFileSync(file, changed)
        assert.match(
          yield* Effect.promise(() => failureOf(linesOf(file, box))),
          /damaged or incomplete|another installation|no export of an organization/,
          `changed at ${at}`
        )
      }
      // Two chunks in another order.
      const swapped = Buffer.from(content)
      content.copy(swapped, 115, 115 + sealed, 115 + 2 * sealed)
      content.copy(swapped, 115 + sealed, 115, 115 + sealed)
      writeFileSync(file, swapped)
      assert.match(yield* Effect.promise(() => failureOf(linesOf(file, box))), /damaged or incomplete/)
    }).pipe(Effect.scoped)
  )

  it.effect.skipIf(process.platform !== "linux")("is on the disk when it is reported as written", () =>
    Effect.gen(function* () {
      const made = yield* directory
      const box = yield* makeBox
      const synced: Array<string> = []
      const original = fs.fsync
      yield* Effect.acquireRelease(
        Effect.sync(() => {
          fs.fsync = Object.assign(
            (fd: number, done: fs.NoParamCallback) => {
              synced.push(fs.readlinkSync(`/proc/self/fd/${fd}`))
              original(fd, done)
            },
            { __promisify__: original.__promisify__ }
          )
        }),
        () => Effect.sync(() => void (fs.fsync = original))
      )
      yield* Effect.promise(() => write(path.join(made, "file"), makeTransferKey(box), lines))
      assert.deepStrictEqual(synced, [path.join(made, "file.partial")])
    }).pipe(Effect.scoped)
  )

  it.effect("has its name when it is complete, and replaces one that a killed command left", () =>
    Effect.gen(function* () {
      const made = yield* directory
      const box = yield* makeBox
      const file = path.join(made, "file")
      const key = parseTransferKey(makeTransferKey(box))
      const open = () => openWriter(file, key._tag === "Some" ? key.value : assert.fail("a key"))
      const killed = open()
      yield* Effect.promise(() => killed.write(lines.join("")))
      const writer = open()
      assert.deepStrictEqual(readdirSync(made), ["file.partial"])
      for (const line of lines) yield* Effect.promise(() => writer.write(line))
      // The other command runs still: it cannot complete this one's file.
      assert.match(
        yield* Effect.promise(() => failureOf(killed.end())),
        /another command has replaced or removed/
      )
      killed.abort()
      assert.deepStrictEqual(readdirSync(made), ["file.partial"])
      yield* Effect.promise(writer.end)
      writer.abort()
      assert.deepStrictEqual(readdirSync(made), ["file"])
      assert.deepStrictEqual(yield* Effect.promise(() => linesOf(file, box)), lines)
      assert.throws(open, /exists already/)
      // A command that fails leaves nothing.
      const failed = openWriter(path.join(made, "other"), key._tag === "Some" ? key.value : new Uint8Array())
      failed.abort()
      assert.deepStrictEqual(readdirSync(made), ["file"])
    }).pipe(Effect.scoped)
  )

  it.effect("ends with an error when what reads the pipe hangs, but not when it is slow", () =>
    Effect.gen(function* () {
      const key = parseTransferKey(makeTransferKey(yield* makeBox))
      const transferKey = key._tag === "Some" ? key.value : assert.fail("a key")
      const send = async (write: (done: () => void) => void) => {
        const output = new Writable({ highWaterMark: 1, write: (_, __, done) => write(done) })
        const writer = makeWriter(output, transferKey, { ends: true, maxStallMillis: 300 })
        for (const line of lines) await writer.write(line)
        await writer.end()
      }
      assert.match(yield* Effect.promise(() => failureOf(send(() => undefined))), /no byte could be written/)
      yield* Effect.acquireRelease(
        Effect.sync(() => vi.useFakeTimers({ toFake: ["setInterval", "clearInterval"] })),
        () => Effect.sync(() => vi.useRealTimers())
      )
      let writes = 0
      // Slow: a third of the limit passes with every write.
      const slowly = (done: () => void) => {
        writes++
        vi.advanceTimersByTime(100)
        setImmediate(done)
      }
      yield* Effect.promise(() => send(slowly))
      assert.isAbove(writes * 100, 300)
    }).pipe(Effect.scoped)
  )

  it.effect("is not written for a malformed transfer key", () =>
    Effect.gen(function* () {
      const key = makeTransferKey(yield* makeBox)
      assert.match(key, /^cst1_[\w-]{75}$/)
      for (const text of [
        "",
        "cst1_",
        key.slice(0, -1),
        `${key}A`,
        key.replace("cst1_", "cst2_"),
        ` ${key}`
      ]) {
        assert.strictEqual(parseTransferKey(text)._tag, "None", text)
      }
    }).pipe(Effect.scoped)
  )
})
