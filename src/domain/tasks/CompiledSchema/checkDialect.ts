import { Ajv2020, type ValidateFunction } from "ajv/dist/2020.js"
import { Result } from "effect"
import { formatPointer, type SchemaFault } from "./SchemaFault.ts"
import { faultsOf } from "./faults.ts"

/** The only `$schema` that a schema can name. It can also name none. */
const DIALECT = "https://json-schema.org/draft/2020-12/schema"

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
  if (named !== undefined && named !== DIALECT && named !== `${DIALECT}#`) {
    return Result.fail({
      pointer: formatPointer("#", ["$schema"]),
      detail: `Unsupported dialect: remove $schema or set it to ${DIALECT}`
    })
  }
  const check = checkMetaSchema()
  if (check(schema)) return Result.void
  const [first = { pointer: "#", detail: "Not a valid JSON Schema 2020-12" }] = faultsOf(
    check.errors ?? [],
    "#"
  )
  return Result.fail(first)
}
