import { assert, describe, it } from "@effect/vitest"
import { Result, type Schema } from "effect"
import { compileSchema, type SchemaFault } from "../../../src/domain/tasks/CompiledSchema.ts"
import { exponentialSchema } from "../../support/schemas.ts"

const compiled = (schema: Schema.Json) => Result.getOrThrow(compileSchema(schema))

const rejection = (schema: Schema.Json): SchemaFault => {
  const result = compileSchema(schema)
  if (Result.isSuccess(result)) throw new Error("The schema was accepted")
  return result.failure
}

const order = compiled({
  type: "object",
  additionalProperties: false,
  required: ["order", "items"],
  properties: {
    order: { type: "string" },
    note: { type: ["string", "null"], maxLength: 10 },
    kind: { enum: ["new", "used"] },
    items: {
      type: "array",
      maxItems: 3,
      items: {
        type: "object",
        additionalProperties: false,
        required: ["sku", "qty"],
        properties: {
          sku: { type: "string", pattern: "^[A-Z]{2}-\\d+$" },
          qty: { type: "integer", minimum: 1 }
        }
      }
    }
  }
})

describe("CompiledSchema", () => {
  it("a schema has at most 2,000 subschemas and keywords", () => {
    const withFields = (count: number): Schema.Json => ({
      type: "object",
      properties: Object.fromEntries(
        Array.from({ length: count }, (_, index) => [
          `field${index}`,
          { type: "integer", minimum: 1, maximum: 9, title: "not counted" }
        ])
      )
    })
    // Each field is a subschema with three keywords; the root has two, and is one.
    const smaller = compiled(withFields(499))
    assert.lengthOf(smaller.check({ field0: 0, field498: 10, field499: "any" }), 2)
    assert.deepStrictEqual(rejection(withFields(500)), {
      pointer: "#",
      detail: "The schema has more than 2000 subschemas and keywords together"
    })
  })

  it("a valid value has no errors", () => {
    assert.deepStrictEqual(order.check({ order: "a", note: null, items: [{ sku: "AB-1", qty: 2 }] }), [])
  })

  it("each invalid field is named at any depth, a missing or unexpected property by its own pointer", () => {
    const faults = order.check(
      {
        order: 1,
        "a/b~ü": true,
        note: "far too long",
        kind: "old",
        items: [{ sku: "x", qty: 0, z: 1 }, {}, 5, { sku: "AB-1", qty: 1.5 }]
      },
      "#/correction"
    )
    assert.sameDeepMembers(
      [...faults],
      [
        { pointer: "#/correction/order", detail: "must be string" },
        { pointer: "#/correction/a~1b~0%C3%BC", detail: "is not allowed" },
        { pointer: "#/correction/note", detail: "must NOT have more than 10 characters" },
        { pointer: "#/correction/kind", detail: 'must be one of "new","used"' },
        { pointer: "#/correction/items/3", detail: "must NOT have more than 3 items" },
        { pointer: "#/correction/items/0/sku", detail: 'must match pattern "^[A-Z]{2}-\\d+$"' },
        { pointer: "#/correction/items/0/qty", detail: "must be >= 1" },
        { pointer: "#/correction/items/0/z", detail: "is not allowed" },
        { pointer: "#/correction/items/1/sku", detail: "is required" },
        { pointer: "#/correction/items/1/qty", detail: "is required" },
        { pointer: "#/correction/items/2", detail: "must be object" },
        { pointer: "#/correction/items/3/qty", detail: "must be integer" }
      ]
    )
  })

  it("at most 20 errors are reported", () => {
    assert.lengthOf(order.check({ order: "", items: Array.from({ length: 100 }, () => ({})) }), 20)
  })

  it("no error contains a value", () => {
    const secret = "hunter2-is-my-secret"
    const faults = order.check({
      order: [secret],
      note: secret,
      kind: secret,
      items: [{ sku: secret, qty: secret }]
    })
    assert.isAbove(faults.length, 4)
    assert.notInclude(JSON.stringify(faults), secret)
  })

  it("fields named like members of Object.prototype are validated like others", () => {
    const named = compiled({
      type: "object",
      required: ["constructor", "toString"],
      properties: { valueOf: { type: "string" } }
    })
    assert.deepStrictEqual(
      named.check({}).map(({ pointer }) => pointer),
      ["#/constructor", "#/toString"]
    )
    assert.deepStrictEqual(named.check({ constructor: 1, toString: 2 }), [])
    const closed = compiled({ type: "object", additionalProperties: false })
    assert.strictEqual(closed.check(JSON.parse('{"__proto__":1}'))[0]?.pointer, "#/__proto__")
  })

  it("references within the schema are followed: by pointer, by anchor, and recursively", () => {
    const tree = compiled({
      $id: "https://example.com/tree",
      type: "object",
      properties: { "a b": { $ref: "#/$defs/no%20de" }, name: { $ref: "#text" } },
      $defs: {
        "no de": { type: "object", required: ["name"], properties: { child: { $ref: "#/$defs/no%20de" } } },
        text: { $anchor: "text", type: "string" }
      }
    })
    assert.deepStrictEqual(
      tree.check({ "a b": { name: 1, child: { child: { name: 1 } } }, name: 5 }),
      [
        { pointer: "#/name", detail: "must be string" },
        { pointer: "#/a%20b/child/name", detail: "is required" }
      ].toSorted((left, right) => right.pointer.length - left.pointer.length)
    )
  })

  it("references to the root, by pointer and by anchor, and to `true` and `false` are followed", () => {
    for (const to of ["#", "#top"]) {
      const tree = compiled({
        $id: "https://example.com/tree",
        $anchor: "top",
        type: "object",
        required: ["name"],
        properties: {
          name: { type: "string" },
          children: { type: "array", items: { $ref: to } },
          next: { anyOf: [{ $ref: to }, { type: "null" }] }
        }
      })
      assert.deepStrictEqual(
        tree.check({ name: "a", children: [{ name: "b", children: [{}] }], next: null }),
        [{ pointer: "#/children/0/children/0/name", detail: "is required" }],
        to
      )
      assert.deepInclude(tree.check({ name: "a", next: { name: 5 } }), {
        pointer: "#/next/name",
        detail: "must be string"
      })
    }
    const plain = compiled({
      type: "object",
      properties: { any: { $ref: "#/$defs/any" }, none: { $ref: "#/$defs/none" } },
      $defs: { any: true, none: false }
    })
    assert.deepStrictEqual(plain.check({ any: [1] }), [])
    assert.deepStrictEqual(
      plain.check({ none: 1 }).map(({ pointer }) => pointer),
      ["#/none"]
    )
  })

  it("a root that allows only objects by a reference, or in each of its branches, is accepted", () => {
    const order = { type: "object", properties: { total: { type: "number" } }, required: ["total"] }
    const list = { type: "array", items: { $ref: "#/$defs/Order" } }
    const roots: ReadonlyArray<Readonly<Record<string, Schema.Json>>> = [
      { $ref: "#/$defs/Order" },
      { $schema: "https://json-schema.org/draft/2020-12/schema", $ref: "#/definitions/Order" },
      { $ref: "#/$defs/Alias" },
      { allOf: [{ $ref: "#/$defs/Order" }, { properties: { note: { type: "string" } } }] },
      {
        oneOf: [
          { $ref: "#/$defs/Order" },
          { type: ["object"], required: ["kind"], properties: { kind: true } }
        ]
      }
    ]
    for (const root of roots) {
      const schema = compiled({
        ...root,
        $defs: { Order: order, Alias: { $ref: "#/$defs/Order" } },
        definitions: { Order: order }
      })
      assert.deepStrictEqual(schema.check({ total: 5 }), [], JSON.stringify(root))
      assert.isAbove(schema.check({ total: "5" }).length, 0, JSON.stringify(root))
    }
    const refused: ReadonlyArray<Readonly<Record<string, Schema.Json>>> = [
      { $ref: "#/$defs/List" },
      { anyOf: [{ $ref: "#/$defs/Order" }, { $ref: "#/$defs/List" }] },
      { anyOf: [{ $ref: "#/$defs/Order" }, true] },
      { not: { $ref: "#/$defs/Order" } },
      { type: ["object", "array"] },
      { properties: { total: { type: "number" } } }
    ]
    for (const root of refused) {
      assert.strictEqual(
        rejection({ ...root, $defs: { Order: order, List: list } }).pointer,
        "#/type",
        JSON.stringify(root)
      )
    }
  })

  it("unevaluatedProperties accepts properties that any branch evaluated", () => {
    const branches = (judged: Record<string, Schema.Json>) =>
      compiled({
        type: "object",
        ...judged,
        anyOf: [
          { properties: { b: { const: 1 } }, required: ["b"] },
          { properties: { c: true }, required: ["c"] }
        ],
        unevaluatedProperties: false,
        $defs: { base: { properties: { a: true } } }
      })
    for (const judged of [{ $ref: "#/$defs/base" }, { allOf: [{ $ref: "#/$defs/base" }] }]) {
      const closed = branches(judged)
      assert.deepStrictEqual(closed.check({ a: 1, c: 1 }), [])
      assert.deepStrictEqual(closed.check({ a: 1, b: 1, c: 1 }), [])
      assert.deepStrictEqual(closed.check({ a: 1, b: 2, c: 1 }), [
        { pointer: "#/b", detail: "is not allowed" }
      ])
    }
  })

  it("formats and unknown keywords are annotations", () => {
    const annotated = compiled({
      type: "object",
      "x-tool": { type: "bogus" },
      nullable: true,
      properties: { mail: { type: "string", format: "email", default: 5 } }
    })
    assert.deepStrictEqual(annotated.check({ mail: "nobody" }), [])
  })

  it("the digest is that of the schema's text", () => {
    assert.match(order.digest, /^[0-9a-f]{64}$/)
    assert.notStrictEqual(compiled({ type: "object" }).digest, order.digest)
  })
})

