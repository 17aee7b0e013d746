import { Console, Effect, Exit } from "effect"
import { countersign } from "../../src/cli/countersign.ts"
import { ProcessEnvironment } from "../../src/cli/environment.ts"
import { errorMessage } from "../../src/cli/errorMessage.ts"
import { exitCodeOf } from "../../src/cli/exitCode.ts"
import type { Environment } from "../../src/server/config/Settings.ts"

/** The output of a command. `err` includes the error message if it failed. */
export interface Outcome {
  readonly ok: boolean
  readonly out: string
  readonly err: string
}

/** Runs the CLI in this process with the given environment variables. */
export const cli = (args: ReadonlyArray<string>, variables: Environment = {}): Effect.Effect<Outcome> =>
  Effect.map(cliWithCode(args, variables), ({ code: _, ...outcome }) => outcome)

/** Like `cli`, with the exit code that the process would have. */
export const cliWithCode = (
  args: ReadonlyArray<string>,
  variables: Environment = {}
): Effect.Effect<Outcome & { readonly code: number }> =>
  Effect.suspend(() => {
    const out: Array<string> = []
    const err: Array<string> = []
    const captured: Console.Console = {
      ...globalThis.console,
      log: (...parts: ReadonlyArray<unknown>) => void out.push(parts.join(" ")),
      error: (...parts: ReadonlyArray<unknown>) => void err.push(parts.join(" "))
    }
    return countersign(args).pipe(
      Effect.provideService(ProcessEnvironment, { variables, machine: { cwd: "/srv/app", uid: 1000 } }),
      Effect.provideService(Console.Console, captured),
      Effect.exit,
      Effect.map((exit) => {
        const phrase = Exit.isFailure(exit) ? errorMessage(exit.cause) : undefined
        return {
          ok: Exit.isSuccess(exit),
          code: Exit.isSuccess(exit) ? 0 : exitCodeOf(exit.cause),
          out: out.join("\n"),
          err: [...err, ...(phrase === undefined ? [] : [phrase])].join("\n")
        }
      })
    )
  })
