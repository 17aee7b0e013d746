import { _, Ajv2020, type ErrorObject, type ValidateFunction } from "ajv/dist/2020.js"
import { Predicate } from "effect"
import { type Blueprint, WORK } from "./Blueprint.ts"
import { keywordDefinitions } from "./keywordDefinitions.ts"
import { metered } from "./LinearPattern.ts"
import { type Meter, WorkLimitExceeded } from "./Meter.ts"

/** A compiled schema: a function that returns whether a value is valid and sets `errors` on itself. */
export type Validator = ValidateFunction<unknown>

/** Cost factor once there are errors, because each error takes memory. */
const ERROR_FACTOR = 10

/**
 * Compiles a prepared schema with its own ajv instance, because an instance keeps everything that it ever compiled. Its
 * work is charged to the meter.
 *
 * Options: `strict` is off, because it rejects valid JSON Schema. `allErrors` reports all errors; its generated code is
 * also flat, while the code that stops at the first error nests once per keyword and takes ten times as long to
 * compile. `verbose` tells the subschema of each error, and so its branch of a union. `ownProperties`, because otherwise a
 * field named `constructor` would always be present. No meta-schema, which was checked before; formats are annotations, as
 * by default in the dialect. `$data` stays off, so that no value can choose a pattern or a limit. Code is generated from
 * the {@link Blueprint} alone, in which every keyword has the type that its meta-schema requires.
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
    verbose: true,
    meta: false,
    validateSchema: false,
    validateFormats: false,
    ownProperties: true,
    inlineRefs: false,
    logger: false,
    code: { optimize: false, regExp: Object.assign(regExp, { code: "metered" }) }
  })
  // Tracks evaluated properties only if a keyword needs it: it costs time, and the tracking code throws for some
  // schemas.
  ajv.opts.unevaluated = unevaluated
  ajv.addKeyword({
    keyword: WORK,
    before: "$ref",
    code: ({ data, gen, it, schema: work }) => {
      if (!isWork(work)) return
      // Errors inside `anyOf` and similar keywords may be discarded later, and errors of a referenced schema lack the
      // pointer of its use.
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
      // The object has no prototype: otherwise a property named `toString` would count as evaluated.
      if (unevaluated) it.props = gen.var("props", _`Object.create(null)`)
    }
  })
  for (const definition of keywordDefinitions(meter)) {
    ajv.removeKeyword(definition.keyword)
    ajv.addKeyword(definition)
  }
  return ajv.compile<unknown>(schema)
}

const isWork = (value: unknown): value is { readonly units: number; readonly weighs: boolean } =>
  Predicate.isReadonlyObject(value) && typeof value["units"] === "number"

export type { ErrorObject }
