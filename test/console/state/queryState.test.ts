import { assert, describe, it } from "@effect/vitest"
import { Schema } from "effect"
import { SessionId } from "../../../src/domain/Ids.ts"
import { defineQuery, QueryText } from "../../../src/console/state/queryState.ts"

const parameters = defineQuery({
  status: Schema.Literals(["open", "closed"]),
  text: QueryText,
  page: Schema.NumberFromString.check(Schema.isInt()),
  selected: SessionId
})

const none = { status: undefined, text: undefined, page: undefined, selected: undefined }

describe("State in the address", () => {
  it("valid parameters are decoded, absent ones are undefined", () => {
    assert.deepStrictEqual(parameters.read("?status=open&text=a+b%26c&page=7"), {
      ...none,
      status: "open",
      text: "a b&c",
      page: 7
    })
    assert.deepStrictEqual(parameters.read(""), none)
  })

  it.each([
    "?status=OPEN",
    "?status=open&status=closed",
    "?status[]=open",
    "?text=%20%20",
    `?text=${"a".repeat(201)}`,
    `?text=${"a".repeat(1_000_000)}`,
    "?page=NaN",
    "?page=1.5",
    "?selected=ses_<script>",
    "?selected=tsk_00000000000000000000000000000000",
    "?__proto__=open&constructor=x&toString=1",
    "?%E0%A4%A=%E0%A4%A",
    "?&&=&==="
  ])("the hostile query %s is ignored", (search) => {
    assert.deepStrictEqual(parameters.read(search), none)
  })

  it("a change keeps the other parameters, and undefined removes one", () => {
    assert.strictEqual(
      parameters.write("?tab=one&status=open", { status: "closed", text: "ä & b" }),
      "?tab=one&status=closed&text=%C3%A4+%26+b"
    )
    assert.strictEqual(parameters.write("?status=open", { status: undefined }), "")
    assert.strictEqual(parameters.write("?status=open&status=closed", { status: "open" }), "?status=open")
    assert.strictEqual(parameters.write("?text=x", { text: "" }), "")
  })

  it("a written state is read back", () => {
    const state = { status: "open", text: "=&?#%+ ü", page: -3, selected: undefined } as const
    assert.deepStrictEqual(parameters.read(parameters.write("", state)), state)
  })
})
