import type { Random } from "./random.ts"

/** A JSON Schema fragment of the OpenAPI document. */
export type SchemaNode = Readonly<Record<string, unknown>>

const isNode = (value: unknown): value is SchemaNode =>
  typeof value === "object" && value !== null && !Array.isArray(value)

const nodes = (value: unknown): ReadonlyArray<SchemaNode> =>
  Array.isArray(value) ? value.filter(isNode) : []

/** Texts that break careless code: encodings, reserved names, injection into SQL, HTML and headers. */
export const texts: readonly [string, ...ReadonlyArray<string>] = [
  "plain",
  "",
  " ",
  "\t\n\r",
  "\u0000",
  "a\u0000b",
  "\ud800",
  "\udfff\ud800",
  "\u202eabc\u202c",
  "\u200b",
  "\ufeff",
  "é".repeat(300),
  "😀".repeat(120),
  "x".repeat(201),
  "x".repeat(5_000),
  "x".repeat(70_000),
  "__proto__",
  "constructor",
  "toString",
  "null",
  "undefined",
  "NaN",
  "-0",
  "1e999",
  "0x7f",
  "9007199254740993",
  "' OR 1=1 --",
  "'; DROP TABLE api_keys; --",
  "$1",
  "%00",
  "%",
  "%zz",
  "../../etc/passwd",
  "${7*7}",
  "{{7*7}}",
  "<script>alert(1)</script>",
  "a@b",
  "ann@acme.example",
  "2026-11-21T02:33:05.123Z",
  "2126-01-31T00:00:00+14:00",
  "0000-01-01T00:00:00Z",
  "9999-12-31T23:59:59.999999999Z",
  "9999-12-31T23:59:59-23:59",
  "2026-02-30T00:00:00Z",
  "https://hooks.acme.com/x",
  "https://127.0.0.1/",
  "https://[::1]/",
  "https://user:pass@acme.com/",
  "https://acme.com:5432/#x",
  "http://169.254.169.254/latest",
  "file:///etc/passwd",
  "https://" + "a".repeat(3_000),
  "approval.requested",
  "admin",
  "*"
]

const numbers: readonly [number, ...ReadonlyArray<number>] = [
  0,
  1,
  -1,
  2,
  49,
  50,
  51,
  100,
  101,
  1e3,
  2_592_000,
  2_592_001,
  2 ** 31 - 1,
  2 ** 31,
  -(2 ** 31),
  2 ** 53,
  -(2 ** 53),
  0.5,
  -0,
  1e-300,
  1e21,
  1e300
]

/** Valid and invalid user-supplied schemas. */
const shapes: readonly [unknown, ...ReadonlyArray<unknown>] = [
  { type: "object", properties: { question: { type: "string" } }, required: ["question"] },
  { type: "object", properties: { total: { type: "number", minimum: 0 } }, additionalProperties: false },
  { type: "object" },
  { type: "string" },
  { type: "object", properties: { a: { $ref: "#/nowhere" } } },
  { type: "object", properties: { a: { pattern: "(a+)+$" } } },
  { type: "object", $ref: "#" },
  { type: "object", $schema: "http://json-schema.org/draft-04/schema#" },
  { type: 7 }
]

/** Values for requests that schemas cannot express. */
export interface Known {
  /** Existing ids by prefix. */
  readonly ids: (prefix: string) => string | undefined
}

const prefixes: Readonly<Record<string, string>> = {
  session_id: "ses",
  task_id: "tsk",
  approval_id: "apr",
  rule_id: "rul",
  endpoint_id: "nep",
  dataset_id: "dst",
  base_dataset_id: "dst",
  comparison_id: "cmp",
  release_id: "rel",
  run_id: "run",
  feedback_id: "fbk",
  actor_id: "key",
  destination_id: "tel"
}

/** An id: usually an existing one, sometimes a well-formed unknown one, sometimes a malformed one. */
export const idOf = (random: Random, known: Known, prefix: string): string => {
  const choice = random.next()
  const made = `${prefix}_${Array.from({ length: 32 }, () => random.below(16).toString(16)).join("")}`
  if (choice < 0.8) return known.ids(prefix) ?? made
  return choice < 0.95 ? made : random.pick(texts)
}

