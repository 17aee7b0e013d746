import { assert, describe, it } from "@effect/vitest"
import { Cause, Effect, Exit } from "effect"
import { errorMessage } from "../../src/cli/errorMessage.ts"
import { lazily } from "../../src/cli/lazily.ts"

const run = (load: () => Promise<() => Effect.Effect<string>>) => Effect.exit(lazily(load)())

describe("a command's handler", () => {
  it.effect("is loaded when the command runs", () =>
    Effect.gen(function* () {
      assert.deepStrictEqual(
        yield* run(() => Promise.resolve(() => Effect.succeed("done"))),
        Exit.succeed("done")
      )
    })
  )

  it.effect("names the package to install if its own package leaves it out", () =>
    Effect.gen(function* () {
      const missing = "./not-in-this-package.js"
      const exit = yield* run(() => import(/* @vite-ignore */ missing).then(() => () => Effect.succeed("")))
      const message = Exit.isFailure(exit) ? errorMessage(exit.cause) : ""
      assert.include(message, "npm install countersign-server")
    })
  )

  it.effect("that is broken is a defect", () =>
    Effect.gen(function* () {
      const exit = yield* run(() => Promise.reject(new Error("broken")))
      assert.isTrue(Exit.isFailure(exit) && Cause.hasDies(exit.cause))
    })
  )
})
