/** Points in time, between the contract's and those of plain JavaScript. */
import { DateTime, Option, Schema, SchemaAST } from "effect"
import type { HttpApiEndpoint } from "effect/http-api"
import { Timestamp } from "../domain/Time.ts"
import type { PlainOutput } from "./Call.ts"

/** An answer with each point in time as a `Date`. JSON of the caller's own holds none, and stays as it is. */
export const toPlainOutput = <A>(answer: A): PlainOutput<A> =>
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- what `Dated` says of the type is done here to the value
  everywhere((leaf) => (DateTime.isDateTime(leaf) ? DateTime.toDateUtc(leaf) : leaf))(
    answer
  ) as PlainOutput<A>

/** A problem whose members, such as the approval that it shows, have their times as `Date`. */
export const toPlainProblem = (error: unknown): unknown =>
  error instanceof Error && "code" in error
    ? Object.assign(error, toPlainOutput(Object.fromEntries(Object.entries(error))))
    : error

/**
 * Reads the input of an operation: each `Date`, and each text that stands where its query or its body has a time. What is none is left
 * for the contract's schema to refuse.
 */
export const inputReader = (endpoint: HttpApiEndpoint.Top): ((input: object) => object) => {
  const payload = [...endpoint.payload.values()].flatMap(({ schemas }) => schemas)
  const times = new Set([endpoint.query, ...payload].flatMap(timesOf))
  const read = everywhere((leaf) =>
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

/** The names under which a part of a request, a query or a body, has times. They stand at its top, wherever there are any. */
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

/** Changes what is neither a list nor a plain object, however deep it lies in these. */
const everywhere = (change: (leaf: unknown) => unknown): ((value: unknown) => unknown) => {
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
