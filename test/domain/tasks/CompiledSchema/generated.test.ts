import { assert, describe, it } from "@effect/vitest"
import { Result, Schema } from "effect"
import { readFileSync } from "node:fs"
import path from "node:path"
import { compileSchema } from "../../../../src/domain/tasks/CompiledSchema.ts"

/** Schemas as generators wrote them, each with the versions of its generator. */
const lines = readFileSync(path.join(import.meta.dirname, "generated.jsonl"), "utf8")
  .trim()
  .split("\n")

const decode = Schema.decodeUnknownSync(
  Schema.fromJsonString(Schema.Struct({ generator: Schema.String, name: Schema.String, schema: Schema.Json }))
)

/** Why schemas are refused, by the end of the place. */
const reasons: ReadonlyArray<readonly [place: RegExp, detail: string]> = [
  // Before 2020-12, a list of `items` was what `prefixItems` is now.
  [/\/items$/, "must be one schema; use prefixItems for a list of schemas"],
  // In draft-04, `exclusiveMinimum` is a boolean.
  [/^#\/\$schema$/, "Unsupported dialect: "],
  // A JavaScript value, not a schema.
  [/\/code\/type$/, 'must be one of "array"'],
  // An `$id` inside, by its relative URL.
  [/\/children\/items\/\$ref$/, "Only references within the schema are supported"]
]

describe("schemas of generators", () => {
  it("none is refused, except for a stated reason", () => {
    let accepted = 0
    for (const line of lines) {
      const { generator, name, schema } = decode(line)
      const compiled = compileSchema(schema)
      if (Result.isSuccess(compiled)) {
        accepted++
        continue
      }
      const { detail, pointer } = compiled.failure
      assert.isTrue(
        reasons.some(([place, reason]) => place.test(pointer) && detail.startsWith(reason)),
        `${generator}, ${name}: ${pointer} ${detail}`
      )
    }
    assert.strictEqual(accepted, 69)
  })
})
