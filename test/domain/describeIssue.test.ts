import { assert, describe, it } from "@effect/vitest"
import { Schema, SchemaIssue } from "effect"
import { describeIssue } from "../../src/domain/describeIssue.ts"

describe("describeIssue", () => {
  it("works out the names that thousands of unknown members could stand for only where it describes them", () => {
    const union = Schema.Union([
      Schema.Struct({ amount: Schema.Number }),
      Schema.Struct({ total: Schema.Number })
    ])
    let readings = 0
    const members = union.members.map(({ ast }) => {
      const counted = new Proxy(ast, {
        get: (target, name): unknown => {
          if (name === "propertySignatures") readings++
          return Reflect.get(target, name)
        }
      })
      const unknown = Array.from(
        { length: 5_000 },
        (_, index) => new SchemaIssue.Pointer([`name${index}`], new SchemaIssue.UnexpectedKey(counted, 1, {}))
      )
      const [first, ...rest] = unknown
      return first === undefined ? assert.fail() : new SchemaIssue.Composite(ast, [first, ...rest], {}, {})
    })
    const faults = describeIssue(new SchemaIssue.AnyOf(union.ast, members, {}, {}))
    assert.lengthOf(faults, 20)
    assert.deepStrictEqual(faults[0], {
      pointer: "#/name0",
      detail: "Is not a member; the members are amount"
    })
    assert.strictEqual(readings, 20)
  })
})
