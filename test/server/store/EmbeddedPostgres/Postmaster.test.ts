import { assert, describe, it } from "@effect/vitest"
import { Effect, Exit, Redacted, Schedule } from "effect"
import { mkdtemp, readdir, readlink, rm, writeFile } from "node:fs/promises"
import { createServer } from "node:net"
import { tmpdir } from "node:os"
import path from "node:path"
import {
  isServerRunning,
  type ServerSettings,
  socketHost,
  startServer
} from "../../../../src/server/store/EmbeddedPostgres/Postmaster.ts"

/** Settings of a server whose program is a shell script, in a directory that is removed at the end of the scope. */
const settingsWith = Effect.fnUntraced(function* (script: string) {
  const directory = yield* Effect.acquireRelease(
    Effect.promise(() => mkdtemp(path.join(tmpdir(), "countersign-postmaster-"))),
    (made) => Effect.promise(() => rm(made, { recursive: true, force: true }))
  )
  const postgres = path.join(directory, "postgres")
  yield* Effect.promise(() => writeFile(postgres, `#!/bin/sh\n${script}\n`, { mode: 0o755 }))
  const settings: ServerSettings = {
    cluster: { directory, password: Redacted.make("unused"), port: 5432 },
    binaries: { initdb: postgres, postgres, pgCtl: postgres, major: 18, installedIn: undefined },
    account: undefined,
    host: directory,
    logFile: path.join(directory, "postgres.log"),
    sync: false
  }
  return settings
})

describe("startServer", () => {
  it.live("the output of a failed start is complete after non-ASCII text in the log", () =>
    Effect.gen(function* () {
      const settings = yield* settingsWith(
        `echo 'FATAL:  lock file "postmaster.pid" already exists' >&2; exit 1`
      )
      yield* Effect.promise(() => writeFile(settings.logFile, `${"/srv/Zähler/".repeat(50)}\n`))
      const state = yield* Effect.repeat(yield* startServer(settings), {
        schedule: Schedule.spaced("5 millis"),
        until: (now) => now.state === "ended"
      })
      assert.deepStrictEqual(state, {
        state: "ended",
        log: `FATAL:  lock file "postmaster.pid" already exists\n\nexit 1`
      })
    }).pipe(Effect.scoped)
  )

  it.live.runIf(process.platform === "linux")("the log is closed even if the program cannot be spawned", () =>
    Effect.gen(function* () {
      const settings = yield* settingsWith("")
      // A path with a null byte makes `spawn` throw.
      const binaries = { ...settings.binaries, postgres: "post\0gres" }
      assert.isTrue(Exit.isFailure(yield* Effect.exit(startServer({ ...settings, binaries }))))
      const openFiles = yield* Effect.promise(async () =>
        Promise.all(
          (await readdir("/proc/self/fd")).map((fd) => readlink(`/proc/self/fd/${fd}`).catch(() => ""))
        )
      )
      assert.notInclude(openFiles, settings.logFile)
    }).pipe(Effect.scoped)
  )
})

describe.runIf(process.platform === "linux")("isServerRunning", () => {
  it.live("a server is found whose process is not visible, because it runs in another container", () =>
    Effect.gen(function* () {
      const { cluster } = yield* settingsWith("")
      const { directory } = cluster
      const server = createServer()
      yield* Effect.promise(() => writeFile(path.join(directory, "postmaster.pid"), "999999999\n"))
      yield* Effect.promise(
        () =>
          new Promise<void>((resolve) => {
            server.listen(path.join(socketHost(directory), ".s.PGSQL.5432"), resolve)
          })
      )
      assert.isTrue(yield* isServerRunning({ directory }))
      yield* Effect.promise(() => new Promise((resolve) => server.close(resolve)))
      assert.isFalse(yield* isServerRunning({ directory }))
    }).pipe(Effect.scoped)
  )
})
