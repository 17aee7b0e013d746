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
  /** As it was set; null where it is unset, secret, or wrong: `fault` says then what it is. */
  readonly value: string | null
  /** What is wrong with it: the rest of a sentence whose subject is the variable. Null: nothing. */
  readonly fault: string | null
}

/** Every variable, what it means, and how it stands in the environment given. */
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

/** The table of the README: every variable with its default, unit and meaning, in Markdown. */
export const settingsTable = (): string =>
  [
    "| variable | default | unit | meaning |",
    "| --- | --- | --- | --- |",
    ...variableNames.map((name) => {
      const { defaultText, description, unit }: Variable<unknown> = variables[name]
      return `| \`${name}\` | ${defaultText} | ${unit} | ${description} |`
    })
  ].join("\n")
