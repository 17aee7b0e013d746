import { assert, describe, it } from "@effect/vitest"
import { ExampleId } from "../../../src/domain/Ids.ts"
import type { JsonObject } from "../../../src/domain/tasks/Dataset.ts"
import { addColumns, csvHeader, csvLine, noColumns } from "../../../src/domain/tasks/exampleCsv.ts"

const id = ExampleId.make(`exm_${"0".repeat(12)}7${"0".repeat(3)}8${"0".repeat(15)}`)

const csvOf = (...examples: ReadonlyArray<readonly [input: JsonObject, answer: JsonObject]>) => {
  const columns = noColumns()
  const all = examples.map(([input, answer]) => ({
    id,
    input,
    answer,
    source_feedback_id: null,
    origin: "made" as const
  }))
  for (const example of all) addColumns(columns, example)
  return [csvHeader(columns), ...all.map((example) => csvLine(example, columns))]
}

describe("exampleCsv", () => {
  it("has a column for each member that any example has, and quotes what needs it", () => {
    assert.deepStrictEqual(
      csvOf(
        [{ text: 'a "b", c\nd' }, { n: -1.5 }],
        [
          { text: "", tags: ["x"] },
          { n: null, ok: true }
        ]
      ),
      [
        "id,source_feedback_id,input.text,input.tags,answer.n,answer.ok",
        `${id},,"a ""b"", c\nd",,-1.5,`,
        `${id},,,"[""x""]",,true`
      ]
    )
  })

  it("a text or a name of a member that a spreadsheet would run as a formula is marked as text, and numbers are not", () => {
    const [header, ...lines] = csvOf(
      ...["=1+1", "+a", "-2+3", "\tx", "\uff1d1", "a;=1", "a\t=1", 'a;"=1"', -12, "a=b"].map(
        (value) => [{ ";=2": value }, {}] as const
      )
    )
    assert.strictEqual(header, `id,source_feedback_id,"input.;'=2"`)
    assert.deepStrictEqual(
      lines.map((line) => line.slice(id.length + 2)),
      ["'=1+1", "'+a", "'-2+3", `"'\tx"`, "'\uff1d1", `"a;'=1"`, `"a\t'=1"`, `"a;""'=1"""`, "-12", "a=b"]
    )
  })

  it("a member named like one of every object is a member like others", () => {
    assert.deepStrictEqual(csvOf([{ constructor: "a" }, {}], [{}, { toString: "b" }])[2], `${id},,,b`)
  })
})
