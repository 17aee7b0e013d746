/** Checks and converts the values of requests and responses by the generated table. */
import { nearestName } from "../../domain/nearestName.ts"
import { shapes } from "./generated/operationTable.ts"

/**
 * The shape of a value:
 *
 * - Text: `string`, or the prefix of an identifier, such as `ses_`.
 * - `number`, `boolean`, `null`, `time` (RFC 3339 on the wire, a `Date` in code), `json` (any JSON) and `object` (any JSON object).
 * - The name of a shared shape, with an initial capital.
 * - `["is", values]` one of these values, `["or", shapes]` one of these shapes, `["list", item]`, `["record", value]`.
 * - An object of fields. Fields that end in `?` may be absent.
 */
export type Shape =
  | string
  | readonly ["is", ReadonlyArray<string | number | boolean | null>]
  | readonly ["or", ReadonlyArray<Shape>]
  | readonly ["list" | "record", Shape]
  | Fields

/** The fields of an object. The name of one that may be absent ends in `?`. */
export interface Fields {
  readonly [field: string]: Shape
}

/** One operation of the table. */
export interface OperationEntry {
  readonly method: string
  /** The path with its variables: `/v1/agent-sessions/:id`. */
  readonly path: string
  readonly params?: Shape
  readonly query?: Shape
  readonly headers?: Shape
  readonly payload?: Shape
  /** Whether the client adds an `idempotency-key`. */
  readonly idempotent?: true
  /** The status of success. */
  readonly status: number
  /** The shape of the response, or of each of its lines. */
  readonly json?: Shape
  readonly lines?: Shape
  /** The member of a page that holds its items. */
  readonly items?: string
}

/** A value that does not have its shape. */
export class Mismatch {
  /** JSON Pointer to the value, in URI fragment form. */
  readonly pointer: string
  /** The fault. Never contains the value. */
  readonly detail: string

  constructor(pointer: string, detail: string) {
    this.pointer = pointer
    this.detail = detail
  }
}

/** The form that a value is converted to: of a request, or of a response. */
type Form = "request" | "response"

/** Returns a request's value as it is sent; throws a {@link Mismatch}. Lengths and patterns are left to the service. */
export const toWire = (shape: Shape, value: unknown, pointer = "#"): unknown =>
  convert("request", shape, value, pointer)

/** Returns a response's value with times as `Date`, without unknown members; throws a {@link Mismatch}. */
export const fromWire = (shape: Shape, value: unknown, pointer = "#"): unknown =>
  convert("response", shape, value, pointer)

/** {@link fromWire} for an object of these fields. */
export const fieldsFromWire = (fields: Fields, value: unknown): Readonly<Record<string, unknown>> =>
  struct("response", fields, value, "#")

const convert = (form: Form, shape: Shape, value: unknown, pointer: string): unknown => {
  if (typeof shape === "string") {
    const shared = shapes[shape]
    return shared === undefined ? scalar(form, shape, value, pointer) : convert(form, shared, value, pointer)
  }
  if (!isTagged(shape)) return struct(form, shape, value, pointer)
  switch (shape[0]) {
    case "is": {
      const [, values] = shape
      if (values.some((known) => known === value)) return value
      throw new Mismatch(pointer, `Expected ${values.map((known) => JSON.stringify(known)).join(" or ")}`)
    }
    case "or":
      return union(form, shape[1], value, pointer)
    case "list": {
      if (!Array.isArray(value)) throw new Mismatch(pointer, "Expected an array")
      return value.map((item: unknown, index) => convert(form, shape[1], item, `${pointer}/${index}`))
    }
    case "record": {
      if (!isRecord(value)) throw new Mismatch(pointer, "Expected an object")
      const entries = Object.entries(value).filter(([, member]) => member !== undefined)
      return Object.fromEntries(
        entries.map(([name, member]) => [name, convert(form, shape[1], member, `${pointer}/${escape(name)}`)])
      )
    }
  }
}

const isTagged = (shape: Exclude<Shape, string>): shape is Extract<Shape, ReadonlyArray<unknown>> =>
  Array.isArray(shape)

const isRecord = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === "object" && value !== null && !Array.isArray(value)

/** Escapes a member's name for a JSON Pointer. A lone surrogate has no percent-encoding. */
const escape = (name: string): string =>
  encodeURIComponent(
    name
      .replaceAll(/\p{Surrogate}/gu, "\u{fffd}")
      .replaceAll("~", "~0")
      .replaceAll("/", "~1")
  )

const fieldName = (field: string): string => (field.endsWith("?") ? field.slice(0, -1) : field)

/** Throws a {@link Mismatch} for a member that is not known: it would not be sent. */
export const refuseUnknown = (
  names: ReadonlyArray<string>,
  value: Readonly<Record<string, unknown>>,
  pointer: string
): void => {
  for (const [name, member] of Object.entries(value)) {
    if (member === undefined || names.includes(name)) continue
    const nearest = nearestName(name, names)
    const hint = nearest === undefined ? "" : `; did you mean ${nearest}?`
    throw new Mismatch(`${pointer}/${escape(name)}`, `Is not a member${hint}`)
  }
}

