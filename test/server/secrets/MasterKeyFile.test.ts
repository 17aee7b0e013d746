import { assert, describe, it } from "@effect/vitest"
import { Effect, Redacted } from "effect"
import { chmod, mkdtemp, readdir, rm, stat, writeFile } from "node:fs/promises"
import { tmpdir } from "node:os"
import path from "node:path"
import { loadOrCreateMasterKey, masterKeyPath } from "../../../src/server/secrets/MasterKeyFile.ts"

const directory = Effect.acquireRelease(
  Effect.promise(() => mkdtemp(path.join(tmpdir(), "countersign-key-"))),
  (made) => Effect.promise(() => rm(made, { recursive: true, force: true }))
)

describe("MasterKeyFile", () => {
  it.effect(
    "a generated master key is 32 bytes in base64, readable only by its owner, and is not replaced",
    () =>
      Effect.gen(function* () {
        const dataDir = path.join(yield* directory, "not", "there", "yet")
        const first = Redacted.value(yield* loadOrCreateMasterKey(dataDir))
        assert.strictEqual(Buffer.from(first, "base64").length, 32)
        assert.strictEqual((yield* Effect.promise(() => stat(masterKeyPath(dataDir)))).mode & 0o777, 0o600)
        assert.strictEqual(Redacted.value(yield* loadOrCreateMasterKey(dataDir)), first)
      })
  )

  it.effect("concurrent callers get the same generated key, and no temporary file is left", () =>
    Effect.gen(function* () {
      const dataDir = yield* directory
      const keys = yield* Effect.forEach(Array.from({ length: 20 }), () => loadOrCreateMasterKey(dataDir), {
        concurrency: "unbounded"
      })
      assert.strictEqual(new Set(keys.map(Redacted.value)).size, 1)
      assert.deepEqual(yield* Effect.promise(() => readdir(dataDir)), ["master-key"])
    })
  )

  it.effect("a key file that other accounts can read is refused, and an empty one is not overwritten", () =>
    Effect.gen(function* () {
      const dataDir = yield* directory
      const file = masterKeyPath(dataDir)
      yield* loadOrCreateMasterKey(dataDir)
      for (const mode of [0o644, 0o640, 0o604]) {
        yield* Effect.promise(() => chmod(file, mode))
        assert.include((yield* Effect.flip(loadOrCreateMasterKey(dataDir))).phrase, `chmod 600 ${file}`)
      }
      yield* Effect.promise(() => writeFile(file, ""))
      assert.include((yield* Effect.flip(loadOrCreateMasterKey(dataDir))).phrase, "is empty")
      assert.strictEqual((yield* Effect.promise(() => stat(file))).size, 0)
    })
  )

  it.effect("no key is generated if the database contains secrets sealed with a lost key", () =>
    Effect.gen(function* () {
      const dataDir = yield* directory
      const lost = yield* Effect.flip(loadOrCreateMasterKey(dataDir, Effect.succeed(["1a2b3c4d5e6f7a8b"])))
      assert.match(
        lost.message,
        /^the master key .*master-key is missing.*\(1a2b3c4d5e6f7a8b\): restore the file from a backup/
      )
      assert.deepEqual(yield* Effect.promise(() => readdir(dataDir)), [])
    })
  )
})