describe("schemas as generators write them", () => {
  const details = (schema: Schema.Json, value: unknown) =>
    compiled(schema)
      .check(value)
      .map(({ detail, pointer }) => `${pointer} ${detail}`)

  it("a pattern with look-around, a back-reference or a large count is not checked, also not in unions", () => {
    for (const pattern of ["^(?!\\.)[a-z.]+$", "(?<=a)b", "^(a|b)\\1$", "^.{1,5000}$"]) {
      const schema = { type: "object", properties: { a: { type: "string", pattern } } }
      assert.deepStrictEqual(details(schema, { a: "?" }), [], pattern)
      assert.deepStrictEqual(details(schema, { a: 1 }), ["#/a must be string"], pattern)
    }
    const a = {
      oneOf: [{ type: "string", pattern: "^(?=a)" }, { type: "string", pattern: "^(?=b)" }, { type: "null" }]
    }
    assert.deepStrictEqual(details({ type: "object", properties: { a } }, { a: "a" }), [])
    assert.isAbove(details({ type: "object", properties: { a } }, { a: 1 }).length, 0)
  })

  it("earlier dialects are read as 2020-12", () => {
    for (const dialect of [
      "http://json-schema.org/draft-06/schema#",
      "http://json-schema.org/draft-07/schema#",
      "https://json-schema.org/draft/2019-09/schema"
    ]) {
      const schema = {
        $schema: dialect,
        type: "object",
        definitions: { A: { type: "string" } },
        properties: { a: { $ref: "#/definitions/A", description: "a text" } }
      }
      assert.deepStrictEqual(details(schema, { a: 1 }), ["#/a must be string"], dialect)
    }
  })

  it("an object or null at the top is an object, and a member of the same type may still be null", () => {
    const schema = { type: ["object", "null"], properties: { next: { $ref: "#" }, name: { type: "string" } } }
    assert.deepStrictEqual(details(schema, null), ["# must be object"])
    assert.deepStrictEqual(details(schema, { next: null, name: "a" }), [])
  })

  it("references lead to the components of a document of OpenAPI", () => {
    const schema = {
      $ref: "#/components/schemas/Order",
      components: {
        schemas: {
          Order: { type: "object", properties: { id: { $ref: "#/components/schemas/Id" } } },
          Id: { type: "integer" }
        }
      }
    }
    assert.deepStrictEqual(details(schema, { id: "x" }), ["#/id must be integer"])
    assert.deepStrictEqual(details(schema, { id: 1 }), [])
  })

  it("errors of a union are those of the branch that its tag chooses", () => {
    const cat = {
      type: "object",
      properties: { kind: { const: "cat" }, lives: { type: "integer", maximum: 9 } }
    }
    const dog = { type: "object", properties: { kind: { const: "dog" }, lives: { const: 1 } } }
    const bird = {
      type: "object",
      required: ["kind", "wings"],
      properties: { kind: { enum: ["bird", "bat"] } }
    }
    for (const keyword of ["oneOf", "anyOf"]) {
      for (const branches of [
        [cat, dog, bird],
        ["cat", "dog", "bird"].map((name) => ({ $ref: `#/$defs/${name}` }))
      ]) {
        const schema = {
          type: "object",
          $defs: { cat, dog, bird },
          properties: { pet: { [keyword]: branches } }
        }
        assert.deepStrictEqual(details(schema, { pet: { kind: "cat", lives: 30 } }), [
          "#/pet/lives must be <= 9"
        ])
        assert.deepStrictEqual(details(schema, { pet: { kind: "bat" } }), ["#/pet/wings is required"])
        // No branch has the tag.
        assert.isAbove(details(schema, { pet: { kind: "cow", lives: 1 } }).length, 2)
      }
    }
  })
})

