import { Effect, Result, Schema } from "effect"
import { contentLimits } from "../../../domain/json/StrictJson.ts"
import type { CompiledSchema, SchemaFault } from "../../../domain/tasks/CompiledSchema.ts"
import { JsonObject } from "../../../domain/tasks/Dataset.ts"
import { runInSteps, scanInSteps, type Steps } from "./inSteps.ts"

/** Nesting depth of an answer: the same limit as for a request. */
const MAX_DEPTH = 64

/** Places in a text at which an object is looked for. */
const MAX_PLACES = 16

/** Characters read in this search; a text has four million at most. */
const MAX_READ = 8_000_000

/** Ends the reasoning that some models put before the answer. */
const END_OF_REASONING = "</think>"

const decodeObject = Schema.decodeUnknownResult(Schema.fromJsonString(JsonObject))

type Found = Result.Result<JsonObject, ReadonlyArray<SchemaFault>>

/**
 * Finds a model's answer in its text. The text is a JSON object, or one object in it matches the answer schema, such as after reasoning, in
 * a fenced block or within a sentence. Fails with faults, worded so that they can be sent to the model. If several different objects match,
 * nothing says which one is the answer, so that fails too. A long text is read in steps, between which other requests get a turn.
 */
export const findAnswer = (
  content: string,
  schema: CompiledSchema
): Effect.Effect<JsonObject, ReadonlyArray<SchemaFault>> =>
  Effect.flatMap(runInSteps(content.length, findInSteps(content, schema)), Effect.fromResult)

function* findInSteps(content: string, schema: CompiledSchema): Steps<Found> {
  const check = (object: JsonObject): Found => {
    const faults = schema.check(object)
    return faults.length === 0 ? Result.succeed(object) : Result.fail(faults)
  }
  const whole = Result.flatMap(yield* parseInSteps(content), check)
  if (Result.isSuccess(whole)) return whole
  yield
  const start = content.lastIndexOf(END_OF_REASONING)
  const found: Array<Found> = []
  const matching = new Map<string, JsonObject>()
  const text = start === -1 ? content : content.slice(start + END_OF_REASONING.length)
  for (const steps = objectsIn(text); ;) {
    const next = steps.next()
    if (next.done === true) break
    yield
    if (next.value === undefined) continue
    const checked = check(next.value)
    found.push(checked)
    if (Result.isSuccess(checked)) matching.set(JSON.stringify(checked.success), checked.success)
  }
  const [answer, ...others] = matching.values()
  if (answer !== undefined && others.length === 0) return Result.succeed(answer)
  if (answer !== undefined) {
    return Result.fail([{ pointer: "#", detail: "Expected one JSON object, and there are several" }])
  }
  // The faults of the only object say more than that the text around it is not JSON.
  const [only, ...more] = found
  return only === undefined || more.length > 0 ? whole : only
}

/** Parses a text as a JSON object. */
function* parseInSteps(text: string): Steps<Found> {
  const scanned = yield* scanInSteps(text, { ...contentLimits, maxDepth: MAX_DEPTH })
  if (Result.isFailure(scanned)) return Result.fail([scanned.failure])
  yield
  return Result.mapError(decodeObject(text), () => [{ pointer: "#", detail: "Expected a JSON object" }])
}

/** The outermost JSON objects in a text. `undefined` is a pause. */
function* objectsIn(text: string): Generator<JsonObject | undefined, void> {
  let at = text.indexOf("{")
  let read = 0
  for (let place = 0; place < MAX_PLACES && at !== -1 && read < MAX_READ; place++) {
    const end = endOfObject(text, at)
    read += (end ?? text.length) - at
    yield
    const object = end === undefined ? undefined : yield* parseInSteps(text.slice(at, end))
    const isObject = object !== undefined && Result.isSuccess(object)
    if (isObject) yield object.success
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
