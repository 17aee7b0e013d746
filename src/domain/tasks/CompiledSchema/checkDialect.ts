import { Ajv2020, type ValidateFunction } from "ajv/dist/2020.js"
import { Result } from "effect"
import { formatPointer, type SchemaFault } from "./SchemaFault.ts"
import { faultsOf } from "./faults.ts"

/** The `$schema` that a shape may name; it may name none. */
const DIALECT = "https://json-schema.org/draft/2020-12/schema"

let metaSchema: ValidateFunction | undefined

/** The check against the meta-schema, compiled when it is first needed. It takes 20 ms or so. */
const checkMetaSchema = (): ValidateFunction => {
  if (metaSchema !== undefined) return metaSchema
  const compiled = new Ajv2020({ strict: false, validateFormats: false, logger: false }).getSchema(DIALECT)
  if (compiled === undefined) throw new Error("The package brings the meta-schema of its dialect")
  return (metaSchema = compiled)
}

/** Whether a value is a JSON Schema 2020-12 by its meta-schema, with the place where it is not. */
export const checkDialect = (schema: Readonly<Record<string, unknown>>): Result.Result<void, SchemaFault> => {
  const named = schema["$schema"]
  if (named !== undefined && named !== DIALECT && named !== `${DIALECT}#`) {
    return Result.fail({
      pointer: formatPointer("#", ["$schema"]),
      detail: `Shapes are JSON Schema 2020-12: leave $schema away or name ${DIALECT}`
    })
  }
  const check = checkMetaSchema()
  if (check(schema)) return Result.void
  const [first = { pointer: "#", detail: "It is no JSON Schema 2020-12" }] = faultsOf(check.errors ?? [], "#")
  return Result.fail(first)
}