const struct = (form: Form, fields: Fields, value: unknown, pointer: string): Record<string, unknown> => {
  if (!isRecord(value)) throw new Mismatch(pointer, "Expected an object")
  if (form === "request") refuseUnknown(Object.keys(fields).map(fieldName), value, pointer)
  const result: Record<string, unknown> = {}
  for (const [field, shape] of Object.entries(fields)) {
    const name = fieldName(field)
    const member = Object.hasOwn(value, name) || form === "request" ? value[name] : undefined
    if (member !== undefined) result[name] = convert(form, shape, member, `${pointer}/${name}`)
    else if (name === field) throw new Mismatch(`${pointer}/${name}`, "Is missing")
  }
  return result
}

/** The first shape that the value has. If it has none, the mismatch is that of the shape which it has most of. */
const union = (form: Form, members: ReadonlyArray<Shape>, value: unknown, pointer: string): unknown => {
  let deepest = new Mismatch(pointer, "Unexpected value")
  for (const [index, shape] of members.entries()) {
    try {
      return convert(form, shape, value, pointer)
    } catch (error) {
      if (!(error instanceof Mismatch)) throw error
      if (index === 0 || error.pointer.length > deepest.pointer.length) deepest = error
    }
  }
  throw deepest
}

const scalar = (form: Form, shape: string, value: unknown, pointer: string): unknown => {
  const fail = (expected: string): never => {
    throw new Mismatch(pointer, `Expected ${expected}`)
  }
  switch (shape) {
    case "string":
      return typeof value === "string" ? value : fail("a string")
    case "number":
      return typeof value === "number" && Number.isFinite(value) ? value : fail("a number")
    case "boolean":
      return typeof value === "boolean" ? value : fail("a boolean")
    case "null":
      return value === null ? value : fail("null")
    case "time": {
      const time = timeOf(value)
      if (time === undefined) return fail("a time such as 2026-11-21T02:33:05.123Z (RFC 3339)")
      return form === "request" ? time.toISOString() : time
    }
    case "object":
      if (!isRecord(value)) return fail("an object")
      return form === "request" ? toJson(value, pointer, 0) : value
    case "json":
      return form === "request" ? toJson(value, pointer, 0) : value
    default: {
      if (typeof value !== "string") return fail("a string")
      const digits = value.startsWith(shape) ? value.slice(shape.length) : ""
      return form === "response" || /^[0-9a-f]{32}$/.test(digits)
        ? value
        : fail(`an identifier that reads ${shape} and 32 lowercase hex digits`)
    }
  }
}

/** RFC 3339, section 5.6. */
const RFC_3339 = /^(?!0000)\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d{1,9})?([Zz]|[+-]\d\d:\d\d)$/

const timeOf = (value: unknown): Date | undefined => {
  if (value instanceof Date) return Number.isNaN(value.getTime()) ? undefined : value
  if (typeof value !== "string" || !RFC_3339.test(value)) return undefined
  const date = value.slice(0, 10)
  const midnight = new Date(`${date}T00:00:00Z`)
  const time = new Date(value.toUpperCase())
  // `Date` alone would read 30 February as 2 March.
  const isOnCalendar = !Number.isNaN(midnight.getTime()) && midnight.toISOString().startsWith(date)
  return isOnCalendar && !Number.isNaN(time.getTime()) ? time : undefined
}

/** Marks a `Redacted` of Effect. */
const EFFECT_REDACTED = "~effect/Redacted"

/** Deeper nesting than any service accepts, or a cycle. */
const MAX_DEPTH = 500

/** Copies a value as JSON; throws a {@link Mismatch} for what JSON cannot express, instead of dropping it as `JSON.stringify` does. */
const toJson = (value: unknown, pointer: string, depth: number): unknown => {
  if (depth > MAX_DEPTH) throw new Mismatch(pointer, "Nested too deeply, or a cycle")
  switch (typeof value) {
    case "string":
    case "boolean":
      return value
    case "number":
      if (Number.isFinite(value)) return value
      throw new Mismatch(pointer, "Expected a finite number")
    case "object": {
      if (value === null) return null
      // It would be sent as "<redacted>".
      if (EFFECT_REDACTED in value) break
      if (Array.isArray(value)) {
        return value.map((item: unknown, index) => toJson(item, `${pointer}/${index}`, depth + 1))
      }
      const own: unknown = Reflect.get(value, "toJSON")
      if (typeof own === "function") {
        const converted: unknown =
          value instanceof Date ? timeOf(value)?.toISOString() : Reflect.apply(own, value, [])
        return toJson(converted, pointer, depth + 1)
      }
      return Object.fromEntries(
        Object.entries(value)
          .filter(([, member]) => member !== undefined)
          .map(([name, member]) => [name, toJson(member, `${pointer}/${escape(name)}`, depth + 1)])
      )
    }
    default:
      break
  }
  throw new Mismatch(pointer, "Expected JSON")
}
