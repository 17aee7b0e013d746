import { Result } from "effect"
import { type Environment, readVariables, textOfVariable } from "./readVariables.ts"
import { type VariableName, variableNames, variables } from "./variables.ts"
import type { Variable } from "./Variable.ts"

/** A variable as `countersign config` shows it. */
export interface ConfigRow {
  readonly variable: VariableName
  readonly meaning: string
  readonly default: string
  readonly unit: string
  readonly secret: boolean
  readonly set: boolean
  /** The text as set; null if it is unset, secret or invalid. */
  readonly value: string | null
  /** Why the value is invalid, as the rest of a sentence that starts with the variable's name; null if it is valid. */
  readonly fault: string | null
}

/** Every variable with its documentation and its state in the given environment. */
export const reportSettings = (environment: Environment): ReadonlyArray<ConfigRow> => {
  const read = readVariables(environment)
  const faults = new Map(Result.isFailure(read) ? read.failure.map((one) => [one.variable, one.fault]) : [])
  return variableNames.map((name) => {
    const variable: Variable<unknown> = variables[name]
    const text = textOfVariable(environment, name)
    const fault = faults.get(name) ?? null
    return {
      variable: name,
      meaning: variable.description,
      default: variable.defaultText,
      unit: variable.unit,
      secret: variable.secret,
      set: text !== undefined,
      value: text === undefined || variable.secret || fault !== null ? null : text,
      fault
    }
  })
}

/** All variables as a Markdown table. */
export const settingsTable = (): string =>
  [
    "| variable | default | unit | meaning |",
    "| --- | --- | --- | --- |",
    ...variableNames.map((name) => {
      const { defaultText, description, unit }: Variable<unknown> = variables[name]
      return `| \`${name}\` | ${defaultText} | ${unit} | ${description} |`
    })
  ].join("\n")
