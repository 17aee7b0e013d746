/** Examples as CSV, with a column for each member of their inputs and answers. */
import { type CsvValue, csvFields } from "../csv.ts"
import type { Example, JsonObject } from "./Dataset.ts"

/** The members of inputs and answers, in the order in which they were first seen. */
export interface CsvColumns {
  readonly input: Set<string>
  readonly answer: Set<string>
}

export const noColumns = (): CsvColumns => ({ input: new Set(), answer: new Set() })

/** Adds the members of an example. Returns the number of columns. */
export const addColumns = (
  columns: CsvColumns,
  { answer, input }: Pick<Example, "answer" | "input">
): number => {
  for (const name of Object.keys(input)) columns.input.add(name)
  for (const name of Object.keys(answer)) columns.answer.add(name)
  return columns.input.size + columns.answer.size
}

/** The first line. */
export const csvHeader = ({ answer, input }: CsvColumns): string =>
  csvFields([
    "id",
    "source_feedback_id",
    ...Array.from(input, (name) => `input.${name}`),
    ...Array.from(answer, (name) => `answer.${name}`)
  ])

/** The line of an example. An absent member and null are empty; an object or an array is JSON. */
export const csvLine = ({ answer, id, input, source_feedback_id }: Example, columns: CsvColumns): string =>
  csvFields([
    id,
    source_feedback_id,
    ...Array.from(columns.input, (name) => memberOf(input, name)),
    ...Array.from(columns.answer, (name) => memberOf(answer, name))
  ])

const memberOf = (object: JsonObject, name: string): CsvValue =>
  Object.hasOwn(object, name) ? (object[name] ?? null) : null
