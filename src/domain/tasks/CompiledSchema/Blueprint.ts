import { Predicate, Result, type Schema } from "effect"
import { formatPointer, type SchemaFault } from "./SchemaFault.ts"
import { definitions, inPlace, kindOf, misjudged, refused, walking } from "./Keywords.ts"
import { compilePattern, type LinearPattern } from "./LinearPattern.ts"

/** Limits of a schema. Its text is measured in UTF-8. */
export const MAX_SCHEMA_BYTES = 64 * 1024
const MAX_DEPTH = 32
const MAX_SCHEMAS = 1_000
const MAX_REFERENCES = 200
/** Schemas in one `allOf`, `anyOf`, `oneOf` or `prefixItems`: compiling them takes more than linear time. */
const MAX_BRANCHES = 100
/** Steps of all patterns' programs together. */
const MAX_PATTERN_STEPS = 5_000

/** The keyword that every schema is given: its cost in units of work, and whether the value's size adds to that. */
export const WORK = "countersign:work"
export interface Work {
  readonly units: number
  readonly weighs: boolean
}

/** Characters of plain values (`enum`, `required`) that cost one unit. */
const CHARACTERS_A_UNIT = 32

/** What a validator is made of. */
export interface Blueprint {
  /** The schema: what judges, and what that costs. */
  readonly schema: MeteredSchema
  /** Its patterns, compiled. */
  readonly patterns: ReadonlyMap<string, LinearPattern>
  /** Whether a reference leads to the whole, which then judges parts of a value too. */
  readonly recurs: boolean
  /** Whether a keyword goes by the properties that others have judged. */
  readonly unevaluated: boolean
}

type MeteredSchema = Readonly<Record<string, unknown>>
type Draft = Result.Result<unknown, SchemaFault>
type Place = ReadonlyArray<string>

/**
 * Takes a schema that is valid by its meta-schema apart: keeps the keywords that judge, prices each schema, and refuses what is over a
 * limit, what leads out of the document, and what never ends. Answers with the first fault and its place.
 */
export const blueprint = (
  schema: Readonly<Record<string, Schema.Json>>
): Result.Result<Blueprint, SchemaFault> => new SchemaPreparer().draw(schema)

/** A schema that was met: the names of those that judge the same value, which a circle is looked for in. */
interface Met {
  readonly place: Place
  readonly sameValue: Array<string>
}

/** A reference that was met: in which schema, by name, and what the validator is given of that. */
interface Reference {
  readonly place: Place
  readonly from: string
  readonly to: string
  readonly priced: Record<string, unknown>
}

class SchemaPreparer {
  readonly #met = new Map<string, Met>()
  readonly #anchors = new Map<string, string>()
  readonly #references: Array<Reference> = []
  readonly #patterns = new Map<string, LinearPattern>()
  /** Where the first keyword stands that goes by the properties that others have judged. */
  #unevaluated: Place | undefined
  #conditional = false
  #steps = 0
  #recurs = false

  draw(schema: Readonly<Record<string, Schema.Json>>): Result.Result<Blueprint, SchemaFault> {
    return Result.gen(this, function* () {
      const priced = yield* this.#object(schema, [], 0)
      yield* this.#resolve()
      yield* this.#findCircle()
      // The validator takes for judged what a condition looked at that does not hold.
      if (this.#unevaluated !== undefined && this.#conditional) {
        return yield* fault(
          this.#unevaluated,
          "unevaluatedProperties does not go with if in one shape: name all properties, and write additionalProperties"
        )
      }
      return {
        schema: priced,
        patterns: this.#patterns,
        recurs: this.#recurs,
        unevaluated: this.#unevaluated !== undefined
      }
    })
  }

