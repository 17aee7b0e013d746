import { assert, describe, it } from "@effect/vitest"
import { Redacted } from "effect"
import {
  type Fields,
  fieldsFromWire,
  fromWire,
  Mismatch,
  type Shape,
  toWire
} from "../../../src/client/connect/shape.ts"

const at = "2026-11-21T02:33:05.123Z"

const mismatch = (convert: () => unknown): Mismatch => {
  try {
    convert()
  } catch (error) {
    if (error instanceof Mismatch) return error
    throw error
  }
  return assert.fail("the value was accepted")
}

describe("a value of a request", () => {
  const fields: Fields = {
    id: "ses_",
    "at?": "time",
    "kind?": ["is", ["read", "write"]],
    "list?": ["list", "number"],
    "labels?": ["record", "string"],
    "secret?": "string",
    "arguments?": "json",
    "metadata?": "object"
  }
  const id = `ses_${"0".repeat(32)}`

  it("is sent as the service expects it", () => {
    const cyclicFree = { toJSON: () => ({ n: 1 }) }
    const given = {
      id,
      at: new Date(at),
      kind: "read",
      list: [1, 2],
      labels: { a: "b" },
      secret: "s3cret",
      arguments: [null, { deep: new Date(at), absent: undefined }, cyclicFree],
      metadata: JSON.parse(`{"__proto__": {"a": 1}}`),
      unknown: undefined
    }
    assert.strictEqual(
      JSON.stringify(toWire(fields, given)),
      JSON.stringify({
        id,
        at,
        kind: "read",
        list: [1, 2],
        labels: { a: "b" },
        secret: "s3cret",
        arguments: [null, { deep: at }, { n: 1 }],
        metadata: JSON.parse(`{"__proto__": {"a": 1}}`)
      })
    )
    assert.deepStrictEqual(toWire(fields, { id, at: undefined }), { id })
    assert.deepStrictEqual(toWire("time", "2026-11-21T03:33:05.123+01:00"), at)
  })

  it("is refused with its place if the service could not understand it", () => {
    const cycle: Record<string, unknown> = {}
    cycle["self"] = cycle
    const cases: ReadonlyArray<readonly [value: object, pointer: RegExp, detail: RegExp]> = [
      [{}, /^#\/id$/, /^Is missing$/],
      [{ id, argument: {} }, /^#\/argument$/, /^Is not a member; did you mean arguments\?$/],
      [{ id, ["a/b"]: 1 }, /^#\/a~1b$/, /^Is not a member$/],
      [{ id: "ses_1" }, /^#\/id$/, /ses_ and 32 lowercase hex digits/],
      [{ id: `key_${"0".repeat(32)}` }, /^#\/id$/, /ses_/],
      [{ id, at: "tomorrow" }, /^#\/at$/, /RFC 3339/],
      [{ id, at: "2026-02-30T00:00:00Z" }, /^#\/at$/, /RFC 3339/],
      [{ id, at: new Date(Number.NaN) }, /^#\/at$/, /RFC 3339/],
      [{ id, kind: "delete" }, /^#\/kind$/, /"read" or "write"/],
      [{ id, list: [1, "2"] }, /^#\/list\/1$/, /a number/],
      [{ id, list: { 0: 1 } }, /^#\/list$/, /an array/],
      [{ id, labels: { "a/b~c%": 1 } }, /^#\/labels\/a~1b~0c%25$/, /a string/],
      [{ id, arguments: { n: Number.NaN } }, /^#\/arguments\/n$/, /finite/],
      [{ id, arguments: { n: 1n } }, /^#\/arguments\/n$/, /JSON/],
      [{ id, arguments: [undefined] }, /^#\/arguments\/0$/, /JSON/],
      [{ id, arguments: { key: Redacted.make("s3cret") } }, /^#\/arguments\/key$/, /JSON/],
      [{ id, arguments: new Date(Number.NaN) }, /^#\/arguments$/, /JSON/],
      [{ id, arguments: cycle }, /^#\/arguments\/self/, /cycle/],
      [{ id, metadata: [1] }, /^#\/metadata$/, /an object/]
    ]
    for (const [value, pointer, detail] of cases) {
      const found = mismatch(() => toWire(fields, value))
      assert.match(found.pointer, pointer)
      assert.match(found.detail, detail)
      assert.notInclude(found.detail, "s3cret")
    }
  })
})

describe("a value of a response", () => {
  it("has times as Date, and no member that the client does not know", () => {
    const fields: Fields = { at: ["or", ["time", "null"]], json: "json", "note?": "string" }
    const json = JSON.parse(`{"at": "${at}", "__proto__": {"polluted": true}}`)
    const read = fieldsFromWire(fields, { at, json, later: 1 })
    assert.deepStrictEqual(read["at"], new Date(at))
    assert.strictEqual(read["json"], json)
    assert.notProperty(read, "later")
    assert.deepStrictEqual(fieldsFromWire(fields, { at: null, json: 1, note: "n" }), {
      at: null,
      json: 1,
      note: "n"
    })
  })

  it("is refused with the place of what does not match, in the alternative that matches most", () => {
    const shape: Shape = ["list", ["or", [{ kind: ["is", ["a"]], n: "number" }, "null"]]]
    assert.strictEqual(mismatch(() => fromWire(shape, [null, { kind: "a", n: "1" }])).pointer, "#/1/n")
    assert.strictEqual(mismatch(() => fromWire(shape, [1])).pointer, "#/0")
    // An inherited member is not a member.
    assert.strictEqual(mismatch(() => fromWire({ toString: "json" }, {})).pointer, "#/toString")
  })
})