describe("compileSchema", () => {
  const rejected: ReadonlyArray<readonly [what: string, schema: Schema.Json, pointer: string]> = [
    ["without an object at the top", { type: "array" }, "#/type"],
    ["that is not an object", [], "#"],
    [
      "of another dialect",
      { $schema: "http://json-schema.org/draft-04/schema#", type: "object" },
      "#/$schema"
    ],
    [
      "with a list of items in an earlier dialect",
      {
        $schema: "http://json-schema.org/draft-07/schema#",
        type: "object",
        properties: { a: { items: [{ type: "string" }] } }
      },
      "#/properties/a/items"
    ],
    [
      "with dependencies in an earlier dialect",
      { $schema: "https://json-schema.org/draft/2019-09/schema", type: "object", dependencies: { a: ["b"] } },
      "#/dependencies"
    ],
    [
      "with a keyword beside $ref where it has no effect",
      {
        $schema: "http://json-schema.org/draft-07/schema#",
        type: "object",
        definitions: { A: { type: "string" } },
        properties: { a: { $ref: "#/definitions/A", minLength: 2 } }
      },
      "#/properties/a/$ref"
    ],
    [
      "with look-ahead below not",
      { type: "object", properties: { a: { not: { pattern: "(?=x)" } } } },
      "#/properties/a/not/pattern"
    ],
    [
      "with an invalid component",
      { type: "object", components: { schemas: { A: { type: "text" } } } },
      "#/components/schemas/A/type"
    ],
    [
      "with a keyword of the wrong type",
      { type: "object", properties: { a: { minimum: "5" } } },
      "#/properties/a/minimum"
    ],
    ["with an unknown type", { type: "object", properties: { a: { type: "text" } } }, "#/properties/a/type"],
    [
      "that leads elsewhere",
      { type: "object", properties: { a: { $ref: "https://x.test/y" } } },
      "#/properties/a/$ref"
    ],
    [
      "that leads to a file",
      { type: "object", properties: { a: { $ref: "file:///etc/passwd" } } },
      "#/properties/a/$ref"
    ],
    [
      "that leads to no schema",
      { type: "object", $defs: { a: true }, items: { $ref: "#/$defs" } },
      "#/items/$ref"
    ],
    [
      "that leads to a value",
      { type: "object", examples: [{}], items: { $ref: "#/examples/0" } },
      "#/items/$ref"
    ],
    ["with an $id inside", { type: "object", items: { $id: "https://x.test/y" } }, "#/items/$id"],
    ["with an empty enum", { type: "object", properties: { a: { enum: [] } } }, "#/properties/a/enum"],
    [
      "with a property that the validator passes over",
      { type: "object", properties: JSON.parse('{"__proto__":{"type":"number"}}') },
      "#/properties/__proto__"
    ],
    [
      "that asks which items others have judged",
      { type: "object", properties: { a: { anyOf: [{ items: true }], unevaluatedItems: false } } },
      "#/properties/a/unevaluatedItems"
    ],
    [
      "that asks which properties a condition has judged",
      { type: "object", unevaluatedProperties: false, allOf: [{ if: { required: ["a"] } }] },
      "#/unevaluatedProperties"
    ],
    ["with a dynamic reference", { type: "object", items: { $dynamicRef: "#x" } }, "#/items/$dynamicRef"],
    ["that asks to be asynchronous", { $async: true, type: "object" }, "#/$async"],
    ["with an invalid pattern", { type: "object", items: { pattern: "(x" } }, "#/items/pattern"],
    [
      "with a back-reference",
      { type: "object", patternProperties: { "(a)\\1": true } },
      "#/patternProperties/(a)%5C1"
    ],
    ["that refers to itself for the same value", { type: "object", $ref: "#" }, "#"],
    [
      "that goes in a circle",
      {
        type: "object",
        anyOf: [{ $ref: "#/$defs/a" }],
        $defs: { a: { not: { if: { $ref: "#/$defs/a" } } } }
      },
      "#/$defs/a/not/if"
    ],
    ["over 64 KiB", { type: "object", const: "x".repeat(70_000) }, "#"],
    ["with over 1,000 schemas", { type: "object", properties: many(1_001, {}) }, "#/properties/p999"],
    ["with over 100 branches", { type: "object", oneOf: Array.from({ length: 101 }, () => ({})) }, "#/oneOf"],
    [
      "with over 200 references",
      { type: "object", properties: many(201, { $ref: "#" }) },
      "#/properties/p200/$ref"
    ],
    [
      "with patterns that repeat without end",
      { type: "object", patternProperties: patterns(6) },
      "#/patternProperties/%5Cp%7BL%7D%7B995%7D"
    ],
    ["that is nested too deep", { type: "object", items: nested(33) }, `#${"/items".repeat(33)}`]
  ]
  for (const [what, schema, pointer] of rejected) {
    it(`a schema is rejected with its place: ${what}`, () => {
      assert.strictEqual(rejection(schema).pointer, pointer)
    })
  }

  function many(count: number, schema: Schema.Json): Schema.Json {
    return Object.fromEntries(Array.from({ length: count }, (_, index) => [`p${index}`, schema]))
  }
  function patterns(count: number): Schema.Json {
    return Object.fromEntries(Array.from({ length: count }, (_, index) => [`\\p{L}{${1_000 - index}}`, true]))
  }
  function nested(depth: number): Schema.Json {
    return depth === 1 ? {} : { items: nested(depth - 1) }
  }

  it("no name or value of a schema becomes code", () => {
    const names = [
      "'];globalThis.hit=1;//",
      '"+(globalThis.hit=1)+"',
      "`${globalThis.hit=1}`",
      "\u2028globalThis.hit=1",
      "*/globalThis.hit=1/*"
    ]
    const hostile = compiled({
      type: "object",
      title: "*/globalThis.hit=1/*",
      $id: "https://x.test/*/globalThis.hit=1/*",
      required: names,
      properties: Object.fromEntries(
        names.map((name) => [name, { const: name, enum: names, $comment: name }])
      ),
      dependentRequired: Object.fromEntries(names.map((name) => [name, names]))
    })
    assert.lengthOf(hostile.check({}), names.length)
    assert.lengthOf(hostile.check(Object.fromEntries(names.map((name) => [name, name]))), 0)
    assert.notProperty(globalThis, "hit")
  })
})

