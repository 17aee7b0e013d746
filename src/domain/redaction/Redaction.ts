import type { Schema } from "effect"
import { isSecretField } from "./Redaction/findAssignments.ts"
import { KnownValues } from "./Redaction/KnownValues.ts"
import { isOpaque } from "./Redaction/opaque.ts"
import { REDACTED } from "./Redaction/mark.ts"
import { findSecrets, isOrdinary } from "./Redaction/findSecrets.ts"
import { mergeRanges, replaceRanges, type TextRange } from "./Redaction/TextRange.ts"
import { textWindows } from "./Redaction/textWindows.ts"
import { formatPointer } from "../tasks/CompiledSchema/SchemaFault.ts"

export { KnownValues } from "./Redaction/KnownValues.ts"

export { REDACTED } from "./Redaction/mark.ts"

export { containsCredential } from "./Redaction/containsCredential.ts"

/** Maximum number of values that a redaction visits, at any depth. */
export const MAX_NODES = 100_000
/** Maximum number of reported places. */
const MAX_POINTERS = 20
/**
 * Maximum number of searches of one string until nothing more is found. A string that still contains secrets then is replaced as a whole.
 */
const MAX_PASSES = 4

/** Length of a text from which a search yields to other work. */
const LONG_TEXT = 64 * 1024

/** No known values: only secrets with a recognizable format are found. */
export const noKnownValues = new KnownValues([])

/** A value with too many members to be searched, with the place of the excess. */
export interface Unsearchable {
  readonly _tag: "Unsearchable"
  readonly pointer: string
  readonly detail: string
}

/** A redacted value. */
export interface Redaction {
  readonly _tag: "Redaction"
  readonly value: Schema.Json
  /** JSON Pointers of the redacted fields, the first 20. Empty: the value is unchanged. */
  readonly pointers: ReadonlyArray<string>
  /** Number of redacted fields, including unreported ones. */
  readonly count: number
}

/**
 * Removes secrets from a value: known values, secrets with a recognizable format, and matches of the organization's
 * policy. A field's name alone decides nothing: an ordinary value under `token` or `session` stays, a random-looking
 * token is removed. Member names are searched like values, and numbers for known values. Redacting a redacted value
 * changes nothing. Linear in the value's size: about 50 ns per character, 1 µs in adversarial texts. For a large value,
 * `redactedTexts` may contain strings that were redacted before, so that the caller can yield to other work in between.
 */
export const redact = (
  value: Schema.Json,
  known: KnownValues,
  at = "#",
  redactedTexts?: ReadonlyMap<string, string>
): Redaction | Unsearchable => {
  const walk = new RedactionWalk(known, at, redactedTexts, MAX_NODES)
  const redaction = walk.redact(value)
  return walk.unsearchable ?? redaction
}

/** Redacts a value that was accepted before, however many values it contains. */
export const redactStored = (
  value: Schema.Json,
  known: KnownValues,
  at: string,
  redactedTexts: ReadonlyMap<string, string>
): Redaction => new RedactionWalk(known, at, redactedTexts, Number.POSITIVE_INFINITY).redact(value)

/**
 * Returns the distinct strings of a value, including member names, that a redaction visits: so that each can be redacted
 * separately.
 */
export const collectTexts = (value: Schema.Json): ReadonlySet<string> => {
  const texts = new Set<string>()
  const left: Array<Schema.Json> = [value]
  for (
    let nodes = 0, next = left.pop();
    next !== undefined && nodes < MAX_NODES;
    nodes++, next = left.pop()
  ) {
    if (typeof next === "string") texts.add(next)
    else if (typeof next === "object" && next !== null) {
      if (!Array.isArray(next)) for (const name of Object.keys(next)) texts.add(name)
      // One by one: a long list as call arguments would overflow the stack.
      for (const inner of Object.values(next)) {
        if (left.length === MAX_NODES) break
        left.push(inner)
      }
    }
  }
  return texts
}

/** Redacts a string of any length. */
export const redactText = (text: string, known: KnownValues): string => {
  if (known.policy.isEmpty && isOrdinary(text, known)) return text
  const steps = redactInSteps(text, known)
  for (;;) {
    const step = steps.next()
    if (step.done === true) return step.value
  }
}

