import { assert, describe, it } from "@effect/vitest"
import { Arbitrary, Result, Schema } from "effect"
import { JsonValue } from "../../../../src/domain/json/JsonValue.ts"
import { KeyId, TaskId } from "../../../../src/domain/Ids.ts"
import { Scope } from "../../../../src/domain/identity/Scope.ts"
import { JsonSchema } from "../../../../src/domain/tasks/Task.ts"
import { Provider } from "../../../../src/domain/tasks/Provider.ts"
import { TimestampFromDate } from "../../../../src/domain/Time.ts"
import { compileRowDecoder } from "../../../../src/server/store/rows/compileRowDecoder.ts"

/** A row with every kind of column. */
const Row = Schema.Struct({
  task_id: TaskId,
  created_by_id: Schema.NullOr(KeyId),
  created_at: TimestampFromDate,
  expires_at: Schema.NullOr(TimestampFromDate),
  revoked_at: Schema.NullOr(Schema.Date),
  schema: JsonSchema,
  detail: Schema.NullOr(JsonValue),
  provider: Provider,
  scopes: Schema.Array(Scope),
  score: Schema.Literals([1, 0, -1]),
  isUsed: Schema.Boolean,
  count: Schema.Int,
  digest: Schema.Uint8Array,
  seed: Schema.BigInt,
  label: Schema.optionalKey(Schema.String)
})

const decode = compileRowDecoder(Row)
const decodeBySchema = Schema.decodeUnknownSync(Schema.Array(Row), { disableChecks: true })
const decodeOrRefuse = Schema.decodeUnknownResult(Schema.Array(Row), { disableChecks: true })
const stored = Arbitrary.schema(Row).pipe(Arbitrary.map(Schema.encodeSync(Row)))

/** Values that a column cannot have. */
const strange = [undefined, null, "text", 7, Number.NaN, true, [], {}, new Date(Number.NaN), new Map(), 1n]

describe("compileRowDecoder", () => {
  it.prop("rows are decoded as by their schema, without columns that it does not name", [stored], ([row]) => {
    assert.deepStrictEqual(decode([row, { ...row, extra: 1 }]), decodeBySchema([row, row]))
  })

  it.prop("a row that the schema refuses is left to the schema", [stored], ([row]) => {
    for (const column of Object.keys(Row.fields)) {
      for (const value of strange) {
        const changed = [{ ...row, [column]: value }]
        const expected = decodeOrRefuse(changed)
        const decoded = decode(changed)
        if (Result.isFailure(expected)) assert.isUndefined(decoded, column)
        else if (decoded !== undefined) assert.deepStrictEqual(decoded, expected.success, column)
      }
    }
  })
})
