import { Result } from "effect"
import { nearestName } from "../../../domain/nearestName.ts"
import { type VariableName, variableNames, variables, type Values } from "./variables.ts"
import type { Variable } from "./Variable.ts"

/** Environment variables by name. */
export type Environment = Readonly<Record<string, string | undefined>>

/** The variables that the service reads. A misspelt name does not compile. */
export type ServiceVariables = { readonly [Name in VariableName]?: string | undefined }

/** An invalid variable, with the rest of a sentence that starts with its name. */
export interface VariableFault {
  readonly variable: VariableName
  readonly fault: string
}

/** The text of a variable, or undefined if it is unset. An empty text counts as unset, as in `PORT= npm start`. */
export const textOfVariable = (environment: Environment, name: string): string | undefined => {
  const text = environment[name]
  return text === undefined || text === "" ? undefined : text
}

/** Decodes every variable of the table. Fails with all invalid ones, in the order of the table. */
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
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- the loop has set every name to a value of its own reader
  return faults.length === 0 ? Result.succeed(values as Values) : Result.fail(faults)
}

/** The prefix of the service's own variables. */
const PREFIX = "COUNTERSIGN_"

/** The variables by the part of their names that is compared. */
const withoutPrefix: ReadonlyMap<string, VariableName> = new Map(
  variableNames.map((name) => [name.startsWith(PREFIX) ? name.slice(PREFIX.length) : name, name])
)

/** A warning for each variable with the prefix of the service that it does not have. */
export const unknownVariables = (environment: Environment): ReadonlyArray<string> =>
  Object.keys(environment)
    .filter((name) => name.startsWith(PREFIX) && !(name in variables) && !otherVariables.has(name))
    .toSorted()
    .map((name) => {
      const nearest = nearestName(name.slice(PREFIX.length), [...withoutPrefix.keys()])
      const meant = nearest === undefined ? undefined : withoutPrefix.get(nearest)
      return `Unknown variable ${JSON.stringify(name).slice(1, -1)} (ignored)${
        meant === undefined ? "" : `; did you mean ${meant}?`
      }`
    })

/** Variables of the tests and of the command line, which the service itself does not read. */
const otherVariables: ReadonlySet<string> = new Set([
  "COUNTERSIGN_TEST_DATABASE_URL",
  "COUNTERSIGN_URL",
  "COUNTERSIGN_KEY"
])