/**
 * Redacts a string of any length. Yields often, so that the caller can yield to other work: a step takes some milliseconds
 * at most.
 */
export function* redactInSteps(text: string, known: KnownValues): Generator<void, string> {
  let clean = text
  for (let pass = 0; pass < MAX_PASSES; pass++) {
    const found: Array<TextRange> = []
    const windows = textWindows(clean)
    for (const { end, start } of windows) {
      if (start > 0) yield
      const part = windows.length === 1 ? clean : clean.slice(start, end)
      for (const range of yield* findSecrets(part, known)) {
        found.push({ start: range.start + start, end: range.end + start })
      }
    }
    const own = yield* known.policy.find(clean)
    const ranges = (yield* withRepeats(clean, mergeRanges([...found, ...own]))).filter(
      (range) => !isException(clean, range, known)
    )
    if (ranges.length === 0) return clean
    clean = replaceRanges(clean, ranges, REDACTED)
  }
  return REDACTED
}

/**
 * Maximum number of values whose further occurrences are searched for, and of occurrences found. A text with more is
 * redacted as a whole.
 */
const MAX_REPEATED = 64
const MAX_REPEATS = 100_000

/**
 * Adds the further occurrences of each found credential, whose context may identify it in one place only. Yields after
 * each value.
 */
function* withRepeats(
  text: string,
  ranges: ReadonlyArray<TextRange>
): Generator<void, ReadonlyArray<TextRange>> {
  const values = new Set<string>()
  for (const { end, start } of ranges) {
    if (values.size === MAX_REPEATED) break
    // A range may end in the line break across which it was found.
    const value = text.slice(start, end).trim()
    if (isOpaque(value)) values.add(value)
  }
  const repeats: Array<TextRange> = []
  for (const value of values) {
    for (let at = text.indexOf(value); at !== -1; at = text.indexOf(value, at + value.length)) {
      repeats.push({ start: at, end: at + value.length })
      if (repeats.length > MAX_REPEATS) return [{ start: 0, end: text.length }]
    }
    if (text.length > LONG_TEXT) yield
  }
  return repeats.length > values.size ? mergeRanges([...ranges, ...repeats]) : ranges
}

/** Whether a value stays by an exception of the organization, which never covers a known secret. */
const isException = (text: string, { end, start }: TextRange, known: KnownValues): boolean => {
  const value = text.slice(start, end)
  return known.policy.isException(value) && known.find({ text: value }).length === 0
}

class RedactionWalk {
  count = 0
  readonly pointers: Array<string> = []
  #latest = ""
  readonly #place: Array<string> = []
  readonly #names = new Map<string, string>()
  readonly #known: KnownValues
  readonly #at: string
  readonly #redactedTexts: ReadonlyMap<string, string> | undefined
  readonly #maxNodes: number
  #nodes = 0
  unsearchable: Unsearchable | undefined

  constructor(
    known: KnownValues,
    at: string,
    redactedTexts: ReadonlyMap<string, string> | undefined,
    maxNodes: number
  ) {
    this.#maxNodes = maxNodes
    this.#known = known
    this.#at = at
    this.#redactedTexts = redactedTexts
  }

  redact(value: Schema.Json): Redaction {
    const result = this.value(value, undefined)
    return {
      _tag: "Redaction",
      value: this.count === 0 ? value : result,
      pointers: this.pointers,
      count: this.count
    }
  }

  value(value: Schema.Json, name: string | undefined): Schema.Json {
    if (this.unsearchable !== undefined) return null
    if (++this.#nodes > this.#maxNodes) return this.#stopSearch(`has more than ${this.#maxNodes} values`, 0)
    if (typeof value === "string") return this.#text(value, name)
    if (typeof value === "number") return this.#number(value, name)
    if (typeof value !== "object" || value === null) return value
    if (Array.isArray(value)) {
      return value.map((item: Schema.Json, index) => this.#visit(String(index), () => this.value(item, name)))
    }
    const members = new Map<string, Schema.Json>()
    const entries = Object.entries<Schema.Json>(value)
    const pairName = pairNameOf(entries)
    for (const [key, inner] of entries) {
      const clean = this.#cleanName(key)
      const kept = freeName(members, clean)
      this.#visit(kept, () => {
        if (clean !== key) this.#countField()
        // Classified by the redacted name, so that a second redaction has the same result.
        members.set(kept, this.value(inner, valueMembers.has(clean) ? (pairName ?? name ?? clean) : clean))
      })
    }
    return Object.fromEntries(members)
  }

