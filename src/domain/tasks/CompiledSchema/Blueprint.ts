import { Predicate, Result, type Schema } from "effect"
import { formatPointer, type SchemaFault } from "./SchemaFault.ts"
import {
  definitions,
  inPlace,
  kindOf,
  unsupportedUse,
  unsupportedKeywords,
  sizeDependent
} from "./Keywords.ts"
import { checkSubschema, ignoresBesideRef, isEarlierDialect } from "./checkDialect.ts"
import { compilePattern, isUnmatchable, type LinearPattern } from "./LinearPattern.ts"

/** Limits of a schema. The size is that of its text in UTF-8. */
export const MAX_SCHEMA_BYTES = 64 * 1024
const MAX_DEPTH = 32
const MAX_SCHEMAS = 1_000
const MAX_REFERENCES = 200
/**
 * Maximum number of subschemas and keywords together: the validator is generated in one step, which takes 20 to 25 µs
 * for each.
 */
export const MAX_PARTS = 2_000
/** Most schemas in one `allOf`, `anyOf`, `oneOf` or `prefixItems`: compiling them takes more than linear time. */
const MAX_BRANCHES = 100
/** Most program steps of all patterns together. */
const MAX_PATTERN_STEPS = 5_000

/** The keyword that is added to every schema: its cost in units of work, and whether the value's size adds to it. */
export const WORK = "countersign:work"
export interface Work {
  readonly units: number
  readonly weighs: boolean
}

/** Characters of a plain value (`enum`, `required`) per unit of work. */
const CHARACTERS_PER_UNIT = 32

/** A schema prepared for the validator. */
export interface Blueprint {
  /** The schema without annotations, with the cost of each subschema. */
  readonly schema: MeteredSchema
  /** Its subschemas and keywords. */
  readonly parts: number
  /** Its compiled patterns. */
  readonly patterns: ReadonlyMap<string, LinearPattern>
  /** Whether it allows only objects: by `type`, or by a schema that it applies to the same value, such as the target of `$ref`. */
  readonly requiresObject: boolean
  /** Whether its top level allows null besides objects, which no input or answer can be. */
  readonly allowsNull: boolean
  /** Whether a reference points to the root schema, which then applies to parts of a value too. */
  readonly recurs: boolean
  /** Whether it uses `unevaluatedProperties` or `unevaluatedItems`. */
  readonly unevaluated: boolean
}

type MeteredSchema = Readonly<Record<string, unknown>>
type PreparedNode = Result.Result<unknown, SchemaFault>
type Place = ReadonlyArray<string>

/**
 * Prepares a schema that is valid by its meta-schema: drops annotations, adds the cost of each subschema, and rejects schemas that exceed a
 * limit, have external references, or would never terminate. Fails with the first invalid place.
 */
export const blueprint = (
  schema: Readonly<Record<string, Schema.Json>>
): Result.Result<Blueprint, SchemaFault> => new SchemaPreparer().prepare(schema)

/** A visited subschema, with the names of the subschemas that apply to the same value. Cycles are searched among these. */
interface SchemaNode {
  readonly place: Place
  readonly sameValue: Array<string>
  readonly schema: object | undefined
}

/** A visited reference: the name of its subschema, its target, and the prepared subschema to write the resolved pointer to. */
interface Reference {
  readonly place: Place
  readonly from: string
  readonly to: string
  readonly priced: Record<string, unknown>
}

class SchemaPreparer {
  readonly #visited = new Map<string, SchemaNode>()
  readonly #anchors = new Map<string, string>()
  readonly #references: Array<Reference> = []
  /** The names of the subschemas that references point to, by the names of the schemas that contain them. */
  readonly #targets = new Map<string, string>()
  readonly #patterns = new Map<string, LinearPattern>()
  /** The place of the first `unevaluatedProperties`. */
  #unevaluated: Place | undefined
  #unevaluatedItems = false
  #conditional = false
  /** The place of the first pattern that cannot be checked. */
  #unchecked: Place | undefined
  /** The first keyword that such a pattern could make too strict. */
  #negative: string | undefined
  /** The prepared subschemas with `oneOf`. */
  readonly #unions: Array<Record<string, unknown>> = []
  #dialect: unknown
  #steps = 0
  #parts = 0
  #recurs = false

