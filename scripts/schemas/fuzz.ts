import { Predicate, Result, type Schema } from "effect"
import fc from "fast-check"
import { createRequire } from "node:module"
import path from "node:path"
import { pathToFileURL } from "node:url"
import { compileSchema } from "../../src/domain/tasks/CompiledSchema.ts"
import { schemasAndValues } from "../../test/support/jsonSchemaArbitraries.ts"

/**
 * Judges values of random schemas with the service's validator and with the second one, and prints the first, shrunk
 * difference. Returns the number of differences found, 0 or 1.
 */
export const fuzz = async ({
  directory,
  runs,
  say,
  seed
}: {
  readonly directory: string
  readonly runs: number
  readonly seed: number
  readonly say: (line: string) => void
}): Promise<number> => {
  const compileSecond = await loadSecondValidator(directory)
  // The second validator treats members of `Object.prototype` as present; the tests compare those with an evaluator of ours.
  const { record, root } = schemasAndValues([])
  let schemas = 0
  let values = 0
  const result = await fc.check(
    fc.asyncProperty(root, fc.array(record, { minLength: 6, maxLength: 12 }), async (schema, records) => {
      const plain: Readonly<Record<string, Schema.Json>> = JSON.parse(JSON.stringify(schema))
      const compiled = compileSchema(plain)
      if (Result.isFailure(compiled)) return
      schemas++
      const isValid = await compileSecond(plain)
      for (const one of records) {
        const value: Schema.Json = JSON.parse(JSON.stringify(one))
        values++
        const ours = compiled.success.check(value).length === 0
        if (ours !== isValid(value)) {
          throw new Error(
            `${ours ? "accepted" : "rejected"}, unlike the second validator: ${JSON.stringify({ schema: plain, value })}`
          )
        }
      }
    }),
    { numRuns: runs, seed }
  )
  say(
    `second validator: ${values} values of ${schemas} schemas, seed ${seed}: ${result.failed ? "" : "no "}difference`
  )
  if (result.failed) say(String(result.errorInstance))
  return result.failed ? 1 : 0
}

/** Compiles a schema to a function that returns whether a value is valid. */
type Compile = (schema: Readonly<Record<string, Schema.Json>>) => Promise<(value: Schema.Json) => boolean>

const loadSecondValidator = async (directory: string): Promise<Compile> => {
  const file = createRequire(path.join(directory, "package.json")).resolve(
    "@hyperjump/json-schema/draft-2020-12"
  )
  const library: unknown = await import(pathToFileURL(file).href)
  let count = 0
  return async (schema) => {
    // The library keeps compiled schemas by their URI.
    const uri = `https://countersign.test/${count++}`
    call(
      library,
      "registerSchema",
      { $schema: "https://json-schema.org/draft/2020-12/schema", ...schema },
      uri
    )
    const validate: unknown = await call(library, "validate", uri)
    call(library, "unregisterSchema", uri)
    return (value) => {
      if (!Predicate.isFunction(validate)) throw new Error("validate returns a function")
      const output: unknown = validate(value)
      return Predicate.hasProperty(output, "valid") && output.valid === true
    }
  }
}

const call = (library: unknown, name: string, ...args: ReadonlyArray<unknown>): unknown => {
  const found = Predicate.hasProperty(library, name) ? library[name] : undefined
  if (!Predicate.isFunction(found)) throw new Error(`The second validator has no ${name}`)
  return found(...args)
}
