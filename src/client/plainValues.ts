/** Conversion between the contract's types and plain JavaScript values. */
import { DateTime, Option, Schema, SchemaAST } from "effect"
import type { HttpApiEndpoint } from "effect/http-api"
import { Timestamp } from "../domain/Time.ts"
import type { PlainOutput } from "./Call.ts"

/** Converts times in an output to `Date`. JSON of the caller's own contains none and is unchanged. */
export const toPlainOutput = <A>(answer: A): PlainOutput<A> =>
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- `PlainOutput` states for the type what `mapLeaves` does to the value
  mapLeaves((leaf) => (DateTime.isDateTime(leaf) ? DateTime.toDateUtc(leaf) : leaf))(answer) as PlainOutput<A>

/** Converts the times in a problem's members, such as its approval, to `Date`. */
export const toPlainProblem = (error: unknown): unknown =>
  error instanceof Error && "code" in error
    ? Object.assign(error, toPlainOutput(Object.fromEntries(Object.entries(error))))
    : error

/**
 * Returns the conversion of an operation's input: every `Date`, and every string in a time field of its query or body. Invalid times are
 * left for the contract's schema to reject.
 */
export const inputReader = (endpoint: HttpApiEndpoint.Top): ((input: object) => object) => {
  const payload = [...endpoint.payload.values()].flatMap(({ schemas }) => schemas)
  const times = new Set([endpoint.query, ...payload].flatMap(timesOf))
  const read = mapLeaves((leaf) =>
    leaf instanceof Date && !Number.isNaN(leaf.getTime()) ? DateTime.fromDateUnsafe(leaf) : leaf
  )
  const readPart = (part: unknown) =>
    isPlain(part)
      ? mapValues(part, (value, name) =>
          times.has(name) && typeof value === "string" ? fromText(value) : read(value)
        )
      : part
  return (input) => mapValues({ ...input }, readPart)
}

/** Returns the names of the time fields of a query or body. They are top-level fields in every operation. */
const timesOf = (part: Schema.Top | undefined): ReadonlyArray<PropertyKey> => {
  const ast = part && SchemaAST.toType(part.ast)
  if (ast === undefined || !SchemaAST.isObjects(ast)) return []
  return ast.propertySignatures
    .filter(({ type }) => {
      const fits = Schema.is(Schema.make(type))
      return fits(anyTime) && !fits({})
    })
    .map(({ name }) => name)
}

const anyTime = DateTime.makeUnsafe(0)

const decodeTime = Schema.decodeOption(Timestamp)

const fromText = (text: string): unknown => Option.getOrElse(decodeTime(text), () => text)

/** Maps every value that is neither an array nor a plain object, at any depth. */
const mapLeaves = (change: (leaf: unknown) => unknown): ((value: unknown) => unknown) => {
  const walk = (value: unknown): unknown => {
    if (Array.isArray(value)) return value.map(walk)
    return isPlain(value) ? mapValues(value, walk) : change(value)
  }
  return walk
}

const isPlain = (value: unknown): value is Readonly<Record<string, unknown>> => {
  if (typeof value !== "object" || value === null) return false
  const prototype: unknown = Object.getPrototypeOf(value)
  return prototype === Object.prototype || prototype === null
}

const mapValues = (
  record: Readonly<Record<string, unknown>>,
  change: (value: unknown, name: string) => unknown
): Record<string, unknown> =>
  Object.fromEntries(Object.entries(record).map(([name, value]) => [name, change(value, name)]))