  /** A credential of digits alone may arrive as a number. Only known values, the organization's own patterns and personal data count as one. */
  #number(value: number, name: string | undefined): Schema.Json {
    const text = String(value)
    if (
      !this.#isPersonal(name, text) &&
      this.#known.find({ text }).length === 0 &&
      (this.#known.policy.isEmpty || this.#clean(text) === text)
    ) {
      return value
    }
    this.#countField()
    return REDACTED
  }

  #text(text: string, name: string | undefined): string {
    const isSecret =
      name !== undefined &&
      (isSecretField(name, text) || this.#isPersonal(name, text)) &&
      !isException(text, { start: 0, end: text.length }, this.#known)
    const clean = isSecret ? REDACTED : this.#clean(text)
    if (clean !== text) this.#countField()
    return clean
  }

  #isPersonal(name: string | undefined, text: string): boolean {
    return (
      name !== undefined &&
      this.#known.policy.isPersonalField(name, text) &&
      !this.#known.policy.isException(text)
    )
  }

  #clean(text: string): string {
    return this.#redactedTexts?.get(text) ?? redactText(text, this.#known)
  }

  /** Cached: the objects of a list repeat the same names. */
  #cleanName(name: string): string {
    const known = this.#names.get(name)
    if (known !== undefined) return known
    const clean = this.#clean(name)
    this.#names.set(name, clean)
    return clean
  }

  #stopSearch(detail: string, depth: number): null {
    this.unsearchable ??= {
      _tag: "Unsearchable",
      pointer: formatPointer(this.#at, this.#place.slice(0, depth)),
      detail
    }
    return null
  }

  #visit<A>(token: string, inner: () => A): A {
    this.#place.push(token)
    const result = inner()
    this.#place.pop()
    return result
  }

  /** Counts fields: a member whose name and value are both redacted counts once. */
  #countField(): void {
    const pointer = formatPointer(this.#at, this.#place)
    if (pointer === this.#latest) return
    this.#latest = pointer
    this.count++
    if (this.pointers.length < MAX_POINTERS && !this.pointers.includes(pointer)) this.pointers.push(pointer)
  }
}

/** Members that name a value, and members that contain it. */
const nameMembers = ["name", "key", "label", "field", "element", "selector"]
const valueMembers = new Set(["value", "text"])

/** Maximum length of a selector whose end is inspected. */
const MAX_SELECTOR = 128

/**
 * The name that an object gives to its member `value` or `text`: `{ "name": "DB_PASSWORD", "value": … }`, also in a tool call that fills in a browser's
 * form: `{ "element": "Password field", "text": … }`, `{ "selector": "input[type=password]", "text": … }`.
 */
const pairNameOf = (entries: ReadonlyArray<readonly [string, Schema.Json]>): string | undefined => {
  if (!entries.some(([member]) => valueMembers.has(member))) return undefined
  const name = nameMembers
    .map((member) => entries.find(([other]) => other === member)?.[1])
    .find((value) => typeof value === "string")
  return name?.slice(-MAX_SELECTOR).replace(/(?: (?:field|input|box|textbox))?[^\p{L}\p{N}]{0,8}$/iu, "")
}

/** Returns the name, or a free variant of it if another member has it. */
const freeName = (members: ReadonlyMap<string, unknown>, name: string): string => {
  if (!members.has(name)) return name
  // Starts at the number of members, so that many members of one name find a free variant immediately.
  for (let number = members.size + 1; ; number++)
    if (!members.has(`${name} ${number}`)) return `${name} ${number}`
}
