/** What a statement is given: its text and its parameters, by the names that the text gives them. */
import { PgTypes } from "@effect/sql-pg"

/** A table of parameters: `unnest($1::text[], …) AS alias (columns)`. */
interface ParameterTable {
  readonly columns: ReadonlyArray<string>
  /** The number of each column's parameter. */
  readonly parameters: ReadonlyArray<number>
}

/** What the text of a statement tells, whatever its parameters. */
interface Parsed {
  readonly text: string
  readonly tables: ReadonlyArray<ParameterTable>
  /** Parameters by the column that they are compared with, or inserted into. */
  readonly scalars: ReadonlyMap<string, number>
  /** The columns of `table` between SELECT and FROM, as `table.column`. */
  readonly selected: ReadonlyArray<string>
}

const TABLE = /unnest\( ?((?:\$\d+(?:::\w+\[\])?(?:, )?)+) ?\)(?: AS (\w+)(?: \( ?([^()]*?) ?\))?)?/g
const COMPARISON = /(?:(\w+)\.)?(\w+) (?:=|<=|<|>|>=|=>) \$(\d+)/g
const INSERT = /^INSERT INTO \w+ ?\(([^()]*)\)/
const VALUES = /^INSERT INTO \w+ ?\(("[^()]*)\) VALUES \(([^()]*)\)/i

const numbersOf = (text: string): ReadonlyArray<number> =>
  [...text.matchAll(/\$(\d+)/g)].map(([, number]) => Number(number))

const namesOf = (list: string): ReadonlyArray<string> => list.split(",").map((name) => name.trim())

const parse = (sql: string): Parsed => {
  const text = sql
    .replaceAll(/--[^\n]*/g, " ")
    .replaceAll(/\s+/g, " ")
    .trim()
  const inserted = INSERT.exec(text)?.[1]
  const tables = [...text.matchAll(TABLE)].map(
    ([, parameters = "", alias = "", columns]): ParameterTable => ({
      columns: columns !== undefined ? namesOf(columns) : alias !== "" ? [alias] : namesOf(inserted ?? ""),
      parameters: numbersOf(parameters)
    })
  )
  const scalars = new Map<string, number>()
  for (const [, , column = "", number] of text.matchAll(COMPARISON)) {
    if (!scalars.has(column)) scalars.set(column, Number(number))
  }
  const [, columns, values] = VALUES.exec(text) ?? []
  if (columns !== undefined && values !== undefined) {
    const parameters = numbersOf(values)
    for (const [index, column] of namesOf(columns.replaceAll('"', "")).entries()) {
      scalars.set(column, parameters[index] ?? 0)
    }
  }
  const list = /^SELECT (.*?) FROM /.exec(text)?.[1] ?? ""
  const selected = [...list.matchAll(/\bapprovals\.(\w+)/g)].map(([, column = ""]) => column)
  return { text, tables, scalars, selected }
}

const parsed = new Map<string, Parsed>()

/** One statement with its parameters. */
export class Given {
  readonly #parsed: Parsed
  readonly #parameters: ReadonlyArray<unknown>

  constructor(sql: string, parameters: ReadonlyArray<unknown>) {
    const known = parsed.get(sql) ?? parse(sql)
    parsed.set(sql, known)
    this.#parsed = known
    this.#parameters = parameters
  }

  /** The text in one line, without comments. */
  get text(): string {
    return this.#parsed.text
  }

  /** Whether the text contains a clause: a condition or lock that is missing in the SQL is missing in the model too. */
  says(clause: string): boolean {
    return this.#parsed.text.includes(clause)
  }

  get selected(): ReadonlyArray<string> {
    return this.#parsed.selected
  }

  /** The rows of the table of parameters that has these columns; none if the text has no such table. */
  rows(...columns: ReadonlyArray<string>): ReadonlyArray<GivenRow> {
    const table = this.#parsed.tables.find((one) => columns.every((column) => one.columns.includes(column)))
    if (table === undefined) return []
    const arrays = table.parameters.map((number) => arrayOf(this.#parameters[number - 1]))
    const values = new Map(table.columns.map((column, index) => [column, arrays[index] ?? []]))
    return Array.from({ length: arrays[0]?.length ?? 0 }, (_, index) => new GivenRow(values, index))
  }

  /** The values that are compared with columns, or inserted into them. */
  get scalars(): GivenRow {
    return new GivenRow(
      new Map(
        [...this.#parsed.scalars].map(([column, number]) => [column, [plain(this.#parameters[number - 1])]])
      ),
      0
    )
  }

  /** A parameter by its number, from 1. */
  parameter(number: number): unknown {
    return plain(this.#parameters[number - 1])
  }
}

/** One row of parameters. A value of another type than expected is a fault of the model. */
export class GivenRow {
  readonly #values: ReadonlyMap<string, ReadonlyArray<unknown>>
  readonly #index: number

  constructor(values: ReadonlyMap<string, ReadonlyArray<unknown>>, index: number) {
    this.#values = values
    this.#index = index
  }

  has(column: string): boolean {
    return this.#values.has(column)
  }

  text(column: string): string {
    const value = this.#value(column)
    return typeof value === "string" ? value : mismatch(column, value)
  }

  textOrNull(column: string): string | null {
    return this.#value(column) === null ? null : this.text(column)
  }

  number(column: string): number {
    const value = this.#value(column)
    if (typeof value === "bigint") return Number(value)
    return typeof value === "number" ? value : mismatch(column, value)
  }

  numberOrNull(column: string): number | null {
    return this.#value(column) === null ? null : this.number(column)
  }

  boolean(column: string): boolean {
    const value = this.#value(column)
    return typeof value === "boolean" ? value : mismatch(column, value)
  }

  /** Milliseconds since the Unix epoch. */
  time(column: string): number {
    const value = this.#value(column)
    if (value instanceof Date) return value.getTime()
    return typeof value === "number" ? value : mismatch(column, value)
  }

  timeOrNull(column: string): number | null {
    return this.#value(column) === null ? null : this.time(column)
  }

  #value(column: string): unknown {
    const values = this.#values.get(column)
    if (values === undefined) throw new Error(`The statement is not given ${column}`)
    return values[this.#index]
  }
}

const plain = (value: unknown): unknown => (PgTypes.isParameter(value) ? value.value : value)

const arrayOf = (value: unknown): ReadonlyArray<unknown> => {
  const list: unknown = plain(value)
  return Array.isArray(list) ? list : mismatch("an array", list)
}

const mismatch = (column: string, value: unknown): never => {
  throw new Error(`Unexpected value of ${column}: ${String(value)}`)
}
