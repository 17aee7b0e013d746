import type { Schema } from "effect"
import { isSecretField } from "./Redaction/findAssignments.ts"
import { KnownValues } from "./Redaction/KnownValues.ts"
import { findSecrets } from "./Redaction/findSecrets.ts"
import { replaceRanges } from "./Redaction/TextRange.ts"
import { formatPointer } from "../tasks/CompiledSchema/SchemaFault.ts"

export { KnownValues } from "./Redaction/KnownValues.ts"

/** What stands where a secret stood. */
export const REDACTED = "[REDACTED]"

/** The most values, at any depth, that a redaction walks through. */
export const MAX_NODES = 100_000
/** The most characters of a text that it searches. */
export const MAX_TEXT = 256 * 1024
/** The most places that are named. */
const MAX_POINTERS = 20
/** How often a text is searched until nothing more is found in it. Past that nothing is left of it. */
const MAX_PASSES = 4

/** No secrets are known but those that say by themselves what they are. */
export const noKnownValues = new KnownValues([])

/** A value that is too large to be searched, and the place where. */
export interface Unsearchable {
  readonly _tag: "Unsearchable"
  readonly pointer: string
  readonly detail: string
}

/** A value without secrets. */
export interface Redaction {
  readonly _tag: "Redaction"
  readonly value: Schema.Json
  /** JSON Pointers of the fields that something was removed from, the first 20. None: the value is what it was. */
  readonly pointers: ReadonlyArray<string>
  /** How many fields there are in all. */
  readonly count: number
}

/**
 * Removes secrets from a value: those that are known, and those that can be recognized by their form. What a field is called decides
 * nothing: under `token` or `session` an ordinary value stays, and only a token that looks drawn by a machine goes. Names of members
 * are searched like values, and numbers for what is known. A second pass changes nothing. Takes time linear in the value's size: some
 * 50 ns a character, 1 µs where a text is made to cost. Of a large value, `cleaned` may hold texts that were searched before, with
 * pauses in between.
 */
export const redact = (
  value: Schema.Json,
  known: KnownValues,
  at = "#",
  cleaned?: ReadonlyMap<string, string>
): Redaction | Unsearchable => {
  const walk = new RedactionWalk(known, at, cleaned)
  const result = walk.value(value, undefined)
  if (walk.tooLarge !== undefined) return walk.tooLarge
  return {
    _tag: "Redaction",
    value: walk.count === 0 ? value : result,
    pointers: walk.pointers,
    count: walk.count
  }
}

/** The texts of a value, names included, each once and as far as it is searched: so that each can be searched by itself. */
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
      // One by one: as arguments of a call a long list is more than the stack holds.
      for (const inner of Object.values(next)) {
        if (left.length === MAX_NODES) break
        left.push(inner)
      }
    }
  }
  return texts
}

/** A text without secrets. Of one that is longer than is searched nothing is left. */
export const redactText = (text: string, known: KnownValues): string => {
  if (text.length > MAX_TEXT) return REDACTED
  let clean = text
  for (let pass = 0; pass < MAX_PASSES; pass++) {
    const found = findSecrets(clean, known)
    if (found.length === 0) return clean
    clean = replaceRanges(clean, found, REDACTED)
  }
  return REDACTED
}

class RedactionWalk {
  count = 0
  readonly pointers: Array<string> = []
  #latest = ""
  readonly #place: Array<string> = []
  readonly #names = new Map<string, string>()
  readonly #known: KnownValues
  readonly #at: string
  readonly #cleaned: ReadonlyMap<string, string> | undefined
  #nodes = 0
  tooLarge: Unsearchable | undefined

  constructor(known: KnownValues, at: string, cleaned: ReadonlyMap<string, string> | undefined) {
    this.#known = known
    this.#at = at
    this.#cleaned = cleaned
  }

  value(value: Schema.Json, name: string | undefined): Schema.Json {
    if (this.tooLarge !== undefined) return null
    if (++this.#nodes > MAX_NODES) return this.#refuse(`has more than ${MAX_NODES} parts`, 0)
    if (typeof value === "string") return this.#text(value, name)
    if (typeof value === "number") return this.#number(value)
    if (typeof value !== "object" || value === null) return value
    if (Array.isArray(value)) {
      return value.map((item: Schema.Json, index) => this.#inner(String(index), () => this.value(item, name)))
    }
    const members = new Map<string, Schema.Json>()
    for (const [key, inner] of Object.entries(value)) {
      const clean = this.#cleanName(key)
      const kept = free(members, clean)
      this.#inner(kept, () => {
        if (clean !== key) this.#removed()
        // By the name that it keeps, so that a second pass judges alike.
        members.set(kept, this.value(inner, clean))
      })
    }
    return Object.fromEntries(members)
  }

  /** A credential of digits alone may come as a number. One that is no known value is none. */
  #number(value: number): Schema.Json {
    if (this.#known.find({ text: String(value) }).length === 0) return value
    this.#removed()
    return REDACTED
  }

  #text(text: string, name: string | undefined): string {
    const clean = name !== undefined && isSecretField(name, text) ? REDACTED : this.#clean(text)
    if (clean !== text) this.#removed()
    return clean
  }

  #clean(text: string): string {
    if (text.length > MAX_TEXT) {
      this.#refuse(`has a text of more than ${MAX_TEXT} characters`, this.#place.length)
      return text
    }
    return this.#cleaned?.get(text) ?? redactText(text, this.#known)
  }

  /** The names of a list's objects are the same, over and over. */
  #cleanName(name: string): string {
    const known = this.#names.get(name)
    if (known !== undefined) return known
    const clean = this.#clean(name)
    this.#names.set(name, clean)
    return clean
  }

  #refuse(detail: string, depth: number): null {
    this.tooLarge ??= {
      _tag: "Unsearchable",
      pointer: formatPointer(this.#at, this.#place.slice(0, depth)),
      detail
    }
    return null
  }

  #inner<A>(token: string, inner: () => A): A {
    this.#place.push(token)
    const result = inner()
    this.#place.pop()
    return result
  }

  /** Counts places: a member whose name and value both go is one. */
  #removed(): void {
    const pointer = formatPointer(this.#at, this.#place)
    if (pointer === this.#latest) return
    this.#latest = pointer
    this.count++
    if (this.pointers.length < MAX_POINTERS && !this.pointers.includes(pointer)) this.pointers.push(pointer)
  }
}

/** The name, or where another member has it, one beside it. */
const free = (members: ReadonlyMap<string, unknown>, name: string): string => {
  if (!members.has(name)) return name
  // From the number of members on, so that many of one name find theirs at once.
  for (let number = members.size + 1; ; number++)
    if (!members.has(`${name} ${number}`)) return `${name} ${number}`
}
