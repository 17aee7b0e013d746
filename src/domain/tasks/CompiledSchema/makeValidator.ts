import { _, Ajv2020, type ErrorObject, type ValidateFunction } from "ajv/dist/2020.js"
import { Predicate, Result } from "effect"
import { canonicalJson } from "../../json/CanonicalJson.ts"
import { type Blueprint, WORK } from "./Blueprint.ts"
import { metered } from "./LinearPattern.ts"
import { type Meter, WorkLimitExceeded } from "./Meter.ts"

/** What a compiled schema is: called with a value, it says whether that fits and leaves the faults on itself. */
export type Validator = ValidateFunction<unknown>

/** How much more an application costs once there are faults: each that is found takes memory. */
const FAULTY = 10

/** Units that an item costs where items are compared, one with parts more; and the characters of its text that cost another. */
const ITEM_UNITS = 4
const OBJECT_UNITS = 30
const CHARACTERS_A_UNIT = 4

/**
 * A validator of its own for each schema, so that nothing is left of it once it is dropped: the package keeps what one instance ever
 * compiled. What it does is charged to the meter.
 *
 * What the package is told, and why: `strict` is off, since what it forbids is valid JSON Schema. `allErrors`, for all faults at
 * once; the code it makes is also flat, where stopping at the first nests as deep as there are keywords, and takes ten times as long
 * to compile. `ownProperties`, or a field called `constructor` would always be there. No meta-schema, which was checked before;
 * formats are annotations, as the dialect's default has them. `$data` stays off, so that no value chooses a pattern or a limit. Code is
 * made from the {@link Blueprint} alone, in which every keyword has the type that its meta-schema asks for.
 */
export const makeValidator = (
  { patterns, recurs, schema, unevaluated }: Blueprint,
  meter: Meter
): Validator => {
  const regExp = (pattern: string) => {
    const compiled = patterns.get(pattern)
    if (compiled === undefined) throw new Error("The blueprint holds every pattern")
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
      // Within `anyOf` and its like a fault may be none in the end, and what is referred to does not know where it stands.
      const knows = !recurs && it.compositeRule !== true && it.schemaEnv === it.schemaEnv.root
      const found = knows ? _`vErrors` : _``
      const counted = gen.scopeValue("obj", { ref: meter })
      const spent = gen.scopeValue("Error", { ref: WorkLimitExceeded })
      const { units, weighs } = work
      gen.code(
        _`if ((${counted}.left -= vErrors === null ? ${units} : ${units * FAULTY}) < 0) throw new ${spent}(${found});`
      )
      if (weighs) gen.code(_`${counted}.weigh(${data});`)
      // Else the package would begin to count what was judged in the first branch that has something to tell, and only there.
      if (unevaluated) it.props = gen.var("props", _`{}`)
    }
  })
  // The package compares every item with every other.
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
    meter.spend((isObject ? OBJECT_UNITS : ITEM_UNITS) + length / CHARACTERS_A_UNIT)
    // No text of an object is a text that stands as an item: those are kept behind a mark.
    const key = typeof item === "string" ? `"${item}` : text
    if (seen.has(key)) return false
    seen.add(key)
  }
  return true
}

export type { ErrorObject }
