import { Ajv2020, type ValidateFunction } from "ajv/dist/2020.js"
import { Result } from "effect"
import { formatPointer, type SchemaFault } from "./SchemaFault.ts"
import { faultsOf } from "./faults.ts"

/** The dialect of a schema that names none. */
const DIALECT = "https://json-schema.org/draft/2020-12/schema"

/** Earlier dialects whose keywords mean the same, except refused keywords. */
const EARLIER = /^https?:\/\/json-schema\.org\/(?:draft\/2019-09|draft-0[67])\/schema#?$/

/** Whether a schema names a dialect in which keywords beside `$ref` have no effect. */
export const ignoresBesideRef = (named: unknown): boolean =>
  typeof named === "string" && EARLIER.test(named) && !named.includes("2019-09")

/** Whether a schema names an earlier dialect. */
export const isEarlierDialect = (named: unknown): boolean => typeof named === "string" && EARLIER.test(named)

let metaSchema: ValidateFunction | undefined

/** The validator of the meta-schema, compiled on first use, which takes about 20 ms. */
const checkMetaSchema = (): ValidateFunction => {
  if (metaSchema !== undefined) return metaSchema
  const compiled = new Ajv2020({ strict: false, validateFormats: false, logger: false }).getSchema(DIALECT)
  if (compiled === undefined) throw new Error("ajv contains the meta-schema of 2020-12")
  return (metaSchema = compiled)
}

/** Validates a schema against the meta-schema of JSON Schema 2020-12. Fails with the first invalid place. */
export const checkDialect = (schema: Readonly<Record<string, unknown>>): Result.Result<void, SchemaFault> => {
  const named = schema["$schema"]
  if (named !== undefined && named !== DIALECT && named !== `${DIALECT}#` && !isEarlierDialect(named)) {
    return Result.fail({
      pointer: formatPointer("#", ["$schema"]),
      detail: `Unsupported dialect: remove $schema, or set it to ${DIALECT}, draft 2019-09 or draft-07`
    })
  }
  return checkSubschema(isEarlierDialect(named) ? { ...schema, $schema: DIALECT } : schema, "#")
}

/** Validates a schema at a place against the meta-schema, whatever dialect the document names. */
export const checkSubschema = (schema: unknown, at: string): Result.Result<void, SchemaFault> => {
  const check = checkMetaSchema()
  if (check(schema)) return Result.void
  const [first = { pointer: at, detail: "Not a valid JSON Schema 2020-12" }] = faultsOf(
    check.errors ?? [],
    at
  )
  return Result.fail(
    first.pointer.endsWith("/items")
      ? { ...first, detail: "must be one schema; use prefixItems for a list of schemas" }
      : first
  )
}
