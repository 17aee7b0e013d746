/**
 * Keywords whose definitions in ajv 8.20 give wrong results, or throw: `const` and `enum` throw for a value with a member `toString`.
 * `contains` accepts an empty array after a sibling that matched, and `multipleOf` refuses 19.99 for 0.01. `required` and
 * `dependentRequired` below `not` and `if` ignore the empty name. `uniqueItems` takes quadratic time. Below `not` and `if`, keywords after
 * `prefixItems` are skipped for an array that is shorter than the list, and keywords after `propertyNames` for an empty object.
 */
import {
  _,
  type AnySchemaObject,
  type Code,
  type KeywordCxt,
  type KeywordDefinition,
  Name,
  str
} from "ajv/dist/2020.js"
import { mergeEvaluated, Type } from "ajv/dist/compile/util.js"
import { Predicate, Result, type Schema } from "effect"
import { canonicalJson } from "../../json/CanonicalJson.ts"
import { isEqualJson } from "../../json/isEqualJson.ts"
import { isMultipleOf } from "./isMultipleOf.ts"
import type { Meter } from "./Meter.ts"

/** Units per item of `uniqueItems`, per item that is an object or array, and characters of its text per further unit. */
const ITEM_UNITS = 4
const OBJECT_UNITS = 30
const CHARACTERS_PER_UNIT = 4

/** Units of `multipleOf` for numbers that are not both safe integers. */
const DECIMAL_UNITS = 20

/** The definitions that replace ajv's, for one validator with this meter. */
export const keywordDefinitions = (meter: Meter): ReadonlyArray<KeywordDefinition & { keyword: string }> => {
  const tests: Array<Test> = []
  const testedBy = makeTestedBy(tests)
  return [
    {
      keyword: "const",
      error: {
        message: "must be equal to constant",
        params: ({ schemaCode }) => _`{allowedValue: ${schemaCode}}`
      },
      code: testedBy((allowed) => (value) => isEqualJson(allowed, value))
    },
    {
      keyword: "enum",
      schemaType: "array",
      error: {
        message: "must be equal to one of the allowed values",
        params: ({ schemaCode }) => _`{allowedValues: ${schemaCode}}`
      },
      code: testedBy((schema) => {
        const allowed: ReadonlyArray<Schema.Json> = Array.isArray(schema) ? schema : []
        const scalars = new Set(allowed.filter((value) => !isContainer(value)))
        const containers = allowed.filter(isContainer)
        return (value) =>
          isContainer(value) ? containers.some((one) => isEqualJson(one, value)) : scalars.has(value)
      })
    },
    {
      keyword: "multipleOf",
      type: "number",
      schemaType: "number",
      error: { message: ({ schemaCode }) => str`must be multiple of ${schemaCode}` },
      code: testedBy((divisor) => (value) => {
        if (!Predicate.isNumber(value) || !Predicate.isNumber(divisor)) return true
        if (!Number.isSafeInteger(value) || !Number.isSafeInteger(divisor)) meter.spend(DECIMAL_UNITS)
        return isMultipleOf(value, divisor)
      })
    },
    {
      keyword: "uniqueItems",
      type: "array",
      error: { message: "must NOT have duplicate items" },
      code: testedBy(() => (items) => !Array.isArray(items) || areUnique(items, meter))
    },
    {
      keyword: "required",
      type: "object",
      schemaType: "array",
      trackErrors: true,
      error: {
        message: "must have all required properties",
        params: ({ params }) => _`{missingProperty: ${params["name"]}}`
      },
      code: (cxt) => {
        reportMissing(cxt, _`${cxt.schemaCode}`)
        cxt.ok(_`${cxt.errsCount} === ${ERRORS}`)
      }
    },
    {
      keyword: "dependentRequired",
      type: "object",
      schemaType: "object",
      trackErrors: true,
      error: {
        message: "must have all properties that another one requires",
        params: ({ params }) => _`{property: ${params["property"]}, missingProperty: ${params["name"]}}`
      },
      code: (cxt) => {
        const { data, gen, schemaCode } = cxt
        for (const property of Object.keys(cxt.schema)) {
          gen.if(hasOwn(cxt, data, property), () =>
            reportMissing(cxt, _`${schemaCode}[${property}]`, { property })
          )
        }
        cxt.ok(_`${cxt.errsCount} === ${ERRORS}`)
      }
    },
    {
      keyword: "contains",
      type: "array",
      schemaType: ["object", "boolean"],
      trackErrors: true,
      error: { message: ({ params }) => str`must contain ${params["expected"]}` },
      code: countMatches
    },
    {
      keyword: "prefixItems",
      type: "array",
      schemaType: "array",
      // `items` and `unevaluatedItems` need to know which items it evaluates.
      before: "items",
      code: checkPrefix
    },
    {
      keyword: "propertyNames",
      type: "object",
      schemaType: ["object", "boolean"],
      error: {
        message: "property name must be valid",
        params: ({ params }) => _`{propertyName: ${params["propertyName"]}}`
      },
      code: checkNames
    }
  ]
}

