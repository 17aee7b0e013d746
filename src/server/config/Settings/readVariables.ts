import { Result } from "effect"
import { nearestName } from "./nearestName.ts"
import { type VariableName, variableNames, variables, type Values } from "./variables.ts"
import type { Variable } from "./Variable.ts"

/** Environment variables by name. */
export type Environment = Readonly<Record<string, string | undefined>>

/** A variable that is wrong, and the rest of the sentence whose subject it is. */
export interface VariableFault {
  readonly variable: VariableName
  readonly fault: string
}

/** The text of a variable. An empty one counts as unset, as in `PORT= npm start`. */
export const textOfVariable = (environment: Environment, name: string): string | undefined => {
  const text = environment[name]
  return text === undefined || text === "" ? undefined : text
}

/** Reads every variable of the table; fails with all that are wrong, in the table's order. */
export const readVariables = (
  environment: Environment
): Result.Result<Values, ReadonlyArray<VariableFault>> => {
  const values: Partial<Record<VariableName, unknown>> = {}
  const faults: Array<VariableFault> = []
  for (const name of variableNames) {
    const variable: Variable<unknown> = variables[name]
    const text = textOfVariable(environment, name)
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
    .filter((name) => name.startsWith("COUNTERSIGN_") && !(name in variables) && !otherVariables.has(name))
    .toSorted()
    .map((name) => {
      const meant = nearestName(name, variableNames)
      return `${JSON.stringify(name).slice(1, -1)} is no variable of this service and has no effect${
        meant === undefined ? "" : `; did you mean ${meant}?`
      }`
    })

/** Names of ours that are not of the service: those of its tests and its command line. */
const otherVariables: ReadonlySet<string> = new Set([
  "COUNTERSIGN_TEST_DATABASE_URL",
  "COUNTERSIGN_URL",
  "COUNTERSIGN_KEY"
])
