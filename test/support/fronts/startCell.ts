import { assert } from "@effect/vitest"
import { Context, Effect, Layer, Redacted } from "effect"
import { randomBytes } from "node:crypto"
import { Countersign } from "../../../src/testing/index.ts"
import { cli } from "../cli.ts"
import { cloneDatabase } from "../postgres.ts"

/** A service with a database and a master key of its own, and its commands. */
export const startCell = Effect.fnUntraced(function* (more: Readonly<Record<string, string>> = {}) {
  const databaseUrl = yield* cloneDatabase
  const environment = { COUNTERSIGN_MASTER_KEY: randomBytes(32).toString("base64"), ...more }
  const context = yield* Layer.build(Layer.fresh(Countersign.layer({ databaseUrl, environment })))
  return {
    countersign: Context.get(context, Countersign),
    run: (...args: ReadonlyArray<string>) =>
      Effect.map(
        cli(args, { ...environment, DATABASE_URL: Redacted.value(databaseUrl) }),
        ({ err, ok, out }) => {
          assert.isTrue(ok, err)
          return out.trim()
        }
      )
  }
})