  prepare(schema: Readonly<Record<string, Schema.Json>>): Result.Result<Blueprint, SchemaFault> {
    return Result.gen(this, function* () {
      this.#dialect = schema["$schema"]
      const priced = yield* this.#object(schema, [], 0)
      yield* this.#resolve()
      yield* this.#loosenUnions()
      yield* this.#findCycle()
      // The validator counts properties that a failed `if` evaluated as evaluated.
      if (this.#unevaluated !== undefined && this.#conditional) {
        return yield* fault(
          this.#unevaluated,
          "unevaluatedProperties cannot be combined with if in one schema: list all properties and use additionalProperties"
        )
      }
      return {
        schema: priced,
        parts: this.#parts,
        patterns: this.#patterns,
        requiresObject: this.#requiresObject(),
        allowsNull: allowsNull(schema["type"]),
        recurs: this.#recurs,
        unevaluated: this.#unevaluated !== undefined || this.#unevaluatedItems
      }
    })
  }

  #schema(schema: unknown, place: Place, depth: number): PreparedNode {
    if (Predicate.isReadonlyObject(schema)) return this.#object(schema, place, depth)
    // `true` or `false`. The meta-schema rejected anything else.
    this.#visited.set(nameOf(place), { place, sameValue: [], schema: undefined })
    return Result.succeed(schema)
  }

  #object(schema: object, place: Place, depth: number): Result.Result<MeteredSchema, SchemaFault> {
    return Result.gen(this, function* () {
      if (depth > MAX_DEPTH)
        return yield* fault(place, `Schemas are nested more than ${MAX_DEPTH} levels deep`)
      const name = nameOf(place)
      const node: SchemaNode = { place, sameValue: [], schema }
      this.#visited.set(name, node)
      if (this.#visited.size > MAX_SCHEMAS)
        return yield* fault(place, `The schema has more than ${MAX_SCHEMAS} subschemas`)
      const members: Array<readonly [string, unknown]> = []
      let units = 1
      let weighs = false
      for (const [keyword, value] of Object.entries(schema)) {
        const here = [...place, keyword]
        const refusal = unsupportedKeywords.get(keyword) ?? unsupportedUse(keyword, value, schema)
        if (refusal !== undefined) return yield* fault(here, refusal)
        if (keyword === "$id" && place.length > 0) {
          return yield* fault(here, "Only the top level can have an $id; move this schema to $defs")
        }
        const differs = this.#differs(keyword, schema)
        if (differs !== undefined) return yield* fault(here, differs)
        if (negative.has(keyword)) this.#negative ??= keyword
        if (keyword === "pattern" && typeof value === "string" && isUnmatchable(value)) {
          this.#unchecked ??= here
          continue
        }
        if (keyword === "components" && place.length === 0) {
          const schemas = yield* this.#components(value, here, depth)
          if (schemas !== undefined) members.push([keyword, { schemas }])
          continue
        }
        if (keyword === "unevaluatedProperties") this.#unevaluated ??= here
        if (keyword === "unevaluatedItems") this.#unevaluatedItems = true
        if (keyword === "if") this.#conditional = true
        const kind = kindOf(keyword)
        if (kind === undefined || (keyword === "uniqueItems" && value === false)) continue
        weighs ||= sizeDependent.has(keyword)
        if (kind === "value") {
          yield* this.#value(keyword, value, here, name)
          units += Math.ceil(JSON.stringify(value).length / CHARACTERS_PER_UNIT)
          members.push([keyword, value])
        } else if (kind === "schema") {
          if (inPlace.has(keyword)) node.sameValue.push(nameOf(here))
          units++
          members.push([keyword, yield* this.#schema(value, here, depth + 1)])
        } else if (Predicate.isReadonlyObject(value) || Array.isArray(value)) {
          if (kind === "list" && Object.keys(value).length > MAX_BRANCHES) {
            return yield* fault(here, `${keyword} has more than ${MAX_BRANCHES} schemas`)
          }
          const parts: Array<readonly [string, unknown]> = []
          for (const [part, inner] of Object.entries(value)) {
            const there = [...here, part]
            if (part === "__proto__" && kind === "map" && !definitions.has(keyword)) {
              return yield* fault(there, "A property cannot be named __proto__")
            }
            if (inPlace.has(keyword)) node.sameValue.push(nameOf(there))
            if (keyword === "patternProperties") yield* this.#pattern(part, there)
            units++
            parts.push([part, yield* this.#schema(inner, there, depth + 1)])
          }
          // `fromEntries` creates own properties for all names, including `__proto__`.
          members.push([keyword, kind === "list" ? parts.map(([, part]) => part) : Object.fromEntries(parts)])
        }
      }
      this.#parts += 1 + members.length
      const priced = Object.fromEntries([...members, [WORK, { units, weighs } satisfies Work]])
      if (priced["oneOf"] !== undefined) this.#unions.push(priced)
      const to: unknown = priced["$ref"]
      if (typeof to === "string") {
        this.#references.push({ place: [...place, "$ref"], from: name, to, priced })
        if (this.#references.length > MAX_REFERENCES) {
          return yield* fault([...place, "$ref"], `The schema has more than ${MAX_REFERENCES} references`)
        }
      }
      return priced
    })
  }

  /** The schemas of a document of OpenAPI, which references such as `#/components/schemas/Order` point to. */
  #components(
    value: unknown,
    place: Place,
    depth: number
  ): Result.Result<Readonly<Record<string, unknown>> | undefined, SchemaFault> {
    return Result.gen(this, function* () {
      const schemas: unknown = Predicate.isReadonlyObject(value) ? Reflect.get(value, "schemas") : undefined
      if (!Predicate.isReadonlyObject(schemas)) return undefined
      const prepared: Array<readonly [string, unknown]> = []
      for (const [name, inner] of Object.entries(schemas)) {
        const here = [...place, "schemas", name]
        if (!Predicate.isReadonlyObject(inner) && typeof inner !== "boolean") {
          return yield* fault(here, "must be a schema")
        }
        yield* checkSubschema(inner, formatPointer("#", here))
        prepared.push([name, yield* this.#schema(inner, here, depth + 1)])
      }
      return Object.fromEntries(prepared)
    })
  }

  /** Why a keyword is refused in an earlier dialect, where it means something else. */
  #differs(keyword: string, schema: object): string | undefined {
    if (keyword === "dependencies" && isEarlierDialect(this.#dialect))
      return "Use dependentRequired or dependentSchemas: dependencies has no effect in JSON Schema 2020-12"
    if (keyword !== "$ref" || !ignoresBesideRef(this.#dialect)) return undefined
    const beside = Object.keys(schema).find(
      (name) => name !== "$ref" && kindOf(name) !== undefined && !definitions.has(name)
    )
    return beside === undefined
      ? undefined
      : `In the named dialect ${beside} has no effect beside $ref: remove it, or remove $schema if it is meant`
  }

  /**
   * With a pattern that is not checked, more schemas of a `oneOf` can match than the author meant, so that one is enough. Fails if a
   * keyword turns a match into a failure, since values that fit would be refused.
   */
  #loosenUnions(): Result.Result<void, SchemaFault> {
    if (this.#unchecked === undefined) return Result.void
    const pointsInto = [...this.#targets.values()].some((target) => target.includes("/oneOf/"))
    const obstacle = this.#negative ?? (pointsInto ? "a reference into oneOf" : undefined)
    if (obstacle !== undefined) {
      return fault(this.#unchecked, `${UNMATCHABLE}, and beside ${obstacle} it must be. Remove the pattern`)
    }
    for (const priced of this.#unions) {
      const { anyOf, oneOf } = priced
      if (anyOf === undefined) priced["anyOf"] = oneOf
      else priced["allOf"] = [...(Array.isArray(priced["allOf"]) ? priced["allOf"] : []), { anyOf: oneOf }]
      delete priced["oneOf"]
    }
    return Result.void
  }

  #value(keyword: string, value: unknown, place: Place, owner: string): Result.Result<void, SchemaFault> {
    if (typeof value !== "string") return Result.void
    switch (keyword) {
      case "pattern":
        return this.#pattern(value, place)
      case "$anchor": {
        const isDuplicate = this.#anchors.has(value)
        this.#anchors.set(value, owner)
        return isDuplicate ? fault(place, "The anchor is already used by another schema") : Result.void
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
      ? fault(place, "The patterns of the schema are too large together; use smaller counts")
      : Result.void
  }

  /**
   * Resolves each reference to a subschema of this document, or fails. Writes the target's pointer for the validator,
   * which does not support an anchor at the top level.
   */
  #resolve(): Result.Result<void, SchemaFault> {
    for (const { from, place, priced, to } of this.#references) {
      if (!to.startsWith("#")) {
        return fault(place, "Only references within the schema are supported; use #/$defs/… or #anchor")
      }
      const target = this.#anchors.get(to.slice(1)) ?? pointedTo(to)
      const node = this.#visited.get(from)
      if (target === undefined || node === undefined || !this.#visited.has(target)) {
        return fault(place, "The reference does not point to a schema")
      }
      node.sameValue.push(target)
      this.#targets.set(from, target)
      this.#recurs ||= target === ""
      priced["$ref"] = `#${target.split("/").map(encodeURIComponent).join("/")}`
    }
    return Result.void
  }

  /** Whether the root allows only objects. Call it after `#findCycle`: a cycle would not end. */
  #requiresObject(): boolean {
    const known = new Map<string, boolean>()
    const requires = (name: string): boolean => {
      const isKnown = known.get(name)
      if (isKnown !== undefined) return isKnown
      const result = judge(name)
      known.set(name, result)
      return result
    }
    const judge = (name: string): boolean => {
      const schema = this.#visited.get(name)?.schema
      if (schema === undefined) return false
      const branches = (keyword: string): ReadonlyArray<string> => {
        const value: unknown = Reflect.get(schema, keyword)
        return Array.isArray(value) ? value.map((_, index) => `${name}/${keyword}/${index}`) : []
      }
      const type: unknown = Reflect.get(schema, "type")
      if (type === "object" || (Array.isArray(type) && type.every((one) => one === "object"))) return true
      if (name === "" && allowsNull(type)) return true
      const target = this.#targets.get(name)
      return (
        (target !== undefined && requires(target)) ||
        branches("allOf").some(requires) ||
        ["anyOf", "oneOf"].map(branches).some((list) => list.length > 0 && list.every(requires))
      )
    }
    return requires("")
  }

  /** Fails if a subschema applies itself to the same value, which would never terminate. */
  #findCycle(): Result.Result<void, SchemaFault> {
    const done = new Set<string>()
    for (const start of this.#visited.keys()) {
      const path = new Set<string>()
      const stack: Array<{ readonly name: string; next: number }> = []
      const enter = (name: string) => {
        path.add(name)
        stack.push({ name, next: 0 })
      }
      if (!done.has(start)) enter(start)
      for (let top = stack.at(-1); top !== undefined; top = stack.at(-1)) {
        const node = this.#visited.get(top.name)
        const next = node?.sameValue[top.next++]
        if (next === undefined) {
          done.add(top.name)
          path.delete(top.name)
          stack.pop()
        } else if (path.has(next)) {
          return fault(
            node?.place ?? [],
            "The schema refers to itself for the same value, which would never end"
          )
        } else if (!done.has(next)) enter(next)
      }
    }
    return Result.void
  }
}

/** Why a pattern is not checked. */
export const UNMATCHABLE =
  "The pattern cannot be checked in linear time: it has look-around, a back-reference or a count over 1000"

/** Keywords that turn a match into a failure, or into another condition. */
const negative: ReadonlySet<string> = new Set(["not", "if", "maxContains"])

/** Whether `type` allows objects and null only. */
const allowsNull = (type: unknown): boolean =>
  Array.isArray(type) && type.includes("null") && type.every((one) => one === "object" || one === "null")

/** A unique name for a place: its JSON Pointer. */
const nameOf = (place: Place): string =>
  place.map((token) => `/${token.replaceAll("~", "~0").replaceAll("/", "~1")}`).join("")

/** The name of the place that a reference such as `#/$defs/a%20b` points to. */
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
