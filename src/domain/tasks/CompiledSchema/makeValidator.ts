import { _, Ajv2020, type ErrorObject, type ValidateFunction } from "ajv/dist/2020.js"
import { Predicate, Result } from "effect"
import { canonicalJson } from "../../json/CanonicalJson.ts"
import { type Blueprint, WORK } from "./Blueprint.ts"
import { metered } from "./LinearPattern.ts"
import { type Meter, WorkLimitExceeded } from "./Meter.ts"

/** A compiled schema: a function that returns whether a value is valid and sets `errors` on itself. */
export type Validator = ValidateFunction<unknown>

/** Cost factor once there are errors, because each error takes memory. */
const ERROR_FACTOR = 10

/** Units per item of `uniqueItems`, per item that is an object or array, and characters of its text per further unit. */
const ITEM_UNITS = 4
const OBJECT_UNITS = 30
const CHARACTERS_PER_UNIT = 4

/**
 * Compiles a prepared schema with its own ajv instance, because an instance keeps everything that it ever compiled. Its work is charged to
 * the meter.
 *
 * Options: `strict` is off, because it rejects valid JSON Schema. `allErrors` reports all errors; its generated code is also flat, while the
 * code that stops at the first error nests once per keyword and takes ten times as long to compile. `ownProperties`, because otherwise a
 * field named `constructor` would always be present. No meta-schema, which was checked before; formats are annotations, as by default in
 * the dialect. `$data` stays off, so that no value can choose a pattern or a limit. Code is generated from the {@link Blueprint} alone, in
 * which every keyword has the type that its meta-schema requires.
 */
export const makeValidator = (
  { patterns, recurs, schema, unevaluated }: Blueprint,
  meter: Meter
): Validator => {
  const regExp = (pattern: string) => {
    const compiled = patterns.get(pattern)
    if (compiled === undefined) throw new Error("A prepared schema contains every pattern")
    return metered(pattern, compiled, meter)
  }
  const ajv = new Ajv2020({
    strict: false,
    allErrors: true,
    meta: false,
    validateSchema: false,
    validateFormats: false,
    ownProperties: true,
    inlineRefs: false,
    logger: false,
    code: { optimize: false, regExp: Object.assign(regExp, { code: "metered" }) }
  })
  ajv.addKeyword({
    keyword: WORK,
    before: "$ref",
    code: ({ data, gen, it, schema: work }) => {
      if (!isWork(work)) return
      // Errors inside `anyOf` and similar keywords may be discarded later, and those of a referenced schema lack the pointer of its use.
      const errorsAreFinal = !recurs && it.compositeRule !== true && it.schemaEnv === it.schemaEnv.root
      const found = errorsAreFinal ? _`vErrors` : _``
      const counted = gen.scopeValue("obj", { ref: meter })
      const spent = gen.scopeValue("Error", { ref: WorkLimitExceeded })
      const { units, weighs } = work
      gen.code(
        _`if ((${counted}.left -= vErrors === null ? ${units} : ${units * ERROR_FACTOR}) < 0) throw new ${spent}(${found});`
      )
      if (weighs) gen.code(_`${counted}.weigh(${data});`)
      // Otherwise ajv would start to track evaluated properties in the first branch that evaluates any, and only there.
      if (unevaluated) it.props = gen.var("props", _`{}`)
    }
  })
  // ajv compares every item with every other.
  ajv.removeKeyword("uniqueItems")
  ajv.addKeyword({
    keyword: "uniqueItems",
    type: "array",
    schema: false,
    error: { message: "must NOT have duplicate items" },
    validate: (items: unknown) => !Array.isArray(items) || areUnique(items, meter)
  })
  return ajv.compile<unknown>(schema)
}

const isWork = (value: unknown): value is { readonly units: number; readonly weighs: boolean } =>
  Predicate.isReadonlyObject(value) && typeof value["units"] === "number"

/** Whether no two items are equal, in time linear in their text: equal values have equal canonical texts. */
const areUnique = (items: ReadonlyArray<unknown>, meter: Meter): boolean => {
  const seen = new Set<unknown>()
  for (const item of items) {
    const isObject = typeof item === "object" && item !== null
    // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- an item of a JSON array is JSON
    const text = isObject ? Result.getOrThrow(canonicalJson(item as never)) : item
    const length = typeof text === "string" ? text.length : 0
    meter.spend((isObject ? OBJECT_UNITS : ITEM_UNITS) + length / CHARACTERS_PER_UNIT)
    // A string item gets a prefix, so that it never equals the canonical text of an object.
    const key = typeof item === "string" ? `"${item}` : text
    if (seen.has(key)) return false
    seen.add(key)
  }
  return true
}

export type { ErrorObject }
