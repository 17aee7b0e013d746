import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { type ChildProcess, spawn, spawnSync } from "node:child_process"
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import path from "node:path"
import { fileURLToPath } from "node:url"
import { temporaryDirectory } from "../../src/testing/temporaryDirectory.ts"
import { eventually } from "../support/eventually.ts"

const script = fileURLToPath(new URL("temporaryProcess.ts", import.meta.url))

/** A temporary directory of the system for one test, which any account can enter: as root, PostgreSQL runs under another. */
const systemDirectory = Effect.acquireRelease(
  Effect.sync(() => {
    const directory = mkdtempSync(path.join(tmpdir(), "cs-"))
    spawnSync("chmod", ["755", directory])
    return directory
  }),
  (directory) => Effect.sync(() => rmSync(directory, { recursive: true, force: true }))
)

/**
 * Command lines of running PostgreSQL servers below a directory. A server's child has the same command line until it sets its
 * own, so only processes without a parent among them count.
 */
const serversBelow = (directory: string): ReadonlyArray<string> => {
  const running = spawnSync("ps", ["-A", "-o", "pid=,ppid=,args="], { encoding: "utf8" })
    .stdout.split("\n")
    .filter((line) => /postgres/.test(line) && line.includes(` ${directory}`))
    .map((line) => line.trim().split(/\s+/))
  const ids = new Set(running.map(([pid]) => pid))
  return running.filter(([, parent]) => !ids.has(parent)).map(([, , ...command]) => command.join(" "))
}

/** The remains of a service: its directories and servers. */
const remains = (directory: string) =>
  Effect.sync(() => [...readdirSync(directory), ...serversBelow(directory)])

/** Starts a process in a session of its own, and waits until its output matches. */
const start = (command: ReadonlyArray<string>, directory: string, pattern: RegExp) =>
  Effect.acquireRelease(
    Effect.promise(
      () =>
        new Promise<ChildProcess>((resolve, reject) => {
          const [file = "", ...args] = command
          const child = spawn(file, args, {
            env: { ...process.env, TMPDIR: directory, VITEST: undefined },
            stdio: ["ignore", "pipe", "pipe"],
            detached: true
          })
          let output = ""
          const look = (chunk: Buffer) => {
            output += chunk.toString("utf8")
            if (pattern.test(output)) resolve(child)
          }
          child.stdout.on("data", look)
          child.stderr.on("data", look)
          child.once("exit", () => reject(new Error(output)))
        })
    ),
    (child) => Effect.sync(() => child.kill("SIGKILL"))
  )

const hasSignals = process.platform !== "win32"
if (!hasSignals)
  process.stderr.write("temporaryDirectory is skipped: Windows has no signals that end a process group\n")

describe.skipIf(!hasSignals)("temporaryDirectory", () => {
  for (const signal of ["SIGINT", "SIGTERM", "SIGKILL"] as const) {
    it.live(
      `a process that ends by ${signal} leaves neither its PostgreSQL nor its directory`,
      () =>
        Effect.gen(function* () {
          const directory = yield* systemDirectory
          const child = yield* start([process.execPath, script], directory, /listening/)
          assert.lengthOf(serversBelow(directory), 1)
          // As Ctrl-C in a terminal does: the whole process group gets the signal.
          process.kill(-(child.pid ?? assert.fail("it runs")), signal)
          yield* eventually(remains(directory), (left) => left.length === 0)
        }),
      120_000
    )
  }

  it.live(
    "a killed vitest run leaves neither its PostgreSQL nor its directory",
    () =>
      Effect.gen(function* () {
        const directory = yield* systemDirectory
        const project = path.join(directory, "project")
        mkdirSync(project)
        const testing = fileURLToPath(new URL("../../src/testing/index.ts", import.meta.url))
        writeFileSync(
          path.join(project, "hanging.test.mjs"),
          `import { layer } from ${JSON.stringify(import.meta.resolve("@effect/vitest"))}
           import { Effect } from ${JSON.stringify(import.meta.resolve("effect"))}
           import { Countersign } from ${JSON.stringify(testing)}
           layer(Countersign.layer(), { timeout: "60 seconds" })("a service", (it) => {
             it.effect("never ends", () => Effect.andThen(Effect.sync(() => process.stdout.write("listening\\n")), Effect.never))
           })`
        )
        const vitest = fileURLToPath(new URL("../../node_modules/vitest/vitest.mjs", import.meta.url))
        const run = [process.execPath, vitest, "run", "--root", project]
        const child = yield* start(run, directory, /listening/)
        assert.lengthOf(serversBelow(directory), 1)
        child.kill("SIGKILL")
        yield* eventually(remains(directory), (left) => left.every((name) => !name.includes("countersign-")))
      }),
    120_000
  )

  it.live("a directory whose process was killed together with its guard is removed by the next call", () =>
    Effect.gen(function* () {
      const prefix = `countersign-abandoned-${process.pid}-`
      const create = (name: string, owner: object) => {
        const directory = path.join(tmpdir(), prefix + name)
        mkdirSync(directory)
        writeFileSync(path.join(directory, "owner.json"), JSON.stringify(owner))
        return directory
      }
      const record = yield* Effect.scoped(
        Effect.map(temporaryDirectory(prefix), (directory): object =>
          JSON.parse(readFileSync(path.join(directory, "owner.json"), "utf8"))
        )
      )
      const ended = spawnSync(process.execPath, ["-e", "0"]).pid
      const abandoned = create("abandoned", { ...record, pid: ended })
      const reused = create("reused", { ...record, started: "1" })
      const foreign = create("foreign", { ...record, pid: ended, host: "elsewhere" })
      const running = create("running", record)
      yield* Effect.scoped(
        Effect.map(temporaryDirectory(prefix), (own) => {
          assert.deepStrictEqual(
            [abandoned, foreign, running, own].map((directory) => existsSync(directory)),
            [false, true, true, true]
          )
          // Only Linux tells when a process started.
          if (process.platform === "linux") assert.isFalse(existsSync(reused))
        })
      )
      for (const left of [reused, foreign, running]) rmSync(left, { recursive: true, force: true })
      assert.deepStrictEqual(
        readdirSync(tmpdir()).filter((name) => name.startsWith(prefix)),
        []
      )
    })
  )
})
