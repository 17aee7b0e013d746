import { Predicate, Result, type Schema } from "effect"
import { createHash } from "node:crypto"
import { blueprint, type Blueprint, MAX_SCHEMA_BYTES } from "./CompiledSchema/Blueprint.ts"
import { checkDialect } from "./CompiledSchema/checkDialect.ts"
import type { SchemaFault } from "./CompiledSchema/SchemaFault.ts"
import { faultsOf } from "./CompiledSchema/faults.ts"
import { Meter, WorkLimitExceeded, workFor } from "./CompiledSchema/Meter.ts"
import { makeValidator } from "./CompiledSchema/makeValidator.ts"

export type { SchemaFault } from "./CompiledSchema/SchemaFault.ts"

/** Work that several checks have left together, in units: see `Meter`. Below zero: the last one was not done to its end. */
export interface WorkBudget {
  left: number
}

/** A compiled shape of a task's inputs or answers. */
export interface CompiledSchema {
  /** SHA-256 of the schema's text, in lowercase hex. Schemas of one digest are the same schema. */
  readonly digest: string
  /** Bytes of the schema's text: what it weighs in a cache. */
  readonly bytes: number
  /**
   * What of a value does not fit: none where it does, else up to 20 places, the property itself where one is missing or too many.
   * `at` is the pointer of the value within the request, such as `#/correction`; by default the value is the whole. The work is
   * bounded by the value's size, whatever the schema: what takes too much does not fit, and says so. A check holds the process: 3 ms
   * at most for a small value and 30 for a large one on a machine of today, ten times that on one that is slow. Who makes many
   * checks has them share their work, and pauses in between.
   */
  readonly check: (value: unknown, at?: string, shared?: WorkBudget) => ReadonlyArray<SchemaFault>
}

/**
 * Compiles a schema of a user's: JSON Schema 2020-12 with an object at the top and no reference out of itself. Unknown keywords and
 * `format` are annotations. Patterns are matched in linear time. Takes milliseconds, so keep what it answers; within the limits at most
 * some 200 ms.
 */
export const compileSchema = (schema: Schema.Json): Result.Result<CompiledSchema, SchemaFault> =>
  Result.gen(function* () {
    const text = JSON.stringify(schema)
    const bytes = Buffer.byteLength(text)
    if (bytes > MAX_SCHEMA_BYTES) return yield* fault("#", `A shape has ${MAX_SCHEMA_BYTES} bytes at most`)
    if (!isRecord(schema)) return yield* fault("#", "A shape is an object")
    yield* checkDialect(schema)
    if (schema["type"] !== "object") return yield* fault("#/type", 'The top of a shape says "type": "object"')
    const drawn = yield* blueprint(schema)
    return { digest: digestOf(text), bytes, check: makeCheck(drawn) }
  })

/** The digest of a schema, as its {@link CompiledSchema} has it. */
export const schemaDigest = (schema: Schema.Json): string => digestOf(JSON.stringify(schema))

const digestOf = (text: string): string => createHash("sha256").update(text).digest("hex")

const makeCheck = (drawn: Blueprint): CompiledSchema["check"] => {
  const meter = new Meter()
  const validate = makeValidator(drawn, meter)
  return (value, at = "#", shared) => {
    const given = Math.min(workFor(value), Math.max(0, shared?.left ?? Number.POSITIVE_INFINITY))
    meter.left = given
    try {
      return validate(value) ? [] : faultsOf(validate.errors ?? [], at)
    } catch (error) {
      if (error instanceof WorkLimitExceeded && error.found.length > 0) return faultsOf(error.found, at)
      // A chain of references under deep nesting may run out of stack before it runs out of units.
      if (error instanceof WorkLimitExceeded || error instanceof RangeError) {
        return [{ pointer: at, detail: "is too much to be checked against this shape; send less of it" }]
      }
      throw error
    } finally {
      if (shared !== undefined) shared.left -= given - meter.left
      validate.errors = null
    }
  }
}

const isRecord = (value: Schema.Json): value is Schema.JsonObject => Predicate.isReadonlyObject(value)

const fault = (pointer: string, detail: string) => Result.fail<SchemaFault>({ pointer, detail })