/** Whether a value satisfies a keyword. */
type Test = (value: Schema.Json) => boolean

/**
 * Generates the code of keywords that a function tests. A validator's functions are one list in the scope of its code:
 * as single values ajv takes quadratic time for them, 170 ms for a thousand.
 */
const makeTestedBy =
  (tests: Array<Test>) =>
  (makeTest: (schema: Schema.Json) => Test) =>
  (cxt: KeywordCxt): void => {
    const number = tests.push(makeTest(cxt.schema)) - 1
    const list = cxt.gen.scopeValue("obj", { ref: tests })
    cxt.fail(_`!${list}[${number}](${cxt.data})`)
  }

/** Generates the loop of `contains`: counts the matching items, and stops when further ones cannot change the result. */
function countMatches(cxt: KeywordCxt): void {
  const { data, gen, parentSchema } = cxt
  const { max, min } = containsLimits(parentSchema)
  if (min === 0 && max === undefined) return
  cxt.setParams({ expected: describeLimits(min, max) })
  const count = gen.let("count", 0)
  const matches = gen.name("valid")
  gen.forRange("i", 0, _`${data}.length`, (index) => {
    cxt.subschema(
      { keyword: "contains", dataProp: index, dataPropType: Type.Num, compositeRule: true },
      matches
    )
    gen.if(matches, () => {
      gen.code(_`${count}++;`)
      gen.if(max === undefined ? _`${count} >= ${min}` : _`${count} > ${max}`, () => gen.break())
    })
  })
  const isValid = max === undefined ? _`${count} >= ${min}` : _`${count} >= ${min} && ${count} <= ${max}`
  // An item that does not match is not an error of the array.
  cxt.result(isValid, () => cxt.reset())
}

/** Generates the checks of `prefixItems`. An array that is shorter than the list is valid. */
function checkPrefix(cxt: KeywordCxt): void {
  const { data, gen, it } = cxt
  const schemas: ReadonlyArray<unknown> = Array.isArray(cxt.schema) ? cxt.schema : []
  if (it.opts.unevaluated && it.items !== true) {
    it.items = mergeEvaluated.items(gen, schemas.length, it.items)
  }
  const valid = gen.name("valid")
  gen.var(valid, true)
  for (const index of schemas.keys()) {
    gen.if(_`${data}.length > ${index}`, () =>
      cxt.subschema({ keyword: "prefixItems", schemaProp: index, dataProp: index }, valid)
    )
    cxt.ok(valid)
  }
}

/** Generates the loop of `propertyNames`. An empty object is valid. */
function checkNames(cxt: KeywordCxt): void {
  const { data, gen, it } = cxt
  const valid = gen.name("valid")
  gen.var(valid, true)
  gen.forIn("key", data, (key) => {
    cxt.setParams({ propertyName: key })
    cxt.subschema(
      { keyword: "propertyNames", data: key, dataTypes: ["string"], propertyName: key, compositeRule: true },
      valid
    )
    gen.if(_`!${valid}`, () => {
      cxt.error(true)
      if (it.allErrors !== true) gen.break()
    })
  })
  cxt.ok(valid)
}

/** The variable that counts the errors in generated code. */
const ERRORS = new Name("errors")

/** Generates a loop over names, with an error for each that the object lacks. */
function reportMissing(
  cxt: KeywordCxt,
  names: Code | Name,
  params: { readonly property?: string } = {}
): void {
  cxt.gen.forOf("name", names, (name) => {
    cxt.gen.if(_`!${hasOwn(cxt, cxt.data, name)}`, () => {
      cxt.setParams({ ...params, name })
      cxt.error()
    })
  })
}

const hasOwn = ({ gen }: KeywordCxt, data: Name, name: Name | string): Code =>
  _`${gen.scopeValue("func", { ref: Object.hasOwn, code: _`Object.hasOwn` })}(${data}, ${name})`

const containsLimits = ({ maxContains, minContains = 1 }: AnySchemaObject) => ({
  min: Predicate.isNumber(minContains) ? minContains : 1,
  max: Predicate.isNumber(maxContains) ? maxContains : undefined
})

const describeLimits = (min: number, max: number | undefined): string =>
  max === undefined
    ? `at least ${min} valid item(s)`
    : `at least ${min} and no more than ${max} valid item(s)`

const isContainer = (value: Schema.Json): boolean => typeof value === "object" && value !== null

/** Whether no two items are equal. Compares their canonical texts, in time linear in their size. */
const areUnique = (items: ReadonlyArray<Schema.Json>, meter: Meter): boolean => {
  const seen = new Set<unknown>()
  for (const item of items) {
    const text = isContainer(item) ? Result.getOrThrow(canonicalJson(item)) : item
    const length = typeof text === "string" ? text.length : 0
    meter.spend((isContainer(item) ? OBJECT_UNITS : ITEM_UNITS) + length / CHARACTERS_PER_UNIT)
    // A string item gets a prefix, so that it never equals the canonical text of an object.
    const key = typeof item === "string" ? `"${item}` : text
    if (seen.has(key)) return false
    seen.add(key)
  }
  return true
}
