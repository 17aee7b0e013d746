/** Examples as CSV (RFC 4180), with a column for each member of their inputs and answers. */
import type { Schema } from "effect"
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
  toLine([
    "id",
    "source_feedback_id",
    ...Array.from(input, (name) => `input.${name}`),
    ...Array.from(answer, (name) => `answer.${name}`)
  ])

/** The line of an example. An absent member and null are empty; an object or an array is JSON. */
export const csvLine = ({ answer, id, input, source_feedback_id }: Example, columns: CsvColumns): string =>
  toLine([
    id,
    source_feedback_id ?? "",
    ...Array.from(columns.input, (name) => toCell(input, name)),
    ...Array.from(columns.answer, (name) => toCell(answer, name))
  ])

const toCell = (object: JsonObject, name: string): string => {
  const value: Schema.Json = Object.hasOwn(object, name) ? (object[name] ?? null) : null
  if (value === null) return ""
  return typeof value === "string" ? value : JSON.stringify(value)
}

/** The first characters of texts that spreadsheets take for a formula, except of numbers. */
const FORMULA = /^[=+\-@\t\r](?!\d*\.?\d+(?:[eE][+-]?\d+)?$)/

/** Characters that need quotes. */
const SPECIAL = /[",\r\n]/

/** A formula gets an apostrophe, which spreadsheets show as text: an end user may have written the example. */
const toLine = (cells: ReadonlyArray<string>): string =>
  cells
    .map((cell) => (FORMULA.test(cell) ? `'${cell}` : cell))
    .map((cell) => (SPECIAL.test(cell) ? `"${cell.replaceAll('"', '""')}"` : cell))
    .join(",")
