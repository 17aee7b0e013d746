import { Result, Schema } from "effect"
import { readdirSync, readFileSync } from "node:fs"
import path from "node:path"
import { compileSchema } from "../../src/domain/tasks/CompiledSchema.ts"
import { kindOf } from "../../src/domain/tasks/CompiledSchema/Keywords.ts"
import { schemaWarnings } from "../../src/domain/tasks/schemaWarnings.ts"

/** A file of the suite. */
const Groups = Schema.fromJsonString(
  Schema.Array(
    Schema.Struct({
      description: Schema.String,
      schema: Schema.Json,
      tests: Schema.Array(
        Schema.Struct({ description: Schema.String, data: Schema.Json, valid: Schema.Boolean })
      )
    })
  )
)
type Group = (typeof Groups.Type)[number]

/** The counts of a folder. */
interface Counts {
  right: number
  /** Tests of schemas that are refused with a place. */
  refused: number
  /** Values that are judged differently, for a schema with a warning that says why. */
  warned: number
  wrong: number
}

/** Runs the tests of a folder, prints a line for each of its folders, and returns the number of wrong judgements. */
export const runSuite = (folder: string, say: (line: string) => void): number => {
  let wrong = 0
  for (const part of ["", "optional", path.join("optional", "format")]) {
    const counts: Counts = { right: 0, refused: 0, warned: 0, wrong: 0 }
    for (const file of readdirSync(path.join(folder, part)).toSorted()) {
      if (!file.endsWith(".json")) continue
      const groups = Schema.decodeUnknownSync(Groups)(readFileSync(path.join(folder, part, file), "utf8"))
      for (const group of groups) {
        for (const failure of judgeGroup(group, counts)) say(`wrong: ${path.join(part, file)}: ${failure}`)
      }
    }
    const name = part === "" ? "required" : part
    say(
      `test suite, ${name}: ${counts.right} right, ${counts.refused} of refused schemas, ${counts.warned} warned of, ${counts.wrong} wrong`
    )
    wrong += counts.wrong
  }
  return wrong
}

/** Counts the tests of a group. Returns a line for each wrong one. */
const judgeGroup = ({ description, schema, tests }: Group, counts: Counts): ReadonlyArray<string> => {
  const wrapped = wrap(schema)
  const compiled = compileSchema(wrapped)
  if (Result.isFailure(compiled)) {
    if (compiled.failure.pointer.startsWith("#/")) {
      counts.refused += tests.length
      return []
    }
    counts.wrong += tests.length
    return [`${description}: refused without a place: ${compiled.failure.detail}`]
  }
  const isWarned = schemaWarnings(wrapped).length > 0
  const failures: Array<string> = []
  for (const { data, description: test, valid } of tests) {
    const isValid = compiled.success.check({ value: data }).length === 0
    if (isValid === valid) counts.right++
    else if (isWarned) counts.warned++
    else {
      counts.wrong++
      failures.push(`${description}: ${test}: ${isValid ? "accepted" : "rejected"}`)
    }
  }
  return failures
}

/** A schema of an object whose member `value` is validated by the schema of a test, which may allow other types. */
const wrap = (schema: Schema.Json): Schema.JsonObject => {
  const { $id, $schema, ...inner } = isObject(schema) ? schema : {}
  return {
    ...($schema === undefined ? {} : { $schema }),
    ...($id === undefined ? {} : { $id }),
    type: "object",
    properties: { value: { $ref: "#/$defs/value" } },
    $defs: { value: isObject(schema) ? moveReferences(inner) : schema }
  }
}

/** Makes references to the root point to the new place of the schema. */
const moveReferences = (schema: Schema.Json): Schema.Json => {
  if (!isObject(schema)) return schema
  return Object.fromEntries(
    Object.entries(schema).map(([keyword, value]) => {
      if (keyword === "$ref" && typeof value === "string" && /^#(?:\/|$)/.test(value)) {
        return [keyword, `#/$defs/value${value.slice(1)}`]
      }
      switch (kindOf(keyword)) {
        case "schema":
          return [keyword, moveReferences(value)]
        case "list":
          return [keyword, isArray(value) ? value.map(moveReferences) : value]
        case "map":
          return [
            keyword,
            isObject(value)
              ? Object.fromEntries(Object.entries(value).map(([name, part]) => [name, moveReferences(part)]))
              : value
          ]
        case "value":
        case undefined:
          return [keyword, value]
      }
    })
  )
}

const isArray = (value: Schema.Json): value is Schema.JsonArray => Array.isArray(value)

const isObject = (value: Schema.Json): value is Schema.JsonObject =>
  typeof value === "object" && value !== null && !isArray(value)
