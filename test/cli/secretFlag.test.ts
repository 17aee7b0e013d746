import { assert, describe, it } from "@effect/vitest"
import { Console, Effect, Option, Redacted } from "effect"
import { mkdtemp, rm, writeFile } from "node:fs/promises"
import { tmpdir } from "node:os"
import path from "node:path"
import { ProcessEnvironment } from "../../src/cli/environment.ts"
import { findSecret } from "../../src/cli/secretFlag.ts"
import { cli } from "../support/cli.ts"

const sources = { flag: "secret", variable: "WEBHOOK_SECRET", what: "The secret" }

/** Finds the secret; returns it with the output on stderr. */
const find = (given: { text?: string; file?: string }, variables: Record<string, string> = {}) =>
  Effect.suspend(() => {
    const err: Array<string> = []
    const captured: Console.Console = {
      ...globalThis.console,
      error: (...parts: ReadonlyArray<unknown>) => void err.push(parts.join(" "))
    }
    return findSecret(sources, {
      text: Option.map(Option.fromUndefinedOr(given.text), (text) => Redacted.make(text)),
      file: Option.fromUndefinedOr(given.file)
    }).pipe(
      Effect.provideService(ProcessEnvironment, { variables, machine: { cwd: "/srv/app", uid: 1000 } }),
      Effect.provideService(Console.Console, captured),
      Effect.map((found) => ({ secret: Option.getOrUndefined(Option.map(found, Redacted.value)), err }))
    )
  })

describe("secrets of commands", () => {
  it.live("a secret comes from a file, the command line with a warning, or the environment", () =>
    Effect.gen(function* () {
      const directory = yield* Effect.acquireRelease(
        Effect.promise(() => mkdtemp(path.join(tmpdir(), "countersign-secret-"))),
        (directory) => Effect.promise(() => rm(directory, { recursive: true }))
      )
      const file = path.join(directory, "secret")
      yield* Effect.promise(() => writeFile(file, "whsec_file\nanother line\n"))
      const variables = { WEBHOOK_SECRET: "whsec_variable" }
      assert.deepStrictEqual(yield* find({ file, text: "whsec_argument" }, variables), {
        secret: "whsec_file",
        err: []
      })
      assert.deepStrictEqual(yield* find({}, variables), { secret: "whsec_variable", err: [] })
      assert.deepStrictEqual(yield* find({}), { secret: undefined, err: [] })
      const argument = yield* find({ text: "whsec_argument" }, variables)
      assert.strictEqual(argument.secret, "whsec_argument")
      assert.lengthOf(argument.err, 1)
      assert.include(argument.err[0], "Set WEBHOOK_SECRET or use --secret-file")
      assert.notInclude(argument.err[0], "whsec_argument")
      yield* Effect.promise(() => writeFile(file, "\n"))
      assert.match((yield* Effect.flip(find({ file }))).message, /first line of .* is not a secret/)
    }).pipe(Effect.scoped)
  )

  it.live("listen and demo without their secret say where they look for it", () =>
    Effect.gen(function* () {
      const listen = yield* cli(["listen"])
      assert.isFalse(listen.ok)
      assert.include(listen.err, "set WEBHOOK_SECRET, or use --secret-file")
      const demo = yield* cli(["demo", "--url", "http://127.0.0.1:9"])
      assert.isFalse(demo.ok)
      assert.include(demo.err, "set COUNTERSIGN_ADMIN_KEY, or use --key-file")
    })
  )
})
