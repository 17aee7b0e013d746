/** A JSON value while it is edited. Drafts hold the typed text, also if it is not a value yet. */
import { JsonPointer, Result, type Schema } from "effect"
import { jsonEquals } from "../Diff.tsx"
import { formatJson, parseJson } from "../jsonText.ts"
import { shapeOf } from "./shapeOf.ts"

export type ValueDraft =
  | { readonly kind: "text"; readonly text: string }
  | { readonly kind: "number"; readonly text: string }
  /** `value` is undefined until one is chosen. */
  | { readonly kind: "choice"; readonly value: Schema.Json | undefined }
  | { readonly kind: "null" }
  | { readonly kind: "object"; readonly members: ReadonlyArray<DraftMember> }
  | { readonly kind: "array"; readonly items: ReadonlyArray<ValueDraft> }
  | { readonly kind: "json"; readonly text: string }

export interface DraftMember {
  readonly name: string
  readonly draft: ValueDraft
}

/** Whether a stored value is a draft. */
export const isValueDraft = (value: unknown): value is ValueDraft => {
  if (typeof value !== "object" || value === null || !("kind" in value)) return false
  const member = (name: string): unknown => Reflect.get(value, name)
  switch (value.kind) {
    case "text":
    case "number":
    case "json":
      return typeof member("text") === "string"
    case "choice":
    case "null":
      return true
    case "array": {
      const items = member("items")
      return Array.isArray(items) && items.every(isValueDraft)
    }
    case "object": {
      const members = member("members")
      return (
        Array.isArray(members) &&
        members.every(
          (one: unknown) =>
            typeof one === "object" &&
            one !== null &&
            typeof Reflect.get(one, "name") === "string" &&
            isValueDraft(Reflect.get(one, "draft"))
        )
      )
    }
    default:
      return false
  }
}

/** Why a draft is not a value, and where, as the service names places: a JSON pointer in URI fragment form. */
export interface DraftFault {
  readonly pointer: string
  readonly detail: string
}

/** Beyond these limits a value is edited as JSON: a form of thousands of fields is of no help. */
const MAX_LEVELS = 8
const MAX_FIELDS = 300

/** Makes the draft of a value of a schema. Values that do not have the form that the schema asks for are edited as JSON. */
export const toDraft = (root: Schema.Json, schema: Schema.Json, value: Schema.Json): ValueDraft => {
  const fields = { left: MAX_FIELDS }
  const draft = draftOf(root, schema, value, 0, fields)
  return fields.left < 0 ? jsonDraft(value) : draft
}

const jsonDraft = (value: Schema.Json): ValueDraft => ({ kind: "json", text: formatJson(value) })

const isObject = (value: Schema.Json): value is { readonly [name: string]: Schema.Json } =>
  typeof value === "object" && value !== null && !Array.isArray(value)

const draftOf = (
  root: Schema.Json,
  schema: Schema.Json | undefined,
  value: Schema.Json,
  level: number,
  fields: { left: number }
): ValueDraft => {
  if (--fields.left < 0 || level > MAX_LEVELS || schema === undefined) return jsonDraft(value)
  const { nullable, shape } = shapeOf(root, schema)
  if (value === null && nullable) return { kind: "null" }
  switch (shape.kind) {
    case "text":
      // A text field would change other line breaks.
      return typeof value === "string" && !value.includes("\r")
        ? { kind: "text", text: value }
        : jsonDraft(value)
    case "number":
      return typeof value === "number" ? { kind: "number", text: JSON.stringify(value) } : jsonDraft(value)
    case "choice":
      return shape.options.some((option) => jsonEquals(option, value))
        ? { kind: "choice", value }
        : jsonDraft(value)
    case "object":
      return isObject(value)
        ? {
            kind: "object",
            members: Object.entries(value).map(([name, member]) => ({
              name,
              draft: draftOf(
                root,
                shape.properties.find((one) => one.name === name)?.schema ?? shape.others,
                member,
                level + 1,
                fields
              )
            }))
          }
        : jsonDraft(value)
    case "array":
      return Array.isArray(value)
        ? {
            kind: "array",
            items: value.map((item: Schema.Json) => draftOf(root, shape.item, item, level + 1, fields))
          }
        : jsonDraft(value)
    case "json":
      return jsonDraft(value)
  }
}

