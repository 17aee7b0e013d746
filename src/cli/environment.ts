import { Context, Effect } from "effect"
import { decode, type Environment, type ProcessFacts } from "../server/config/Settings.ts"
import { withCredentials } from "./credentials.ts"

/** The environment that commands read: the process's own, with the credentials of its unit. Tests replace it. */
export const ProcessEnvironment = Context.Reference<{
  readonly variables: Environment
  readonly machine: ProcessFacts
}>("countersign/cli/ProcessEnvironment", {
  defaultValue: () => ({
    variables: withCredentials(process.env),
    machine: { cwd: process.cwd(), uid: process.getuid?.() }
  })
})

/** Reads the settings and their warnings from the environment. */
export const readSettings = Effect.flatMap(ProcessEnvironment, ({ machine, variables }) =>
  Effect.fromResult(decode(variables, machine))
)
