import { Context, Effect } from "effect"
import { decode, type Environment, type ProcessFacts } from "../server/config/Settings.ts"

/** The environment that commands read: the process's own, which a test replaces. */
export const ProcessEnvironment = Context.Reference<{
  readonly variables: Environment
  readonly machine: ProcessFacts
}>("countersign/cli/ProcessEnvironment", {
  defaultValue: () => ({
    variables: process.env,
    machine: { cwd: process.cwd(), uid: process.getuid?.() }
  })
})

/** The settings of this process and what its operator should hear about them. */
export const readSettings = Effect.flatMap(ProcessEnvironment, ({ machine, variables }) =>
  Effect.fromResult(decode(variables, machine))
)
