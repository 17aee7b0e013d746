import { Result, Schema } from "effect"
import { contentLimits, scan } from "../../../domain/json/StrictJson.ts"
import type { CompiledSchema, SchemaFault } from "../../../domain/tasks/CompiledSchema.ts"
import { JsonObject } from "../../../domain/tasks/Dataset.ts"

/** Nesting depth of an answer: the same limit as for a request. */
const MAX_DEPTH = 64

/** Places in a text at which an object is looked for. */
const MAX_PLACES = 16

/** Characters read in this search; a text has four million at most. */
const MAX_READ = 8_000_000

/** Ends the reasoning that some models put before the answer. */
const END_OF_REASONING = "</think>"

const decodeObject = Schema.decodeUnknownResult(Schema.fromJsonString(JsonObject))

/**
 * Finds a model's answer in its text: the text is a JSON object, or there is one object in it that matches the answer schema, such as after
 * reasoning, in a fenced block or within a sentence. Fails with faults, worded so that they can be sent to the model. If several
 * different objects match, nothing says which one is the answer, so that fails too.
 */
export const findAnswer = (
  content: string,
  schema: CompiledSchema
): Result.Result<JsonObject, ReadonlyArray<SchemaFault>> => {
  const whole = check(content, schema)
  if (Result.isSuccess(whole)) return whole
  const start = content.lastIndexOf(END_OF_REASONING)
  const found = [...objectsIn(start === -1 ? content : content.slice(start + END_OF_REASONING.length))].map(
    (text) => ({ text, checked: check(text, schema) })
  )
  const matching = new Map(
    found.flatMap(({ checked }) =>
      Result.isSuccess(checked) ? [[JSON.stringify(checked.success), checked.success] as const] : []
    )
  )
  const [answer, ...others] = matching.values()
  if (answer !== undefined && others.length === 0) return Result.succeed(answer)
  if (answer !== undefined) {
    return Result.fail([{ pointer: "#", detail: "Expected one JSON object, and there are several" }])
  }
  // The faults of the only object say more than that the text around it is not JSON.
  const [only, ...more] = found
  return only === undefined || more.length > 0 ? whole : only.checked
}

const scanAnswer = (text: string) => scan(text, { ...contentLimits, maxDepth: MAX_DEPTH })

/** Parses a text as a JSON object that matches the schema. */
const check = (
  text: string,
  schema: CompiledSchema
): Result.Result<JsonObject, ReadonlyArray<SchemaFault>> => {
  const scanned = scanAnswer(text)
  if (Result.isFailure(scanned)) return Result.fail([scanned.failure])
  const decoded = decodeObject(text)
  if (Result.isFailure(decoded)) return Result.fail([{ pointer: "#", detail: "Expected a JSON object" }])
  const faults = schema.check(decoded.success)
  return faults.length === 0 ? Result.succeed(decoded.success) : Result.fail(faults)
}

/** The outermost JSON objects in a text. */
function* objectsIn(text: string): Generator<string> {
  let at = text.indexOf("{")
  let read = 0
  for (let place = 0; place < MAX_PLACES && at !== -1 && read < MAX_READ; place++) {
    const end = endOfObject(text, at)
    read += (end ?? text.length) - at
    const object = end === undefined ? undefined : text.slice(at, end)
    const isObject =
      object !== undefined && Result.isSuccess(scanAnswer(object)) && Result.isSuccess(decodeObject(object))
    if (isObject) yield object
    at = text.indexOf("{", isObject ? end : at + 1)
  }
}

/** The position after the bracket that closes the one at `start`; brackets in strings do not count. */
const endOfObject = (text: string, start: number): number | undefined => {
  let depth = 0
  let isString = false
  for (let at = start; at < text.length; at++) {
    const character = text[at]
    if (isString) {
      if (character === "\\") at++
      else if (character === '"') isString = false
    } else if (character === '"') isString = true
    else if (character === "{") depth++
    else if (character === "}" && --depth === 0) return at + 1
  }
  return undefined
}