/** The draft of a value that was just added: empty, with the required members of objects. */
export const emptyDraft = (root: Schema.Json, schema: Schema.Json | undefined, level = 0): ValueDraft => {
  if (schema === undefined || level > MAX_LEVELS) return { kind: "json", text: "null" }
  const { shape } = shapeOf(root, schema)
  switch (shape.kind) {
    case "text":
    case "number":
      return { kind: shape.kind, text: "" }
    case "choice":
      return { kind: "choice", value: shape.options.length === 1 ? shape.options[0] : undefined }
    case "object":
      return {
        kind: "object",
        members: shape.properties
          .filter(({ required }) => required)
          .map(({ name, schema: property }) => ({ name, draft: emptyDraft(root, property, level + 1) }))
      }
    case "array":
      return { kind: "array", items: [] }
    case "json":
      return { kind: "json", text: "null" }
  }
}

/** The value of a draft, or every fault. `path`: where the value is in the request. */
export const fromDraft = (
  draft: ValueDraft,
  path: ReadonlyArray<string> = []
): Result.Result<Schema.Json, ReadonlyArray<DraftFault>> => {
  const fail = (detail: string) => Result.fail([{ pointer: JsonPointer.formatUriFragment(path), detail }])
  switch (draft.kind) {
    case "text":
      return Result.succeed(draft.text)
    case "null":
      return Result.succeed(null)
    case "number": {
      const text = draft.text.trim()
      return JSON_NUMBER.test(text) && Number.isFinite(Number(text))
        ? Result.succeed(Number(text))
        : fail("Must be a number, such as 12 or 0.5")
    }
    case "choice":
      return draft.value === undefined ? fail("Choose a value") : Result.succeed(draft.value)
    case "json": {
      const parsed = parseJson(draft.text)
      // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- it was parsed from JSON
      return Result.isFailure(parsed) ? fail(parsed.failure) : Result.succeed(parsed.success as Schema.Json)
    }
    case "object": {
      const members = draft.members.map(
        ({ draft: member, name }) => [name, fromDraft(member, [...path, name])] as const
      )
      const faults = members.flatMap(([, member]) => (Result.isFailure(member) ? member.failure : []))
      return faults.length > 0
        ? Result.fail(faults)
        : Result.succeed(
            Object.fromEntries(
              members.flatMap(([name, member]) =>
                Result.isSuccess(member) ? [[name, member.success] as const] : []
              )
            )
          )
    }
    case "array": {
      const items = draft.items.map((item, index) => fromDraft(item, [...path, String(index)]))
      const faults = items.flatMap((item) => (Result.isFailure(item) ? item.failure : []))
      return faults.length > 0
        ? Result.fail(faults)
        : Result.succeed(items.flatMap((item) => (Result.isSuccess(item) ? [item.success] : [])))
    }
  }
}

/** A number as JSON writes it. */
const JSON_NUMBER = /^-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?$/u

/**
 * The faults to show at a field: its own, and those of places in it that have no field, such as a missing member. `hasField` tells which of
 * the members have one.
 */
export const faultsAt = (
  faults: ReadonlyArray<DraftFault>,
  path: ReadonlyArray<string>,
  hasField: (name: string) => boolean
): ReadonlyArray<DraftFault> => {
  const pointer = JsonPointer.formatUriFragment(path)
  return faults.filter((fault) => {
    if (fault.pointer === pointer) return true
    if (!fault.pointer.startsWith(`${pointer}/`)) return false
    const [next = ""] = fault.pointer.slice(pointer.length + 1).split("/")
    return !hasField(decodeFragment(next))
  })
}

const decodeFragment = (token: string): string => {
  try {
    return decodeURIComponent(token).replaceAll("~1", "/").replaceAll("~0", "~")
  } catch {
    return token
  }
}
