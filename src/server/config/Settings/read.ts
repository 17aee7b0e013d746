import { Result } from "effect"
import { nearest } from "./nearest.ts"
import { type VariableName, variableNames, variables, type Values } from "./variables.ts"
import type { Variable } from "./Variable.ts"

/** Environment variables by name. */
export type Environment = Readonly<Record<string, string | undefined>>

/** A variable that is wrong, and the rest of the sentence whose subject it is. */
export interface Fault {
  readonly variable: VariableName
  readonly fault: string
}

/** The text of a variable. An empty one counts as unset, as in `PORT= npm start`. */
export const textOf = (environment: Environment, name: string): string | undefined => {
  const text = environment[name]
  return text === undefined || text === "" ? undefined : text
}

/** Reads every variable of the table; fails with all that are wrong, in the table's order. */
export const readAll = (environment: Environment): Result.Result<Values, ReadonlyArray<Fault>> => {
  const values: Partial<Record<VariableName, unknown>> = {}
  const faults: Array<Fault> = []
  for (const name of variableNames) {
    const variable: Variable<unknown> = variables[name]
    const text = textOf(environment, name)
    const value = text === undefined ? Result.succeed(variable.fallback) : variable.read(text)
    if (Result.isSuccess(value)) values[name] = value.success
    else faults.push({ variable: name, fault: value.failure })
  }
  // Every name of the table was visited, and each value is of its variable's own reader or fallback.
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- as said above
  return faults.length === 0 ? Result.succeed(values as Values) : Result.fail(faults)
}

/** A line for each variable that looks like one of ours and is none. */
export const unknownVariables = (environment: Environment): ReadonlyArray<string> =>
  Object.keys(environment)
    .filter((name) => name.startsWith("COUNTERSIGN_") && !(name in variables) && !harmless.has(name))
    .toSorted()
    .map((name) => {
      const meant = nearest(name, variableNames)
      return `${JSON.stringify(name).slice(1, -1)} is no variable of this service and has no effect${
        meant === undefined ? "" : `; did you mean ${meant}?`
      }`
    })

/** Names of ours that are not of the service: those of its tests and its command line. */
const harmless: ReadonlySet<string> = new Set([
  "COUNTERSIGN_TEST_DATABASE_URL",
  "COUNTERSIGN_URL",
  "COUNTERSIGN_KEY"
])
