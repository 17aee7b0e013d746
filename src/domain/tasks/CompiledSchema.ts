import { Predicate, Result, type Schema } from "effect"
import { createHash } from "node:crypto"
import { blueprint, type Blueprint, MAX_PARTS, MAX_SCHEMA_BYTES } from "./CompiledSchema/Blueprint.ts"
import { checkDialect } from "./CompiledSchema/checkDialect.ts"
import type { SchemaFault } from "./CompiledSchema/SchemaFault.ts"
import { faultsOf } from "./CompiledSchema/faults.ts"
import { Meter, WorkLimitExceeded, workFor } from "./CompiledSchema/Meter.ts"
import { makeValidator } from "./CompiledSchema/makeValidator.ts"

export type { SchemaFault } from "./CompiledSchema/SchemaFault.ts"

/** A work limit that several checks share, in units of `Meter`. Below zero means that the last check was aborted. */
export interface WorkBudget {
  left: number
}

/** A compiled input or answer schema of a task. */
export interface CompiledSchema {
  /** SHA-256 of the schema's text, in lowercase hex. Equal digests mean equal schemas. */
  readonly digest: string
  /** Size of the schema's text in bytes: its weight in a cache. */
  readonly bytes: number
  /**
   * Validates a value and returns its errors: none if it is valid, otherwise at most 20, each at the field itself, also
   * if that is missing or unexpected. `at` is the pointer of the value within the request, such as `#/correction`; by
   * default the value is the whole request.
   *
   * The work is limited in proportion to the value's size, whatever the schema is; a value that exceeds the limit is
   * invalid, and its error says so. A check blocks the event loop: at most 3 ms for a small value and 30 ms for a large
   * one on a current machine, ten times that on a slow one. A caller of many checks passes `shared`, so that they share
   * one limit, and yields between them.
   */
  readonly check: (value: unknown, at?: string, shared?: WorkBudget) => ReadonlyArray<SchemaFault>
}

/**
 * Compiles a user's schema: JSON Schema 2020-12 that allows only objects at the top level, without external references.
 * Earlier dialects are read as 2020-12, except for keywords that mean something else there. Unknown keywords, `format` and patterns that
 * cannot be matched in linear time are annotations (`schemaWarnings` names them). Compiling takes milliseconds, within the limits at most about 150 ms, so cache
 * the result.
 */
export const compileSchema = (
  schema: Schema.Json,
  options?: CompileOptions
): Result.Result<CompiledSchema, SchemaFault> => {
  const steps = compileInSteps(schema, options)
  for (;;) {
    const step = steps.next()
    if (step.done === true) return step.value
  }
}

export interface CompileOptions {
  /**
   * Receives an error that the validator threw, and the schema's digest. The value counts as invalid then. Default: the
   * error is dropped.
   */
  readonly onDefect?: (error: unknown, digest: string) => void
}

/**
 * Compiles like {@link compileSchema}, and yields between its steps, so that the caller can yield to other work. A step
 * takes at most 50 ms.
 */
export function* compileInSteps(
  schema: Schema.Json,
  { onDefect = () => undefined }: CompileOptions = {}
): Generator<void, Result.Result<CompiledSchema, SchemaFault>> {
  const text = JSON.stringify(schema)
  const bytes = Buffer.byteLength(text)
  if (bytes > MAX_SCHEMA_BYTES) return fault("#", `The schema is larger than ${MAX_SCHEMA_BYTES} bytes`)
  if (!isRecord(schema)) return fault("#", "The schema must be an object")
  const dialect = checkDialect(schema)
  if (Result.isFailure(dialect)) return Result.fail(dialect.failure)
  yield
  const prepared = blueprint(schema)
  if (Result.isFailure(prepared)) return Result.fail(prepared.failure)
  if (!prepared.success.requiresObject) return fault("#/type", NO_OBJECT)
  if (prepared.success.parts > MAX_PARTS) {
    return fault("#", `The schema has more than ${MAX_PARTS} subschemas and keywords together`)
  }
  yield
  const digest = digestOf(text)
  const check = makeCheck(prepared.success, (error) => onDefect(error, digest))
  yield
  // V8 compiles the generated code at its first call, which takes half as long as generating it.
  check({})
  return Result.succeed({ digest, bytes, check })
}

const NO_OBJECT =
  'The top level of the schema must allow only objects: set "type": "object", or a $ref to a schema with it'

/** The `digest` that the {@link CompiledSchema} of a schema has. */
export const schemaDigest = (schema: Schema.Json): string => digestOf(JSON.stringify(schema))

const digestOf = (text: string): string => createHash("sha256").update(text).digest("hex")

const makeCheck = (prepared: Blueprint, onDefect: (error: unknown) => void): CompiledSchema["check"] => {
  const meter = new Meter()
  const validate = makeValidator(prepared, meter)
  return (value, at = "#", shared) => {
    if (value === null && prepared.allowsNull) return [{ pointer: at, detail: "must be object" }]
    const limit = Math.min(workFor(value), Math.max(0, shared?.left ?? Number.POSITIVE_INFINITY))
    meter.left = limit
    try {
      return validate(value) ? [] : faultsOf(validate.errors ?? [], at, prepared.schema)
    } catch (error) {
      if (error instanceof WorkLimitExceeded && error.found.length > 0) return faultsOf(error.found, at)
      // A chain of references in a deeply nested value can exhaust the stack before the work limit.
      if (error instanceof WorkLimitExceeded || error instanceof RangeError) {
        return [
          { pointer: at, detail: "takes too much work to validate against this schema; send a smaller value" }
        ]
      }
      // Not thrown: the caller may have paid a provider for the value, and must be able to record it as invalid.
      onDefect(error)
      return [
        { pointer: at, detail: "could not be validated against this schema; the service logged the cause" }
      ]
    } finally {
      if (shared !== undefined) shared.left -= limit - meter.left
      validate.errors = null
    }
  }
}

const isRecord = (value: Schema.Json): value is Schema.JsonObject => Predicate.isReadonlyObject(value)

const fault = (pointer: string, detail: string) => Result.fail<SchemaFault>({ pointer, detail })
