import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { chmodSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import path from "node:path"
import { withCredentials } from "../../src/cli/credentials.ts"
import { spawnCli } from "../support/process.ts"

const withDirectory = <A>(files: Readonly<Record<string, string>>, use: (directory: string) => A): A => {
  const directory = mkdtempSync(path.join(tmpdir(), "countersign-credentials-"))
  try {
    for (const [name, text] of Object.entries(files)) writeFileSync(path.join(directory, name), text)
    return use(directory)
  } finally {
    rmSync(directory, { recursive: true })
  }
}

describe("credentials", () => {
  it("are read for secret variables from files of their names, without the last newline", () => {
    const files = {
      DATABASE_URL: "postgres://db/x\n",
      COUNTERSIGN_MASTER_KEY: "key",
      COUNTERSIGN_ADMIN_KEY: "a\nb\n\n"
    }
    withDirectory(files, (directory) =>
      assert.deepStrictEqual(withCredentials({ CREDENTIALS_DIRECTORY: directory, PORT: "1" }), {
        CREDENTIALS_DIRECTORY: directory,
        PORT: "1",
        DATABASE_URL: "postgres://db/x",
        COUNTERSIGN_MASTER_KEY: "key",
        COUNTERSIGN_ADMIN_KEY: "a\nb\n"
      })
    )
  })

  it("neither replace a variable that is set nor set one that is no secret", () => {
    const files = {
      DATABASE_URL: "postgres://file",
      COUNTERSIGN_MASTER_KEY: "file",
      PORT: "1",
      HOST: "0.0.0.0",
      PATH: "/"
    }
    withDirectory(files, (directory) => {
      const given = {
        CREDENTIALS_DIRECTORY: directory,
        DATABASE_URL: "postgres://variable",
        COUNTERSIGN_MASTER_KEY: ""
      }
      assert.deepStrictEqual(withCredentials(given), { ...given, COUNTERSIGN_MASTER_KEY: "file" })
    })
  })

  it("are none without a directory, and a file that cannot be read is an error", () => {
    const environment = { DATABASE_URL: "postgres://x" }
    assert.strictEqual(withCredentials(environment), environment)
    assert.deepStrictEqual(withCredentials({ CREDENTIALS_DIRECTORY: "/nowhere" }), {
      CREDENTIALS_DIRECTORY: "/nowhere"
    })
    withDirectory({}, (directory) => {
      mkdirSync(path.join(directory, "DATABASE_URL"))
      chmodSync(directory, 0o700)
      assert.throws(
        () => withCredentials({ CREDENTIALS_DIRECTORY: directory }),
        /DATABASE_URL is a directory: /
      )
    })
  })

  it.effect("reach the commands, which do not show them", () =>
    Effect.gen(function* () {
      const directory = yield* Effect.acquireRelease(
        Effect.sync(() => mkdtempSync(path.join(tmpdir(), "countersign-credentials-"))),
        (made) => Effect.sync(() => rmSync(made, { recursive: true }))
      )
      writeFileSync(path.join(directory, "DATABASE_URL"), "postgres://countersign:hunter2@db.internal/x\n")
      const config = yield* spawnCli(["config"], { CREDENTIALS_DIRECTORY: directory })
      const { code, err, out } = yield* config.ended
      assert.strictEqual(code, 1, "the master key is missing")
      assert.match(out + err, /must be set with DATABASE_URL/)
      assert.notMatch(out + err, /hunter2/)
    }).pipe(Effect.scoped)
  )
})
