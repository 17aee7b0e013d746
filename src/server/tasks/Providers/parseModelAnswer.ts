import { Effect, Option, Result, Schema } from "effect"
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

const WHITE_SPACE = " \t\n\r"

/** A text that may be a JSON string. */
const QUOTED = /^\s*"/u

const decodeString = Schema.decodeUnknownOption(Schema.fromJsonString(Schema.String))

const decodeObject = Schema.decodeUnknownResult(Schema.fromJsonString(JsonObject))

/** A model's answer. */
export interface FoundAnswer {
  readonly answer: JsonObject
  /** Whether the text is more than the answer, or its JSON is damaged. */
  readonly repaired: boolean
}

type Found<A = JsonObject> = Result.Result<A, ReadonlyArray<SchemaFault>>

/**
 * Finds a model's answer in its text. The text is a JSON object, or one object in it matches the answer schema, such as after reasoning, in
 * a fenced block, within a sentence, or within a JSON string. Commas after the last member or item are left out. Fails with faults, worded
 * so that they can be sent to the model. If several different objects match, nothing says which one is the answer, so that fails too. A
 * long text is read in steps, between which other requests get a turn.
 */
export const parseModelAnswer = (
  content: string,
  schema: CompiledSchema
): Effect.Effect<FoundAnswer, ReadonlyArray<SchemaFault>> =>
  Effect.flatMap(runInSteps(content.length, findInSteps(content, schema)), Effect.fromResult)

function* findInSteps(content: string, schema: CompiledSchema): Steps<Found<FoundAnswer>> {
  const check = (object: JsonObject): Found => {
    const faults = schema.check(object)
    return faults.length === 0 ? Result.succeed(object) : Result.fail(faults)
  }
  const marked =
    (repaired: boolean) =>
    (answer: JsonObject): FoundAnswer => ({ answer, repaired })
  let whole = Result.flatMap(yield* parseInSteps(content), check)
  if (Result.isSuccess(whole)) return Result.map(whole, marked(false))
  yield
  const start = content.lastIndexOf(END_OF_REASONING)
  const text = start === -1 ? content : content.slice(start + END_OF_REASONING.length)
  if (start !== -1) {
    whole = Result.flatMap(yield* parseInSteps(text), check)
    if (Result.isSuccess(whole)) return Result.map(whole, marked(false))
    yield
  }
  const found: Array<Found> = []
  const matching = new Map<string, JsonObject>()
  for (const steps = objectsIn(unquote(text)); ;) {
    const next = steps.next()
    if (next.done === true) break
    yield
    if (next.value === undefined) continue
    const checked = check(next.value)
    found.push(checked)
    if (Result.isSuccess(checked)) matching.set(JSON.stringify(checked.success), checked.success)
  }
  const [answer, ...others] = matching.values()
  if (answer !== undefined && others.length === 0) return Result.succeed(marked(true)(answer))
  if (answer !== undefined) {
    return Result.fail([{ pointer: "#", detail: "Expected one JSON object, and there are several" }])
  }
  // The faults of the only object say more than that the text around it is not JSON.
  const [only, ...more] = found
  return Result.map(only === undefined || more.length > 0 ? whole : only, marked(true))
}

/** The text of a JSON string that the whole text is; any other text as it is. */
const unquote = (text: string): string =>
  Option.getOrElse(QUOTED.test(text) ? decodeString(text) : Option.none(), () => text)

/** Parses a text as a JSON object. */
function* parseInSteps(text: string): Steps<Found> {
  const scanned = yield* scanInSteps(text, { ...contentLimits, maxDepth: MAX_DEPTH })
  if (Result.isFailure(scanned)) return Result.fail([scanned.failure])
  yield
  return Result.mapError(decodeObject(text), () => [{ pointer: "#", detail: "Expected a JSON object" }])
}

/** Parses a text as a JSON object, also with commas after the last members and items. */
function* parseDamaged(text: string): Steps<Found> {
  const parsed = yield* parseInSteps(text)
  if (Result.isSuccess(parsed)) return parsed
  const plain = withoutLastCommas(text)
  if (plain === text) return parsed
  yield
  return yield* parseInSteps(plain)
}

/** The text without commas after the last member or item. Those in strings stay. */
const withoutLastCommas = (text: string): string => {
  let plain = ""
  let from = 0
  let comma: number | undefined
  let isString = false
  for (let at = 0; at < text.length; at++) {
    const character = text[at]
    if (isString) {
      if (character === "\\") at++
      else if (character === '"') isString = false
    } else if (character === ",") comma = at
    else if (character === "}" || character === "]") {
      if (comma !== undefined) {
        plain += text.slice(from, comma)
        from = comma + 1
      }
      comma = undefined
    } else if (character === undefined || !WHITE_SPACE.includes(character)) {
      comma = undefined
      isString = character === '"'
    }
  }
  return plain + text.slice(from)
}

/** The outermost JSON objects in a text. `undefined` is a pause. */
function* objectsIn(text: string): Generator<JsonObject | undefined, void> {
  let at = text.indexOf("{")
  let read = 0
  for (let place = 0; place < MAX_PLACES && at !== -1 && read < MAX_READ; place++) {
    const end = endOfObject(text, at)
    read += (end ?? text.length) - at
    yield
    const object = end === undefined ? undefined : yield* parseDamaged(text.slice(at, end))
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