describe("CompiledSchema.check has a work limit", () => {
  const tooMuch = "takes too much work to validate against this schema; send a smaller value"
  const check = (schema: Schema.Json, value: unknown) => compiled(schema).check(value)[0]?.detail

  it("a check whose work doubles with each level of nesting is aborted", () => {
    const node = (last: string) => ({
      type: "object",
      properties: { a: { $ref: "#/$defs/n" } },
      required: [last]
    })
    let value: unknown = "end"
    for (let level = 0; level < 60; level++) value = { a: value }
    assert.strictEqual(
      check(
        {
          type: "object",
          properties: { a: { $ref: "#/$defs/n" } },
          $defs: { n: { anyOf: [node("y"), node("z"), false] } }
        },
        value
      ),
      tooMuch
    )
  })

  it("an aborted check of a recursive root reports no errors of alternatives", () => {
    let value: unknown = { a: "end" }
    for (let level = 0; level < 60; level++) value = { a: value, b: 1 }
    assert.strictEqual(
      check(
        {
          type: "object",
          properties: {
            b: { type: "string" },
            a: { anyOf: [{ $ref: "#" }, { $ref: "#" }, { type: ["object", "string"] }] }
          }
        },
        value
      ),
      tooMuch
    )
  })

  it("a check whose work doubles with each reference is aborted", () => {
    const $defs = Object.fromEntries(
      Array.from({ length: 40 }, (_, index) => [
        `d${index}`,
        { allOf: [{ $ref: `#/$defs/d${index + 1}` }, { $ref: `#/$defs/d${index + 1}` }] }
      ])
    )
    assert.strictEqual(
      check({ type: "object", allOf: [{ $ref: "#/$defs/d0" }], $defs: { ...$defs, d40: {} } }, {}),
      tooMuch
    )
  })

  it("the work limit grows with the size of the value", () => {
    assert.strictEqual(check(exponentialSchema(17), {}), tooMuch)
    assert.isUndefined(check(exponentialSchema(17), { a: "x".repeat(100_000) }))
  })

  it("a check that compares large items repeatedly is aborted", () => {
    const items = Array.from({ length: 50_000 }, (_, index) => ({ index }))
    const allOf = Array.from({ length: 100 }, () => ({ uniqueItems: true }))
    assert.strictEqual(check({ type: "object", properties: { a: { allOf } } }, { a: items }), tooMuch)
  })

  it("a check that matches long texts with long patterns is aborted", () => {
    const text = "ab".repeat(20_000)
    const value = { a: Array.from({ length: 100 }, () => text) }
    assert.strictEqual(
      check({ type: "object", properties: { a: { items: { pattern: "(.{100}){10}b$" } } } }, value),
      tooMuch
    )
  })

  it("a check of many enum values for many items is aborted", () => {
    const values = Array.from({ length: 5_000 }, (_, index) => `v${index}`)
    const value = { a: Array.from({ length: 100_000 }, () => "v4999") }
    assert.strictEqual(
      check({ type: "object", properties: { a: { items: { enum: values } } } }, value),
      tooMuch
    )
  })

  it("a check that measures a long text repeatedly is aborted", () => {
    const allOf = Array.from({ length: 100 }, () => ({ maxLength: 10_000_000 }))
    assert.strictEqual(
      check({ type: "object", properties: { a: { allOf } } }, { a: "é".repeat(2_000_000) }),
      tooMuch
    )
  })

  it("a check that finds a million errors is aborted and reports the first", () => {
    const faults = compiled({ type: "object", properties: { a: { items: { type: "string" } } } }).check({
      a: Array.from({ length: 1_000_000 }, (_, index) => index)
    })
    assert.lengthOf(faults, 20)
    assert.deepStrictEqual(faults[0], { pointer: "#/a/0", detail: "must be string" })
  })

  it("a value of 100,000 parts is validated completely", () => {
    const value = { a: Array.from({ length: 100_000 }, (_, index) => ({ id: index, name: `n${index}` })) }
    const item = {
      type: "object",
      required: ["id"],
      properties: { id: { type: "integer" }, name: { type: "string", pattern: "^n\\d+$" } }
    }
    assert.isUndefined(check({ type: "object", properties: { a: { items: item } } }, value))
  })

  it("uniqueItems treats equal values that are written differently as duplicates", () => {
    const unique = compiled({ type: "object", properties: { a: { uniqueItems: true } } })
    assert.lengthOf(
      unique.check({
        a: [
          { x: 1, y: [1] },
          { y: [1], x: 1 }
        ]
      }),
      1
    )
    assert.lengthOf(
      unique.check({ a: [1, "1", '"1"', true, "true", null, "null", [1], "[1]", { x: 1 }, '{"x":1}'] }),
      0
    )
    assert.lengthOf(unique.check({ a: ["x", "x"] }), 1)
  })
})
