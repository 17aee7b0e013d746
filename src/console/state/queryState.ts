/** State of a page in the query of its address: filters, tabs, sorting and selection. */
import { DateTime, Option, Record, Schema, Struct } from "effect"

/** The parameters of a page's address, by name. Each has its state in one text. */
export type QueryFields = Readonly<Record<string, Schema.Codec<unknown, string>>>

/** The state of a page. Undefined: the address has no such parameter, or its value is not valid. */
export type QueryState<Fields extends QueryFields> = {
  readonly [Name in keyof Fields]: Fields[Name]["Type"] | undefined
}

/** The parameters that change; undefined removes one. */
export type QueryChange<Fields extends QueryFields> = {
  readonly [Name in keyof Fields]?: Fields[Name]["Type"] | undefined
}

/** The parameters of a page, with the functions that read and write them. */
export interface QueryDefinition<Fields extends QueryFields> {
  /** Decodes the query of an address. Invalid, repeated and overlong values count as absent, because anybody can write a link. */
  readonly read: (search: string) => QueryState<Fields>
  /** The query with some parameters changed; other parameters stay. Empty, or starting with `?`. */
  readonly write: (search: string, change: QueryChange<Fields>) => string
}

/** The most characters of a parameter that is read. */
const MAX_VALUE_LENGTH = 1_000

/** Defines the parameters of a page. Make it once for each page: its decoders are compiled. */
export const defineQuery = <const Fields extends QueryFields>(fields: Fields): QueryDefinition<Fields> => {
  const codecs = Record.map(fields as QueryFields, (field) => ({
    decode: Schema.decodeUnknownOption(field),
    encode: Schema.encodeUnknownOption(field)
  }))
  const encode = (name: string, value: unknown) => codecs[name]?.encode(value) ?? Option.none<string>()
  return {
    read: (search) => {
      const parameters = new URLSearchParams(search)
      const state = Record.map(codecs, ({ decode }, name) => {
        const [value, ...others] = parameters.getAll(name)
        return value === undefined || others.length > 0 || value.length > MAX_VALUE_LENGTH
          ? undefined
          : Option.getOrUndefined(decode(value))
      })
      // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- each value was decoded by the field of its name
      return state as QueryState<Fields>
    },
    write: (search, change) => {
      const parameters = new URLSearchParams(search)
      for (const name of Struct.keys(change)) {
        const value = change[name]
        const text = value === undefined ? undefined : Option.getOrUndefined(encode(name, value))
        if (text === undefined) parameters.delete(name)
        else parameters.set(name, text)
      }
      return parameters.size === 0 ? "" : `?${parameters.toString()}`
    }
  }
}

/** A text that a person typed: one that is not blank, without NUL, which no list is searched for. */
export const QueryText = Schema.String.check(
  Schema.isMaxLength(200),
  // oxlint-disable-next-line no-control-regex -- NUL is the character that is refused
  Schema.isPattern(/^(?=.*\S)[^\u0000]*$/su)
)

/** A day of the calendar, `2026-01-31`, as a date field gives it, or a day in UTC, `2026-01-31Z`, as the overview counts. */
export const QueryDay = Schema.String.check(
  Schema.isPattern(/^[12][0-9]{3}-[01][0-9]-[0-3][0-9]Z?$/u),
  Schema.makeFilter((day: string) => !Number.isNaN(new Date(`${calendarDay(day)}T00:00`).getTime()))
)

/** Whether a day is one in UTC. */
export const isUtcDay = (day: string): boolean => day.endsWith("Z")

/** A day as a date field shows it: `2026-01-31`. */
export const calendarDay = (day: string): string => day.slice(0, 10)

/** The start of a day, in UTC or in the zone of this device; `later`: of a day so many days later. */
export const startOfDay = (day: string, later = 0): DateTime.Utc => {
  const [year = 0, month = 1, date = 1] = calendarDay(day).split("-").map(Number)
  return DateTime.makeUnsafe(
    isUtcDay(day) ? Date.UTC(year, month - 1, date + later) : new Date(year, month - 1, date + later)
  )
}