/** Any JSON value, occasionally deep or large. */
export const anything = (random: Random, depth = 0): unknown => {
  switch (random.below(depth > 4 ? 5 : 9)) {
    case 0:
      return null
    case 1:
      return random.chance(0.5)
    case 2:
      return random.pick(numbers)
    case 3:
    case 4:
      return random.pick(texts)
    case 5:
    case 6:
      return Array.from({ length: random.below(4) }, () => anything(random, depth + 1))
    default:
      return Object.fromEntries(
        Array.from({ length: random.below(4) }, () => [random.pick(texts), anything(random, depth + 1)])
      )
  }
}

/** A value that fits the schema. `name` is the property that holds it. */
export const fitting = (
  random: Random,
  known: Known,
  definitions: SchemaNode,
  schema: SchemaNode,
  name = "",
  depth = 0
): unknown => {
  const inner = (node: SchemaNode, property = name) =>
    fitting(random, known, definitions, node, property, depth + 1)
  if (depth > 12) return null
  const reference = schema["$ref"]
  if (typeof reference === "string") {
    const target = definitions[reference.split("/").at(-1) ?? ""]
    return isNode(target) ? inner(target) : null
  }
  const [first, ...others] = [...nodes(schema["anyOf"]), ...nodes(schema["oneOf"])]
  if (first !== undefined) return inner(random.pick([first, ...others]))
  if ("const" in schema) return schema["const"]
  const literals = schema["enum"]
  if (Array.isArray(literals)) return literals[random.below(literals.length)]
  if (name === "input_schema" || name === "answer_schema") return random.pick(shapes)
  switch (schema["type"]) {
    case "null":
      return null
    case "boolean":
      return random.chance(0.5)
    case "integer":
    case "number": {
      const minimum = typeof schema["minimum"] === "number" ? schema["minimum"] : 0
      const maximum = typeof schema["maximum"] === "number" ? schema["maximum"] : 1_000
      return minimum + random.below(Math.min(maximum - minimum + 1, 5_000))
    }
    case "string": {
      const prefix = prefixes[name]
      if (prefix !== undefined) return idOf(random, known, prefix)
      if (name.endsWith("url")) return random.pick(["http://127.0.0.1:9/x", "https://hooks.acme.com/x"])
      if (name.endsWith("_at") || name === "since" || name === "until") return "2126-01-31T00:00:00Z"
      return `${name || "text"} ${random.below(50)}`
    }
    case "array": {
      const item = schema["items"]
      return isNode(item) ? Array.from({ length: 1 + random.below(3) }, () => inner(item)) : []
    }
    default: {
      const properties = schema["properties"]
      if (!isNode(properties)) return anything(random, depth)
      const required = Array.isArray(schema["required"]) ? schema["required"] : []
      return Object.fromEntries(
        Object.entries(properties).flatMap(([property, node]) =>
          isNode(node) && (required.includes(property) || random.chance(0.5))
            ? [[property, inner(node, property)]]
            : []
        )
      )
    }
  }
}

/** A copy of the value with one member changed, removed or added. */
export const spoilt = (random: Random, value: unknown): unknown => {
  if (random.chance(0.25) || typeof value !== "object" || value === null) return anything(random)
  if (Array.isArray(value)) {
    const at = random.below(value.length + 1)
    return random.chance(0.2)
      ? Array.from({ length: 1_500 }, () => value[0])
      : [...value.slice(0, at), spoilt(random, value[at]), ...value.slice(at + 1)]
  }
  const entries = Object.entries(value)
  const at = random.below(entries.length + 1)
  const entry = entries[at]
  if (entry === undefined) return { ...value, [random.pick(texts)]: anything(random) }
  if (random.chance(0.25)) return Object.fromEntries(entries.filter((_, index) => index !== at))
  return Object.fromEntries(
    entries.map(([key, inner], index) => [key, index === at ? spoilt(random, inner) : inner])
  )
}