  #schema(schema: unknown, place: Place, depth: number): Draft {
    if (Predicate.isReadonlyObject(schema)) return this.#object(schema, place, depth)
    // `true` and `false` judge alone. Anything else was refused by the meta-schema.
    this.#met.set(nameOf(place), { place, sameValue: [] })
    return Result.succeed(schema)
  }

  #object(schema: object, place: Place, depth: number): Result.Result<MeteredSchema, SchemaFault> {
    return Result.gen(this, function* () {
      if (depth > MAX_DEPTH)
        return yield* fault(place, `Schemas stand ${MAX_DEPTH} levels in one another at most`)
      const name = nameOf(place)
      const met: Met = { place, sameValue: [] }
      this.#met.set(name, met)
      if (this.#met.size > MAX_SCHEMAS)
        return yield* fault(place, `A shape has ${MAX_SCHEMAS} schemas at most`)
      const kept: Array<readonly [string, unknown]> = []
      let units = 1
      let weighs = false
      for (const [keyword, value] of Object.entries(schema)) {
        const here = [...place, keyword]
        const refusal = refused.get(keyword) ?? misjudged(keyword, value, schema)
        if (refusal !== undefined) return yield* fault(here, refusal)
        if (keyword === "$id" && place.length > 0) {
          return yield* fault(here, "Only the whole may have an $id; give this one a place under $defs")
        }
        if (keyword === "unevaluatedProperties") this.#unevaluated ??= here
        if (keyword === "if") this.#conditional = true
        const kind = kindOf(keyword)
        if (kind === undefined || (keyword === "uniqueItems" && value === false)) continue
        weighs ||= walking.has(keyword)
        if (kind === "value") {
          yield* this.#value(keyword, value, here, name)
          units += Math.ceil(JSON.stringify(value).length / CHARACTERS_A_UNIT)
          kept.push([keyword, value])
        } else if (kind === "schema") {
          if (inPlace.has(keyword)) met.sameValue.push(nameOf(here))
          units++
          kept.push([keyword, yield* this.#schema(value, here, depth + 1)])
        } else if (Predicate.isReadonlyObject(value) || Array.isArray(value)) {
          if (kind === "list" && Object.keys(value).length > MAX_BRANCHES) {
            return yield* fault(here, `${keyword} has ${MAX_BRANCHES} schemas at most`)
          }
          const parts: Array<readonly [string, unknown]> = []
          for (const [part, inner] of Object.entries(value)) {
            const there = [...here, part]
            if (part === "__proto__" && kind === "map" && !definitions.has(keyword)) {
              return yield* fault(there, "No property may be called __proto__")
            }
            if (inPlace.has(keyword)) met.sameValue.push(nameOf(there))
            if (keyword === "patternProperties") yield* this.#pattern(part, there)
            units++
            parts.push([part, yield* this.#schema(inner, there, depth + 1)])
          }
          // `fromEntries` makes own members of all names, `__proto__` included.
          kept.push([keyword, kind === "list" ? parts.map(([, part]) => part) : Object.fromEntries(parts)])
        }
      }
      const priced = Object.fromEntries([...kept, [WORK, { units, weighs } satisfies Work]])
      const to: unknown = priced["$ref"]
      if (typeof to === "string") {
        this.#references.push({ place: [...place, "$ref"], from: name, to, priced })
        if (this.#references.length > MAX_REFERENCES) {
          return yield* fault([...place, "$ref"], `A shape has ${MAX_REFERENCES} references at most`)
        }
      }
      return priced
    })
  }

  #value(keyword: string, value: unknown, place: Place, owner: string): Result.Result<void, SchemaFault> {
    if (typeof value !== "string") return Result.void
    switch (keyword) {
      case "pattern":
        return this.#pattern(value, place)
      case "$anchor": {
        const taken = this.#anchors.has(value)
        this.#anchors.set(value, owner)
        return taken ? fault(place, "The anchor stands for another schema already") : Result.void
      }
      default:
        return Result.void
    }
  }

  #pattern(pattern: string, place: Place): Result.Result<void, SchemaFault> {
    if (this.#patterns.has(pattern)) return Result.void
    const compiled = compilePattern(pattern)
    if (Result.isFailure(compiled)) return fault(place, compiled.failure)
    this.#patterns.set(pattern, compiled.success)
    this.#steps += compiled.success.size
    return this.#steps > MAX_PATTERN_STEPS
      ? fault(place, "The patterns of the shape repeat too much together; write smaller counts")
      : Result.void
  }

  /**
   * Finds what each reference leads to: a schema of this document, or the shape is refused. The validator is given its pointer: it knows no
   * anchor at the top.
   */
  #resolve(): Result.Result<void, SchemaFault> {
    for (const { from, place, priced, to } of this.#references) {
      if (!to.startsWith("#")) {
        return fault(place, "References lead to this document alone; write #/$defs/… or #anchor")
      }
      const target = this.#anchors.get(to.slice(1)) ?? pointedTo(to)
      const met = this.#met.get(from)
      if (target === undefined || met === undefined || !this.#met.has(target)) {
        return fault(place, "The reference leads to no schema of this document")
      }
      met.sameValue.push(target)
      this.#recurs ||= target === ""
      priced["$ref"] = `#${target.split("/").map(encodeURIComponent).join("/")}`
    }
    return Result.void
  }

  /** Finds a schema that judges a value by judging that same value. */
  #findCircle(): Result.Result<void, SchemaFault> {
    const done = new Set<string>()
    for (const start of this.#met.keys()) {
      const path = new Set<string>()
      const stack: Array<{ readonly name: string; next: number }> = []
      const enter = (name: string) => {
        path.add(name)
        stack.push({ name, next: 0 })
      }
      if (!done.has(start)) enter(start)
      for (let top = stack.at(-1); top !== undefined; top = stack.at(-1)) {
        const met = this.#met.get(top.name)
        const next = met?.sameValue[top.next++]
        if (next === undefined) {
          done.add(top.name)
          path.delete(top.name)
          stack.pop()
        } else if (path.has(next)) {
          return fault(met?.place ?? [], "The schema leads back to itself for the same value")
        } else if (!done.has(next)) enter(next)
      }
    }
    return Result.void
  }
}

/** A place as one text that no other place has. */
const nameOf = (place: Place): string =>
  place.map((token) => `/${token.replaceAll("~", "~0").replaceAll("/", "~1")}`).join("")

/** What a reference by pointer names: `#/$defs/a%20b`. */
const pointedTo = (reference: string): string | undefined => {
  try {
    return decodeURIComponent(reference.slice(1))
  } catch {
    return undefined
  }
}

const faultAt = (place: Place, detail: string): SchemaFault => ({
  pointer: formatPointer("#", place),
  detail
})

const fault = (place: Place, detail: string) => Result.fail(faultAt(place, detail))
